"""Deciders hold no clock, thread, file or randomness: they import none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import penstock
from penstock.checkpoint.coordination import coordinator

SOURCE = Path(penstock.__file__).parent
AMBIENT = {
    "asyncio",
    "concurrent",
    "io",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def decider_modules() -> set[Path]:
    """The coordinator and everything of ours that it imports, and the job manager's deciders."""
    found: set[Path] = set()
    waiting = [
        Path(coordinator.__file__),
        SOURCE / "jobmanager" / "restart_strategies.py",
        SOURCE / "jobmanager" / "supervision.py",
        SOURCE / "jobmanager" / "high_availability" / "election.py",
    ]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for name in imported(path):
            ours = SOURCE.parent / (name.replace(".", "/") + ".py")
            if name.startswith("penstock.checkpoint.") and ours.exists():
                waiting.append(ours)
    return found


@pytest.mark.parametrize("path", sorted(decider_modules()), ids=lambda path: path.stem)
def test_imports_nothing_ambient(path: Path) -> None:
    modules = {name.partition(".")[0] for name in imported(path)}
    assert not modules & AMBIENT
    builtins = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not builtins & {"open", "print", "input"}


def test_the_walk_finds_the_parts() -> None:
    names = {path.stem for path in decider_modules()}
    assert {"triggering", "coordinator", "state", "steps", "checkpoints"} <= names
