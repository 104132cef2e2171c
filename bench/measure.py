"""Runs one program as a process of its own: wall time, peak memory, end.

Memory is the sum of resident memory over all processes of the session that the program starts in
(JVMs, Python workers), sampled; pages that processes share count once for each, for every peer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.2
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class RunError(Exception):
    """A program failed or took too long; the text ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run."""

    seconds: float
    peak_bytes: int


def processes_of(session: int) -> list[tuple[int, int]]:
    """Process ids and resident bytes of a session; empty where there is no /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the command's closing bracket: state, parent, group, session; 21 on is memory.
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found.append((int(stat.parent.name), int(fields[21]) * PAGE_BYTES))
    return found


def run_program(
    command: list[str], *, environment: dict[str, str], folder: Path, timeout_seconds: float
) -> Run:
    """Runs a command in a folder; its output goes to `stdout` and `stderr` there."""
    folder.mkdir(parents=True)
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        started = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True
        )
        peak = 0
        try:
            while process.poll() is None:
                peak = max(peak, sum(size for _, size in processes_of(process.pid)))
                if time.monotonic() - started > timeout_seconds:
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
            seconds = time.monotonic() - started
        finally:
            # Workers that a program left behind would slow the next one down.
            for process_id, _ in processes_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        what = "took too long" if seconds > timeout_seconds else f"exit {process.returncode}"
        tail = (folder / "stderr").read_text(errors="replace")[-2000:]
        raise RunError(f"{' '.join(command)}: {what} after {seconds:.0f} s\n{tail}")
    return Run(seconds, peak)
