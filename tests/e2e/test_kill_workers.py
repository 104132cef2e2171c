"""Executors and Python workers die in the middle of an epoch; Spark's retries suffice (F05, F06).

The cluster is one of processes on this machine, and state files are not shared between workers, as
on machines of their own: a new worker fetches what the dead one had.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kill_oracle import PATIENCE_S, checkpoints, log_of, start, verify, wait_for_new

if TYPE_CHECKING:
    import subprocess

# A new executor takes its time on a busy machine.
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]
RECORDS = 40_000
EXECUTOR = "CoarseGrainedExecutorBackend"
WORKER = "pyspark.daemon"


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
    """Kills the youngest process of a kind, which is a worker and not the daemon above it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := processes(job, words)):
        assert time.monotonic() < deadline, f"no process runs {words}"
        assert job.poll() is None
        time.sleep(0.005)
    os.kill(max(found), signal.SIGKILL)
    return max(found)


@pytest.mark.parametrize("backend", ["hashmap"])
def test_executors_and_workers_are_killed(tmp_path: Path, backend: str) -> None:
    once = tmp_path / "struck"
    job = start(
        tmp_path,
        RECORDS,
        "local-cluster[2,1,1024]",
        backend,
        "",
        # One Python worker dies in the middle of a snapshot.
        f"state.commit.before#2@{once}=kill",
        **{
            "penstock__state__local__shared": "false",
            "execution__checkpointing__interval": "500 ms",
            "execution__checkpointing__data-inline-threshold": "0",
            "restart-strategy__type": "none",
        },
    )
    try:
        assert wait_for_new(tmp_path, 1, job), log_of(tmp_path)
        killed = [kill_one(job, EXECUTOR)]
        assert wait_for_new(tmp_path, 2, job), log_of(tmp_path)
        killed.append(kill_one(job, WORKER))
        assert job.wait(PATIENCE_S) == 0, log_of(tmp_path)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    assert once.exists(), "no worker died in a snapshot"
    assert len(set(killed)) == 2
    assert max(checkpoints(tmp_path), default=0) == 0, "a finished job keeps no checkpoint"
    log = (tmp_path / "log.txt").read_text()
    # Task retries are no failures of the job: without a restart strategy it ran through.
    assert "restarts in" not in log
    verify(tmp_path, RECORDS)
