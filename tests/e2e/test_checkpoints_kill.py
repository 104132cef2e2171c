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
from kill_oracle import PATIENCE_S, checkpoints, latest, pace, start, verify, wait_for_new

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("master", "backend"),
    [
        ("in-process", "hashmap"),
        ("in-process", "rocksdb"),
        pytest.param("local[2]", "hashmap", marks=pytest.mark.spark),
    ],
)
def test_kills(tmp_path: Path, master: str, backend: str) -> None:
    end = 60_000
    kills, highest = 0, 0
    pace(tmp_path)
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
    pace(tmp_path, paced=False)
    job = start(tmp_path, end, master, backend, latest(tmp_path))
    assert job.wait(PATIENCE_S) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    verify(tmp_path, end)
