"""Every program in the documentation and every example runs, and prints what the page says.

The Python blocks of a page are one program, run top to bottom in a process of its own; line numbers
in its errors are those of the page. A block ```` ```text output ```` lists lines that the program
prints, in any order, since subtasks run side by side. A block ```` ```python no-run ```` is only
compiled; the text beside it says what it needs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in path.parts and path.exists()
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITH_KAFKA = {"kafka_minutes.py"}
"""Run by tests/e2e/kafka/test_kafka_demo.py, beside a broker."""
TIMEOUT_SECONDS = 600


@dataclass
class Page:
    """What a page runs and promises."""

    program: str = ""
    not_run: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


def read_page(text: str) -> Page:
    """Splits a page; lines outside its program become empty, so that numbers agree."""
    page = Page()
    program: list[str] = []
    kind = None
    for line in text.splitlines():
        fence = re.match(r"```\s*(.*)$", line)
        kept = ""
        if fence:
            kind = fence.group(1).strip() if kind is None else None
            if kind == "python no-run":
                page.not_run.append("")
        elif kind == "python":
            kept = line
        elif kind == "python no-run":
            page.not_run[-1] += line + "\n"
        elif kind == "text output":
            page.output.append(line)
        program.append(kept)
    assert kind is None, f"a block ```{kind} is not closed"
    page.program = "\n".join(program) + "\n"
    return page


def run(program: Path, folder: Path) -> str:
    """Runs a program in an empty folder; returns what it printed."""
    done = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def missing_lines(promised: list[str], printed: str) -> list[str]:
    """Promised lines that were not printed, or not as often."""
    known = sorted({line for line in promised if line}, key=lambda line: (-len(line), line))
    found = [part for line in printed.splitlines() for part in unwoven(line, known) or [line]]
    return sorted((Counter(promised) - Counter(found)).elements())


def unwoven(line: str, known: list[str]) -> list[str] | None:
    """Returns the known lines that a line is made of, if it is.

    `print` writes a text and its newline one after the other, so what the job prints meanwhile in
    a thread of its own may come between them.
    """
    if line in known or not line:
        return [line] if line else []
    for start in known:
        if line.startswith(start) and (rest := unwoven(line[len(start) :], known)) is not None:
            return [start, *rest]
    return None


def test_reading_a_page() -> None:
    page = read_page(
        "# Title\n```python\na = 1\n```\ntext\n```python no-run\nb(\n)\n```\n"
        "```python\nprint(a)\n```\n```text output\n1\n```\n```sh\nls\n```\n"
    )
    assert page.program.splitlines()[2] == "a = 1", "line numbers are the page's"
    assert page.program.split() == ["a", "=", "1", "print(a)"]
    assert page.not_run == ["b(\n)\n"]
    assert page.output == ["1"]


def test_missing_lines_are_counted() -> None:
    assert missing_lines(["a", "a", "b"], "b\na\nc\n") == ["a"]


def test_lines_of_two_threads_are_told_apart() -> None:
    assert missing_lines(["[1]", "key 1", "2"], "[1]key 1\n\n2\n") == []
    assert missing_lines(["[1]", "2"], "[1]key 1\n2 \n") == ["2", "[1]"]
    assert missing_lines(["", "a"], "\na\n") == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_compile(path: Path) -> None:
    page = read_page(path.read_text(encoding="utf-8"))
    for block in (page.program, *page.not_run):
        compile(block, str(path), "exec")


@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if read_page(path.read_text(encoding="utf-8")).program.strip()],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_page_runs(path: Path, tmp_path: Path) -> None:
    page = read_page(path.read_text(encoding="utf-8"))
    program = tmp_path / f"{path.stem}.py"
    program.write_text(page.program)
    assert missing_lines(page.output, run(program, tmp_path)) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if path.name not in WITH_KAFKA],
    ids=lambda path: path.name,
)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    run(path, tmp_path)


def test_examples_are_listed_and_short() -> None:
    index = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    for path in EXAMPLES:
        assert index.count(f"]({path.name})") == 1, f"examples/README.md has no row for {path.name}"
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60, path.name
