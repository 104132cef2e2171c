"""Processes of the job that is killed, made as copies of one that has imported everything already.

Importing is half of what a short job costs, so a campaign of a thousand kills is cheaper by half.
A copy has run nothing yet: it is as new as a process of `kill_oracle.start`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path


class ForkedJobs:
    """Starts jobs like `kill_oracle.start`, with the same arguments.

    Args:
        program: The module whose `main` runs the job.
    """

    def __init__(self, program: str = "kill_job") -> None:
        self._program = program
        # The server imports by itself, and sees our path in the environment only.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([program, "rocksdict", "penstock.job.local_job"])

    def __call__(
        self,
        directory: Path,
        end: int,
        master: str,
        backend: str,
        start_from: str,
        faults: str = "",
        steered: str = "",
        **settings: str,
    ) -> ForkedJob:
        more = json.dumps({key.replace("__", "."): value for key, value in settings.items()})
        arguments = (directory, end, master, backend, start_from, more)
        process = self._context.Process(
            target=_run, args=(os.getpid(), self._program, faults, steered, arguments)
        )
        process.start()
        return ForkedJob(process)


class ForkedJob:
    """One such process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode


def _run(
    campaign: int, program: str, faults: str, steered: str, arguments: tuple[Any, ...]
) -> None:
    """Runs in the new process."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # It dies with the server.
    threading.Thread(target=_end_with, args=(campaign, os.getppid()), daemon=True).start()
    os.setsid()
    log = os.open(arguments[0] / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["KILL_JOB_STEERED"] = steered
    _arm(faults)
    sys.modules[program].main(*arguments)


def _end_with(campaign: int, server: int) -> None:
    """Kills the server when the campaign has ended, however that was."""
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(campaign)], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)


def _arm(faults: str) -> None:
    """Arms the points as the environment would, which was read when they were imported."""
    from penstock.core import fault_points

    armed = fault_points._parse(faults)
    fault_points._ARMED = armed  # type: ignore[misc]
    for name, point in fault_points.POINTS.items():
        point.__init__(name, tuple(each for each in armed if each.name in ("*", name)))  # type: ignore[misc]
