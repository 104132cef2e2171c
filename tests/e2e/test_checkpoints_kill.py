"""The job's process is killed with SIGKILL and started again from its latest checkpoint.

What it wrote is read by plain code that shares nothing with Penstock: nothing is lost, nothing is
there twice.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from kill_oracle import checkpoints, latest, start, verify, wait_for_new

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("master", "backend", "end"),
    [
        ("in-process", "hashmap", 200_000),
        ("in-process", "rocksdb", 200_000),
        pytest.param("local[2]", "hashmap", 100_000, marks=pytest.mark.spark),
    ],
)
def test_kills(tmp_path: Path, master: str, backend: str, end: int) -> None:
    kills, highest = 0, 0
    for wanted, delay_s in [(1, 0.0), (2, 0.013), (1, 0.03)]:
        job = start(tmp_path, end, master, backend, latest(tmp_path))
        if not wait_for_new(tmp_path, wanted, job):
            break
        time.sleep(delay_s)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        kills += 1
        # Numbers never come again.
        assert max(checkpoints(tmp_path)) > highest
        highest = max(checkpoints(tmp_path))
    assert kills == 3, (tmp_path / "log.txt").read_text()[-3000:]
    job = start(tmp_path, end, master, backend, latest(tmp_path))
    assert job.wait(200) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    verify(tmp_path, end)
