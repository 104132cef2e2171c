"""Local directories of a job's attempts: `<job id>` for the first, `<job id>-<epoch>` for others.

A process that is killed leaves its directory. The next attempt removes what it does not need: state
is fetched from the checkpoint, but output that waits for its commit may lie in a sink's directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

_SINKS: Final = "sink-"


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
        shutil.rmtree(path / "state", ignore_errors=True)
        for left in (path / "scratch").glob("*"):
            if not left.name.startswith(_SINKS):
                shutil.rmtree(left, ignore_errors=True)
                with contextlib.suppress(OSError):
                    left.unlink()
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
