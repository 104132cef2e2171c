"""Fault points: how they are armed, and that they do nothing otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
from penstock.core.fault_points import fault_point, fault_span
WRITE = fault_point("test.write")
STEP = fault_span("test.step")
for number in range(4):
    with STEP:
        print(number, flush=True)
        left = WRITE.limit(f"file {number}", 100)
        if left is not None:
            print("torn", left, flush=True)
            WRITE.tear()
"""


def run(faults: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PENSTOCK_FAULT_POINTS": faults},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("faults", "status", "printed"),
    [
        ("", 0, "0 1 2 3"),
        ("test.step.before=kill", -signal.SIGKILL, ""),
        ("test.step.after=kill", -signal.SIGKILL, "0"),
        ("test.step.before#3=exit", 86, "0 1"),
        ("test.write~2=kill", -signal.SIGKILL, "0 1 2"),
        ("test.write=torn:0", -signal.SIGKILL, "0 torn 0"),
        ("test.write#2=torn:half", -signal.SIGKILL, "0 1 torn 50"),
        ("test.write~3=torn:-1", -signal.SIGKILL, "0 1 2 3 torn 99"),
        ("test.step.after#2=raise", 1, "0 1"),
        ("test.write=enospc", 1, "0"),
        ("other=kill; test.step.after#1=sleep:0", 0, "0 1 2 3"),
    ],
)
def test_what_strikes_where(faults: str, status: int, printed: str) -> None:
    found, output, errors = run(faults)
    assert found == status, errors
    assert output.split() == printed.split()


def test_once_in_all_processes(tmp_path: Path) -> None:
    faults = f"test.step.before@{tmp_path}/struck=exit"
    assert run(faults)[0] == 86
    assert run(faults)[0] == 0


def test_notes(tmp_path: Path) -> None:
    assert run(f"*=note:{tmp_path}/notes")[0] == 0
    names = (tmp_path / "notes").read_text().split()
    assert names == ["test.step.before", "test.write", "test.step.after"] * 4


@pytest.mark.parametrize("faults", ["test.step.before", "a=burn", "a#0=kill", "a=kill=exit;="])
def test_a_mistake_is_named(faults: str) -> None:
    status, _, errors = run(faults)
    assert status == 1
    assert "PENSTOCK_FAULT_POINTS holds" in errors
