"""Driver processes: started, alive or not, the same one or a reused number, killed.

A process is known by its number and the time at which it began. Where there is no `/proc`, `ps`
tells both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from penstock.jobmanager.job_directory import FILE_MODE, JobDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.job import JobStatus
    from penstock.jobmanager.job_records import ProcessRecord


_PROC: Final = Path("/proc")
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19
"""Fields of `/proc/<pid>/stat` behind the name of the program."""


def start_time(pid: int) -> str | None:
    """Returns when a living process began, in the system's words; None when there is none."""
    if pid <= 0:
        return None
    if (_PROC / "self" / "stat").exists():
        return _from_proc(pid)
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, began = done.stdout.strip().partition(" ")
    return began.strip() if began and not state.startswith("Z") else None


def _from_proc(pid: int) -> str | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    # One that has ended and whose parent has not looked yet is as good as gone.
    if fields[_STATE_FIELD] in ("Z", "X"):
        return None
    # Counted from the start of the machine, so a number of the time before does not match.
    return f"{_boot_id()}:{fields[_START_FIELD]}"


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_alive(process: ProcessRecord) -> bool:
    """Whether this very process lives."""
    return bool(process.start_time) and start_time(process.pid) == process.start_time


def kill(process: ProcessRecord) -> None:
    """Kills a process and all that it started in its group, if it is still this very one."""
    if is_alive(process):
        kill_group(process.pid)


def kill_group(pid: int) -> None:
    """Kills a living process, and its group when it leads one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


class Child(Protocol):
    """A process that this job manager started; it leads a group of its own."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Returns the exit status, below 0 for a signal; None while it runs."""


class Launcher(Protocol):
    """Starts the process of an attempt."""

    def start(self, directory: JobDirectory, attempt: int, interpreter: str | None) -> Child:
        """Starts it and returns at once."""

    def clean_up(self, directory: JobDirectory, status: JobStatus, leader_epoch: int) -> None:
        """Removes what the dead processes of an ended job left.

        Args:
            directory: Of the job.
            status: How it ended.
            leader_epoch: Above that of every process.
        """


@dataclass(frozen=True, slots=True)
class DriverLauncher:
    """Starts `python -m <module> <job directory> <attempt>`.

    The process leads a session of its own, so it outlives the job manager and hears no Ctrl-C.
    """

    module: str  # The module of the driver process.
    # Removes what dead ones left.
    clean_up: Callable[[JobDirectory, JobStatus, int], None] = lambda *_: None

    def start(
        self, directory: JobDirectory, attempt: int, interpreter: str | None
    ) -> subprocess.Popen[bytes]:
        with _appending(directory.output) as output, _appending(directory.log) as log:
            return subprocess.Popen(
                [interpreter or sys.executable, "-m", self.module, directory.path, str(attempt)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )


def _appending(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return open(os.open(path, flags, FILE_MODE), "ab", buffering=0)


def exit_text(status: int) -> str:
    """Returns an exit status as people read it."""
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"by signal {-status}"
