"""Processes are known by number and time; one manager works in a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import ConfigurationError
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.job_intake import DirectoryLock
from penstock.jobmanager.job_records import ProcessRecord
from penstock.jobmanager.processes import DriverLauncher, exit_text, is_alive, kill, start_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def record(pid: int, began: str | None) -> ProcessRecord:
    return ProcessRecord(pid=pid, start_time=began or "", attempt=1, leader_epoch=1)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for ever, in a session of its own."""
    wait = "import sys; sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", wait], stdin=subprocess.PIPE, start_new_session=True
    )
    yield process
    process.kill()
    process.communicate()


def test_a_process_is_the_same_only_with_its_start(sleeper: subprocess.Popen[bytes]) -> None:
    began = start_time(sleeper.pid)
    assert began
    assert is_alive(record(sleeper.pid, began))
    assert not is_alive(record(sleeper.pid, began[:-1]))
    assert not is_alive(record(sleeper.pid, None))
    assert not is_alive(record(0, None))
    # Another process that got the number is none of our business.
    kill(record(sleeper.pid, "another start"))
    assert sleeper.poll() is None
    kill(record(sleeper.pid, began))
    assert sleeper.wait(200) == -9


def test_a_process_that_nobody_has_waited_for_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    began = start_time(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(record(sleeper.pid, began))
    assert start_time(sleeper.pid) is None


def test_the_end_of_a_process_in_words() -> None:
    assert exit_text(-9) == "by signal 9 (SIGKILL)"
    assert exit_text(3) == "with exit status 3"
    assert exit_text(-250) == "by signal 250"


def test_a_process_is_started_with_its_output_apart_from_its_log(tmp_path: Path) -> None:
    directory = JobDirectory(tmp_path / ("a" * 32))
    directory.create()
    for path in (directory.log, directory.output):
        path.write_text("before\n")
    # Any modules will do: one prints its version and ends, one complains of its arguments.
    launched = [DriverLauncher(name).start(directory, 7, None) for name in ("platform", "zipfile")]
    assert [process.wait(200) for process in launched] == [0, 2]
    assert os.getpgid(0) not in [process.pid for process in launched]
    printed, logged = directory.output.read_text(), directory.log.read_text()
    assert printed.startswith("before\n")
    assert len(printed.splitlines()) == 2
    assert logged.startswith("before\nusage: zipfile")


def test_a_directory_has_one_job_manager(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "state")
    with pytest.raises(ConfigurationError, match=f"process {os.getpid()}"):
        DirectoryLock(tmp_path / "state")
    lock.release()
    DirectoryLock(tmp_path / "state").release()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"penstock\.jobmanager\.directory"):
        DirectoryLock(tmp_path / "file" / "state")
