"""`penstock new`: what it makes runs as it is, and nothing is written over."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from command_line import penstock

if TYPE_CHECKING:
    from pathlib import Path


def in_folder(folder: Path, *arguments: str) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_project_runs_and_its_test_passes(tmp_path: Path) -> None:
    folder = tmp_path / "word counts"
    made = penstock("new", str(folder))
    assert made.code == 0
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "config.yaml",
        "job.py",
        "test_job.py",
    ]
    printed = in_folder(folder, "job.py").splitlines()
    assert sorted(printed)[-2:] == ["(to,1)", "(to,2)"]
    assert "1 passed" in in_folder(folder, "-m", "pytest", "test_job.py")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("mine")
    refused = penstock("new", str(tmp_path))
    assert refused.code == 2
    assert "not empty" in refused.out
    assert (tmp_path / "job.py").read_text() == "mine"
