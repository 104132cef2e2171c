"""Starts driver processes, and keeps their logs within bounds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.jobmanager.job_directory import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.jobmanager.job_directory import JobDirectory

MAX_LOG_BYTES: Final = 64 * 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class DriverLauncher:
    """Starts `python -m <module> <job directory> <attempt>`.

    The process leads a session of its own, so it outlives the job manager and hears no Ctrl-C.

    Attributes:
        module: The module of the driver process.
    """

    module: str

    def start(
        self, directory: JobDirectory, attempt: int, interpreter: str | None
    ) -> subprocess.Popen[bytes]:
        """Starts it; its output is appended to the job's log."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(directory.log, flags, FILE_MODE)
        try:
            return subprocess.Popen(
                [interpreter or sys.executable, "-m", self.module, directory.path, str(attempt)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        finally:
            os.close(log)


def exit_text(status: int) -> str:
    """Returns an exit status as people read it."""
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"by signal {-status}"


def bound_log(log: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Moves a log that has grown too long aside, over the one that was moved before.

    Its writer appends and so goes on at the new beginning. What it writes between copy and cut is
    lost, which is why this happens at large sizes only.
    """
    try:
        if log.stat().st_size <= max_bytes:
            return
    except FileNotFoundError:
        return
    older = log.with_suffix(".1.txt")
    with log.open("rb") as source, older.open("wb") as target:
        os.chmod(older, FILE_MODE)
        while piece := source.read(1024 * 1024):
            target.write(piece)
    os.truncate(log, 0)
