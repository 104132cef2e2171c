"""Finds processes of Spark of a job's session and kills one: an executor or a Python worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kill_oracle import PATIENCE_S

if TYPE_CHECKING:
    import subprocess

JVM = "org.apache.spark.deploy.SparkSubmit"
EXECUTOR = "CoarseGrainedExecutorBackend"
# An argument of the daemon, and of the workers that are forked from it.
WORKER = "pyspark.worker"


def processes(job: subprocess.Popen[bytes], words: str) -> list[int]:
    """Processes of the job's session whose command line holds these words, oldest first.

    Workers whose daemon was killed have another parent, and numbers of processes begin again.
    """
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            session, started = int(status[3]), int(status[19])
            if session == job.pid and words in command:
                found.append((started, int(entry.name)))
    return [pid for _, pid in sorted(found)]


def kill_one(job: subprocess.Popen[bytes], words: str) -> int:
    """Kills the youngest process of a kind, which is a worker and not the daemon above it.

    Returns:
        Its number; 0 when the job ended before there was one.
    """
    deadline = time.monotonic() + PATIENCE_S
    while job.poll() is None:
        if found := processes(job, words):
            try:
                os.kill(found[-1], signal.SIGKILL)
            except ProcessLookupError:
                continue
            return found[-1]
        assert time.monotonic() < deadline, f"no process runs {words}"
        time.sleep(0.005)
    return 0
