"""Finds processes of Spark below a job's and kills one: an executor or a Python worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kill_oracle import PATIENCE_S

if TYPE_CHECKING:
    import subprocess

EXECUTOR = "CoarseGrainedExecutorBackend"
# An argument of the daemon, and of the workers that are forked from it.
WORKER = "pyspark.worker"


def processes(job: subprocess.Popen[bytes], words: str) -> list[int]:
    """Processes below the job's whose command line holds these words."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                commands[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(status[1])

    def is_below(pid: int) -> bool:
        while pid in parents and pid != job.pid:
            pid = parents[pid]
        return pid == job.pid

    return [pid for pid, command in commands.items() if words in command and is_below(pid)]


def kill_one(job: subprocess.Popen[bytes], words: str) -> int:
    """Kills the youngest process of a kind, which is a worker and not the daemon above it.

    Returns:
        Its number; 0 when the job ended before there was one.
    """
    deadline = time.monotonic() + PATIENCE_S
    while job.poll() is None:
        if found := processes(job, words):
            try:
                os.kill(max(found), signal.SIGKILL)
            except ProcessLookupError:
                continue
            return max(found)
        assert time.monotonic() < deadline, f"no process runs {words}"
        time.sleep(0.005)
    return 0
