"""Executors and Python workers die in the middle of an epoch; the job goes on by itself.

The cluster is one of processes on this machine, and each executor keeps state files to itself, as
on machines of their own. A new worker finds what a dead one of its executor had; what an executor
had is fetched from the latest checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kill_campaign import kill_group
from kill_oracle import PATIENCE_S, checkpoints, log_of, pace, start, verify, wait_for_new
from kill_processes import EXECUTOR, WORKER, kill_one

if TYPE_CHECKING:
    from pathlib import Path

# A new executor takes its time on a busy machine.
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]
RECORDS = 50_000


@pytest.mark.parametrize("backend", ["hashmap"])
def test_executors_and_workers_are_killed(tmp_path: Path, backend: str) -> None:
    once = tmp_path / "struck"
    pace(tmp_path)
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
            "execution__checkpointing__interval": "100 ms",
            "execution__checkpointing__data-inline-threshold": "0",
            "restart-strategy__type": "fixed-delay",
            "restart-strategy__fixed-delay__attempts": "5",
            "restart-strategy__fixed-delay__delay": "10 ms",
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
            kill_group(job.pid)
            job.wait()
    assert once.exists(), "no worker died in a snapshot"
    assert len(set(killed)) == 2
    assert 0 not in killed, "the job ended before"
    assert max(checkpoints(tmp_path), default=0) == 0, "a finished job keeps no checkpoint"
    log = (tmp_path / "log.txt").read_text()
    # What the executor held is in checkpoints only.
    assert "The job goes on from its latest checkpoint" in log
    verify(tmp_path, RECORDS)
