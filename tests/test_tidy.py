"""The repository keeps itself tidy: sizes, words, names, docstrings.

Sizes are targets, so what exceeds one is not forbidden but listed in `tests/tidy_sizes.txt`. A
listed size may shrink, never grow; a new entry is a decision made in a review.
"""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "penstock"
SIZES = ROOT / "tests" / "tidy_sizes.txt"
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60
# The last section of a docstring, which is a test; a file does not grow by it.
EXAMPLE = re.compile(r'^ +Example:\n(?:.*\n)*?(?= +""")', re.M)

PUBLIC = ("common", "datastream", "metrics", "snapshots", "testing")
BINARY = {".gif", ".ico", ".parquet", ".png", ".sst", ".woff2"}

# Word -> what to write instead. Flink's nouns are used exactly, and one concept has one word.
BANNED_WORDS = {
    r"\bTODO\b|\bFIXME\b|\bXXX\b|\bHACK\b": "an issue, or the thing itself",
    r"\bsave-points?\b|\bsave points?\b": "savepoint",
    r"\bcheck-points?\b|\bcheck points?\b": "checkpoint",
    r"\bjob-manager\b|\bmaster node\b": "job manager",
    r"\bsub-tasks?\b": "subtask",
    r"\bwater-marks?\b": "watermark",
    r"\b[Uu]tilize|\b[Ll]everag(e|es|ing)\b|\b[Ss]eamless|\b[Bb]lazing": "a plain word",
    r"\b[Aa]s an AI\b|\blanguage model\b|\b[Cc]o-[Aa]uthored-[Bb]y\b": "nothing",
}

# Where this machine or its mirrors might show through.
LEAKS = {
    r"py[p]i\.org|python[h]osted\.org|repo1?\.maven\.[a]pache|npm[j]s\.|artifac[t]ory": (
        "the host of a registry"
    ),
    r"--(extra-)?index-[u]rl|PIP_INDEX_[U]RL|UV_INDEX_[U]RL": "the address of an index",
    r"(?<![\w.:/~-])/(root|home|work|Users)/\w": "an absolute path of one machine",
}

MEANINGLESS_NAMES = {"common_", "helper", "helpers", "misc", "stuff", "tools", "util", "utils"}
SPOKEN_ABBREVIATIONS = {
    "csv",
    "db",
    "fs",
    "hdfs",
    "html",
    "http",
    "io",
    "json",
    "sql",
    "svg",
    "tls",
    "ttl",
}


@cache
def tracked_files() -> tuple[Path, ...]:
    """Files of the repository, new ones included, except what .gitignore names."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in sorted(set(listed.stdout.splitlines())))
    return tuple(path for path in paths if path.is_file() and path.suffix not in BINARY)


def python_files(*folders: str) -> list[Path]:
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def find(patterns: dict[str, str], paths: list[Path]) -> list[str]:
    """Lines `file:line: 'text' - instead` for every match."""
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for pattern, instead in patterns.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{name_of(path)}:{line}: {match.group()!r} - {instead}")
    return found


def measured_sizes() -> Iterator[tuple[str, int]]:
    """Names and lines of every file and function that is larger than its target."""
    for path in python_files("src", "tests", "bench", "examples"):
        text = path.read_text(encoding="utf-8")
        lines = EXAMPLE.sub("", text).count("\n")
        if lines > MAX_FILE_LINES:
            yield name_of(path), lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    yield f"{name_of(path)}:{node.name}", lines


def listed_sizes() -> dict[str, int]:
    rows = (line.split() for line in SIZES.read_text().splitlines() if line[:1] not in ("", "#"))
    return {name: int(lines) for name, lines in rows}


def test_sizes_do_not_grow() -> None:
    listed = listed_sizes()
    measured = dict(measured_sizes())
    grown = [f"{name} {lines}" for name, lines in measured.items() if lines > listed.get(name, 0)]
    assert not grown, (
        f"above {MAX_FILE_LINES} lines a file or {MAX_FUNCTION_LINES} a function; split it by "
        f"noun, or list it in {name_of(SIZES)}:\n" + "\n".join(grown)
    )


def test_listed_sizes_are_still_needed() -> None:
    measured = dict(measured_sizes())
    slack = [
        f"{name} {lines} (now {measured.get(name, 'within the target')})"
        for name, lines in listed_sizes().items()
        if measured.get(name, 0) < lines
    ]
    assert not slack, f"lower or remove in {name_of(SIZES)}:\n" + "\n".join(slack)


def test_no_banned_words() -> None:
    paths = [path for path in tracked_files() if path != Path(__file__).resolve()]
    found = find(BANNED_WORDS, paths)
    assert not found, "\n".join(found)


def test_nothing_of_one_machine() -> None:
    found = find(LEAKS, list(tracked_files()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", python_files("src"), ids=name_of)
def test_source_module(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module says in its docstring what it is for"
    if path.name in ("__init__.py", "__main__.py"):
        return
    if path.relative_to(SOURCE).parts[0] in PUBLIC:
        return  # These names are PyFlink's.
    words = path.stem.strip("_").split("_")
    unclear = [
        word
        for word in words
        if word in MEANINGLESS_NAMES
        or (word not in SPOKEN_ABBREVIATIONS and not re.search("[aeiouy]", word))
        or not re.fullmatch("[a-z][a-z0-9]+", word)
    ]
    assert not unclear, f"{unclear}: name the module after the noun it holds"


@pytest.mark.parametrize(
    "path",
    [
        path
        for package in PUBLIC
        for path in python_files("src")
        if (SOURCE / package) in path.parents and not path.name.startswith("_")
    ],
    ids=name_of,
)
def test_public_module_lists_its_names(path: Path) -> None:
    """`__all__` has no name twice; that it is sorted is ruff's RUF022.

    What a module itself defines is public without a list, and what a facade imports as
    `Name as Name`; for other names of others mypy wants one.
    """
    assignments = [
        node.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    for assignment in assignments:
        names = ast.literal_eval(assignment)
        assert len(names) == len(set(names))


def test_lock_file_names_no_host() -> None:
    assert "://" not in (ROOT / "requirements-dev.lock").read_text()
