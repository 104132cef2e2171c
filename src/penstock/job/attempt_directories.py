"""Local directories of a job's attempts: `<job id>` for the first, `<job id>-<epoch>` for others.

A process that is killed leaves its directory. Its next attempt, or the next job of the same user
on the same machine, removes what is in it: state is fetched from the checkpoint. Only output that
waits for its commit stays, in the directory of its sink. What a machine leaves that goes down stays
for its administrator, or the system's own rules for temporary files: a machine that shares the
directory cannot know that the other one has restarted.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
from pathlib import Path
from typing import Final

_log = logging.getLogger("penstock.job")

_SINKS: Final = "sink-"
_RUNNING: Final = "running"


def directory_name(job_id: str, leader_epoch: int) -> str:
    """Returns the name of an attempt's directory: no two attempts share files."""
    return job_id if leader_epoch == 1 else f"{job_id}-{leader_epoch}"


def remove_earlier_attempts(own: Path, job_id: str) -> None:
    """Removes what attempts before this one have left beside its directory.

    Their processes are dead, or fenced: what they still do counts nothing.
    """
    mine = _epoch(own.name, job_id)
    for path in own.parent.glob(f"{job_id}*"):
        epoch = _epoch(path.name, job_id)
        if epoch is None or mine is None or epoch >= mine or not _is_own(path):
            continue
        clear_attempt(path)


class RunningMark:
    """A locked file in an attempt's directory; the system unlocks it when the process dies."""

    def __init__(self, directory: Path) -> None:
        # Locked before it has its name, so that no other process finds it unlocked.
        path = directory / f".{_RUNNING}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.write(self._descriptor, _this_machine())
        self._path = path.rename(directory / _RUNNING)

    def release(self) -> None:
        """Removes the mark, where its directory stays."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def remove_dead_attempts(own: Path) -> None:
    """Removes what killed processes of any job have left in the directory that `own` lies in."""
    for path in own.parent.iterdir():
        if path != own:
            remove_dead_attempt(path)


def remove_dead_attempt(path: Path) -> None:
    """Removes what a killed process has left in a directory; nothing of one that runs."""
    if not _is_own(path):
        return
    with contextlib.suppress(OSError):
        mark = os.open(path / _RUNNING, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # In a shared directory, locks that other kernels hold may not be seen here.
            if os.read(mark, 1_000) == _this_machine():
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                clear_attempt(path)
                _log.info("Removed local files that a killed process left in %s.", path)
        finally:
            os.close(mark)


def _this_machine() -> bytes:
    """Names the running kernel; two hosts may have one name, and containers share a kernel."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return os.uname().nodename.encode()


def clear_attempt(path: Path) -> None:
    """Removes all of an attempt that does not run, but output that waits for its commit."""
    shutil.rmtree(path / "state", ignore_errors=True)
    for left in (path / "scratch").glob("*"):
        if not left.name.startswith(_SINKS):
            shutil.rmtree(left, ignore_errors=True)
            with contextlib.suppress(OSError):
                left.unlink()
    with contextlib.suppress(OSError):
        (path / _RUNNING).unlink()
    with contextlib.suppress(OSError):
        (path / "scratch").rmdir()
        path.rmdir()


def _is_own(path: Path) -> bool:
    """Says whether this user made it: in a directory of many, anybody can make one of this name."""
    with contextlib.suppress(OSError):
        facts = path.lstat()
        return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    return False


def _epoch(name: str, job_id: str) -> int | None:
    if name == job_id:
        return 1
    number = name.removeprefix(f"{job_id}-")
    return int(number) if number.isdigit() else None
