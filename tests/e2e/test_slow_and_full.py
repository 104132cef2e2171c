"""A full disk, an upload and a whole process that sleep too long.

No restart strategy: all of it is survived by one attempt.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from kill_oracle import PATIENCE_S, log_of, pace, start, verify, wait_for_new

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
RECORDS = 60_000
TIMEOUT_S = 1.0
SETTINGS = {
    "execution__checkpointing__timeout": f"{int(TIMEOUT_S * 1000)} ms",
    "execution__checkpointing__tolerable-failed-checkpoints": "20",
    "execution__checkpointing__data-inline-threshold": "0",
    "restart-strategy__type": "none",
}


def test_one_attempt_survives_all_of_it(tmp_path: Path) -> None:
    faults = (
        "storage.write~/shared/#2=enospc;"
        "storage.write~_metadata#3=enospc;"
        f"checkpoint.upload.after#6=sleep:{1.5 * TIMEOUT_S}"
    )
    pace(tmp_path)
    job = start(tmp_path, RECORDS, "in-process", "hashmap", "", faults, **SETTINGS)
    assert wait_for_new(tmp_path, 2, job), log_of(tmp_path)
    os.kill(job.pid, signal.SIGSTOP)
    time.sleep(2 * TIMEOUT_S)  # The fault itself: nothing is waited for.
    os.kill(job.pid, signal.SIGCONT)
    assert job.wait(PATIENCE_S) == 0, log_of(tmp_path)
    log = (tmp_path / "log.txt").read_text()
    expired = re.findall(r"Checkpoint (\d+) failed: CHECKPOINT_EXPIRED", log)
    assert expired, log_of(tmp_path)
    for number in expired:
        late = rf"A late answer \(UploadCompleted\) for checkpoint {number} is dropped"
        assert len(re.findall(late, log)) <= 1
    assert not [*tmp_path.glob("checkpoints/*/*/.tmp-*")], "a partial file is left"
    verify(tmp_path, RECORDS)
