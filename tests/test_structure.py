"""The shape of the source: circles, crumbs, names that stand for two things, long constructors.

What breaks a rule is listed in `tests/structure.txt`, as `rule subject`. The list shrinks: an entry
that is not needed any more is refused, and a new one has its reason behind a `#`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
LISTED = ROOT / "tests" / "structure.txt"
FEWEST_LINES = 80
MOST_PARAMETERS = 6
FACADES = ("common", "datastream", "metrics", "snapshots", "testing")
"""Their modules and classes are PyFlink's."""


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return found


def lines_of(module: str) -> int:
    path = SOURCE.joinpath(*module.split("."))
    return path.with_suffix(".py").read_text(encoding="utf-8").count("\n")


def is_package(module: str) -> bool:
    return SOURCE.joinpath(*module.split("."), "__init__.py").is_file()


def short(module: str) -> str:
    return module.removeprefix("penstock.")


def package_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def imports(module: str, *, types: bool = True) -> Iterator[str]:
    """Modules of ours that a module names, also where only types need them if `types` says so."""
    known = modules()
    skipped: set[ast.AST] = set()
    for node in ast.walk(known[module]):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            skipped.update(node.body)
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                yield member if member in known else node.module


def in_circles() -> Iterator[str]:
    """Modules that need themselves by way of others of their package.

    In a facade the types of a chain of calls name each other: a stream gives a windowed stream,
    which gives a stream. There, only imports at run time count.
    """
    needed = {
        name: {
            other
            for other in imports(name, types=package_of(name) not in FACADES)
            if package_of(other) == package_of(name)
        }
        - {name}
        for name in modules()
    }
    yield from (short(name) for name in needed if name in reachable(name, needed))


def reachable(start: str, needed: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(needed[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(needed[name])
    return found


def crumbs() -> Iterator[str]:
    """Small modules that one other module imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name in modules():
        for other in imports(name):
            importers[other].add(name)
    for name in modules():
        if (
            len(importers[name] - {name}) == 1
            and not is_package(name)
            and package_of(name) not in FACADES
            and lines_of(name) < FEWEST_LINES
        ):
            yield short(name)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield module, node


def doubled_names() -> Iterator[str]:
    """Names of public classes that stand for two of them."""
    homes: dict[str, int] = defaultdict(int)
    for _, node in classes():
        if not node.name.startswith("_"):
            homes[node.name] += 1
    yield from (name for name, count in homes.items() if count > 1)


def long_constructors() -> Iterator[str]:
    for module, node in classes():
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                given = item.args
                count = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1
                if count > MOST_PARAMETERS and package_of(module) not in FACADES:
                    yield node.name


RULES: dict[str, tuple[Callable[[], Iterable[str]], str]] = {
    "circle": (in_circles, "modules of a package import each other in a circle"),
    "crumb": (crumbs, f"a module below {FEWEST_LINES} lines that one other imports: put it there"),
    "name": (doubled_names, "two public classes have one name"),
    "parameters": (long_constructors, f"more than {MOST_PARAMETERS} parameters of a constructor"),
}


def listed() -> dict[str, dict[str, str]]:
    """Reason by subject by rule."""
    found: dict[str, dict[str, str]] = {rule: {} for rule in RULES}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        entry, _, reason = line.partition("#")
        if entry.strip():
            rule, subject = entry.split()
            found[rule][subject] = reason.strip()
    return found


@pytest.mark.parametrize("rule", RULES)
def test_structure(rule: str) -> None:
    find, meaning = RULES[rule]
    known = listed()[rule]
    found = set(find())
    new = [f"{rule} {subject}" for subject in sorted(found - known.keys())]
    assert not new, f"{meaning}; or list it in {LISTED.name} with a reason:\n" + "\n".join(new)
    gone = [f"{rule} {subject}" for subject in sorted(known.keys() - found)]
    assert not gone, f"remove from {LISTED.name}, it is not needed:\n" + "\n".join(gone)
