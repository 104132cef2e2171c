"""Starts driver processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.jobmanager.job_directory import FILE_MODE

if TYPE_CHECKING:
    from typing import BinaryIO

    from penstock.jobmanager.job_directory import JobDirectory


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
    """

    module: str  # The module of the driver process.

    def start(
        self, directory: JobDirectory, attempt: int, interpreter: str | None
    ) -> subprocess.Popen[bytes]:
        """Starts it; what it prints is appended to the job's files."""
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
