"""What a console says of checkpoints."""

from __future__ import annotations

import logging

import pytest

from penstock.checkpoint.coordination.checkpoints import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import NotifyAborted
from penstock.checkpoint.statistics import CheckpointJournal
from penstock.core.times import SystemClock


@pytest.mark.parametrize(
    ("reason", "level"),
    [
        (FailureReason.CHECKPOINT_EXPIRED, logging.WARNING),
        (FailureReason.CHECKPOINT_DECLINED, logging.WARNING),
        (FailureReason.JOB_FAILOVER_REGION, logging.INFO),
        (FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, logging.INFO),
    ],
)
def test_what_only_follows_from_a_restart_or_the_end_is_no_warning(
    reason: FailureReason, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.checkpoint")
    journal = CheckpointJournal("job", SystemClock(), 10, 1)
    journal.note(NotifyAborted(7, CheckpointFailure(reason), 5))
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith(f"Checkpoint 7 failed: {reason.name}")
