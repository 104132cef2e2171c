"""A machine without git, Python or Java is told so in one sentence that names the way out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "bootstrap.sh"

GIT = "exit 0"
PYTHON = "exit 0"
OLD_PYTHON = "exit 1"
JAVA = """echo 'openjdk version "21.0.2" 2024-01-16' >&2"""
OLD_JAVA = """echo 'java version "1.8.0_392"' >&2"""
JAVA_STUB = "echo 'Unable to locate a Java Runtime.' >&2; exit 1"


def check(tmp_path: Path, **commands: str) -> tuple[int, str]:
    """Runs the check where only the given commands exist, beside what every machine has."""
    for name in ("dirname", "head", "sed"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for name, body in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", SCRIPT, "--check"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_complete_machine(tmp_path: Path) -> None:
    assert check(tmp_path, git=GIT, python3=PYTHON, java=JAVA) == (0, "")


def test_newer_python_beside_an_old_one(tmp_path: Path) -> None:
    commands = {"git": GIT, "java": JAVA, "python3": OLD_PYTHON, "python3.12": PYTHON}
    assert check(tmp_path, **commands) == (0, "")


@pytest.mark.parametrize(
    ("commands", "named"),
    [
        ({"python3": PYTHON, "java": JAVA}, ["git was not found", "apt-get install git"]),
        ({"git": GIT, "java": JAVA}, ["Python 3.11 or newer was not found", "make PYTHON="]),
        (
            {"git": GIT, "java": JAVA, "python3": OLD_PYTHON},
            ["Python 3.11 or newer was not found", "make PYTHON="],
        ),
        ({"git": GIT, "python3": PYTHON}, ["Java was not found as 'java'", "JAVA_HOME"]),
        (
            {"git": GIT, "python3": PYTHON, "java": JAVA_STUB},
            ["Java was not found as 'java'", "openjdk-17"],
        ),
        ({"git": GIT, "python3": PYTHON, "java": OLD_JAVA}, ["'java' is Java 8,", "Java 17"]),
    ],
    ids=["git", "python", "old python", "java", "java stub", "old java"],
)
def test_missing_command(tmp_path: Path, commands: dict[str, str], named: list[str]) -> None:
    status, message = check(tmp_path, **commands)
    assert status == 1
    assert message.startswith("penstock: ")
    assert message.count("\n") == 1, "one sentence, one line"
    for words in named:
        assert words in message
