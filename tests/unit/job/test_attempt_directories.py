"""What killed attempts leave behind goes; what a later one may still commit stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.attempt_directories import (
    RunningMark,
    directory_name,
    remove_dead_attempts,
    remove_earlier_attempts,
)
from penstock.job.settings import read_settings

if TYPE_CHECKING:
    from penstock.job.settings import JobSettings

JOB = "a" * 32


def attempt(root: Path, epoch: int, job_id: str = JOB, *, owes: bool = False) -> Path:
    directory = root / directory_name(job_id, epoch)
    (directory / "state").mkdir(parents=True)
    (directory / "state" / "file").write_text("")
    (directory / "scratch" / "rows").mkdir(parents=True)
    (directory / "scratch" / "file").write_text("")
    if owes:
        (directory / "scratch" / "sink-1").mkdir()
        (directory / "scratch" / "sink-1" / "rows").write_text("")
    return directory


def test_earlier_attempts_go_and_nothing_else(tmp_path: Path) -> None:
    first, owing = attempt(tmp_path, 1), attempt(tmp_path, 2, owes=True)
    own, later = attempt(tmp_path, 5), attempt(tmp_path, 6)
    other, stranger = attempt(tmp_path, 1, "b" * 32), tmp_path / f"{JOB}-notes"
    stranger.mkdir()
    remove_earlier_attempts(own, JOB)
    assert not first.exists()
    assert [path.name for path in sorted(owing.rglob("*"))] == ["scratch", "sink-1", "rows"]
    for kept in (own, later, other):
        assert len(list(kept.rglob("*"))) == 5
    assert stranger.exists()


def test_a_job_of_a_program_has_nothing_to_remove(tmp_path: Path) -> None:
    own = attempt(tmp_path, 1)
    remove_earlier_attempts(own, JOB)
    assert len(list(own.rglob("*"))) == 5


MARK_AND_DIE = """
import os, signal, sys
from pathlib import Path
from penstock.job.attempt_directories import RunningMark
mark = RunningMark(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_job_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    dead, owing = attempt(tmp_path, 1, "b" * 32), attempt(tmp_path, 1, "c" * 32, owes=True)
    for each in (dead, owing):
        killed = subprocess.run([sys.executable, "-c", MARK_AND_DIE, each], check=False)
        assert killed.returncode == -9
    own, alive = attempt(tmp_path, 1), attempt(tmp_path, 1, "d" * 32)
    unmarked, elsewhere = attempt(tmp_path, 1, "e" * 32), attempt(tmp_path, 1, "f" * 32)
    # A host of the same name that shares the directory: its locks are not seen here.
    (elsewhere / "running").write_text(os.uname().nodename)
    (tmp_path / "a-file").write_text("")
    marks = [RunningMark(each) for each in (own, alive)]
    remove_dead_attempts(own)
    assert not dead.exists()
    assert [path.name for path in sorted(owing.rglob("*"))] == ["scratch", "sink-1", "rows"]
    for kept, files in ((own, 6), (alive, 6), (unmarked, 5), (elsewhere, 6)):
        assert len(list(kept.rglob("*"))) == files
    for mark in marks:
        mark.release()
    assert not (own / "running").exists()


def test_a_mark_of_a_dead_process_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    own, odd = attempt(tmp_path, 1), attempt(tmp_path, 1, "b" * 32)
    (tmp_path / "mark").write_text(os.uname().nodename)
    (odd / "running").symlink_to(tmp_path / "mark")
    remove_dead_attempts(own)
    assert (odd / "state").exists()


def settings_of(directory: Path) -> JobSettings:
    options = {"io.tmp.dirs": str(directory), "penstock.spark.master": "in-process"}
    return read_settings(Configuration.from_dict(options), JOB, 2)


def test_a_process_takes_the_place_of_a_killed_one_with_its_number(tmp_path: Path) -> None:
    """As an application without checkpoints does, when its id is fixed."""
    mine = Path(settings_of(tmp_path).state.directory)
    (mine / "left").touch()
    subprocess.run([sys.executable, "-c", MARK_AND_DIE, mine.parent], check=False)
    assert settings_of(tmp_path).state.directory == str(mine)
    assert not (mine / "left").exists()
    mark = RunningMark(mine.parent)
    with pytest.raises(ConfigurationError, match="is that of another process of job"):
        settings_of(tmp_path)
    mark.release()


def test_a_job_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    configuration.set_string("io.tmp.dirs", str(tmp_path))
    configuration.set_string("python.files", str(tmp_path / "missing.py"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"missing\.py', which does not exist"):
        env.execute()
    assert list(tmp_path.iterdir()) == []
