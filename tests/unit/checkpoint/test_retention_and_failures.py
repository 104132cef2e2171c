"""Retention, subsumption and tolerable failures as tables."""

from __future__ import annotations

import pytest

from penstock.checkpoint.coordination.checkpoints import (
    COUNTED,
    CompletedCheckpoint,
    FailureReason,
    SnapshotKind,
    split_surplus,
)
from penstock.checkpoint.coordination.state import FailureCounter
from penstock.checkpoint.settings import RetentionPolicy, is_kept
from penstock.core.job import JobStatus

TABLE = """
    NO_EXTERNALIZED_CHECKPOINTS  delete    delete    delete  delete
    DELETE_ON_CANCELLATION       delete    delete    keep    delete
    RETAIN_ON_CANCELLATION       delete    keep      keep    keep
"""


def test_retention_table() -> None:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    for name, *cells in rows:
        endings = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)
        for ending, cell in zip(endings, cells, strict=True):
            assert is_kept(RetentionPolicy(name), ending) is (cell == "keep"), (name, ending)


def test_running_is_no_ending() -> None:
    with pytest.raises(AssertionError):
        is_kept(RetentionPolicy.RETAIN_ON_CANCELLATION, JobStatus.RUNNING)


def entries(text: str) -> tuple[CompletedCheckpoint, ...]:
    """`1 s2 3` are a checkpoint, a savepoint and a checkpoint."""
    return tuple(
        CompletedCheckpoint(
            int(word.lstrip("s")),
            SnapshotKind.SAVEPOINT if word.startswith("s") else SnapshotKind.CHECKPOINT,
        )
        for word in text.split()
    )


@pytest.mark.parametrize(
    ("before", "retained", "dropped"),
    [
        ("1", 1, ""),
        ("1 2", 1, "1"),
        ("1 2", 2, ""),
        ("1 2 3", 2, "1"),
        ("1 2 3 4 5", 2, "1 2 3"),
        # A restored savepoint is the oldest and goes first.
        ("s860 861", 1, "s860"),
        ("s860 861 862", 2, "s860"),
        # The newest that is not a savepoint stays behind a newer savepoint, and so one too many.
        ("1 s2", 1, ""),
        ("1 2 s3", 1, "1"),
        ("1 s2 s3", 1, "s2"),
        ("s1 s2 s3", 1, "s1 s2"),
        ("1 s2 s3 s4", 2, "s2 s3"),
    ],
)
def test_subsumption(before: str, retained: int, dropped: str) -> None:
    kept, gone = split_surplus(entries(before), retained)
    assert gone == entries(dropped)
    assert sorted((*kept, *gone), key=lambda entry: entry.checkpoint_id) == list(entries(before))


def test_which_reasons_count() -> None:
    assert {reason.name for reason in COUNTED} == {
        "IO_EXCEPTION",
        "CHECKPOINT_ASYNC_EXCEPTION",
        "CHECKPOINT_DECLINED",
        "CHECKPOINT_EXPIRED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


@pytest.mark.parametrize(
    ("tolerable", "story", "fails_at"),
    [
        (0, "f1", 1),
        (0, "a1", None),  # aborted for a reason that does not count
        (1, "f1 f2", 2),
        (1, "f1 s2 f3", None),
        (1, "f1 s2 f3 f4", 4),
        (1, "f1 f1 f1", None),  # each id counts once
        (1, "s5 f3 f4 f6", None),  # failures of ids below the last success do not count
        (1, "s5 f3 f4 f6 f7", 4 + 1),
        (2, "f5 f6 s4 f7", None),  # 4 is the highest success so far, so it resets
    ],
)
def test_counter(tolerable: int, story: str, fails_at: int | None) -> None:
    counter = FailureCounter(tolerable)
    failed_at = None
    for step, word in enumerate(story.split(), start=1):
        kind, number = word[0], int(word[1:])
        if kind == "s":
            counter.succeeded(number)
            continue
        reason = (
            FailureReason.CHECKPOINT_EXPIRED if kind == "f" else FailureReason.JOB_FAILOVER_REGION
        )
        if counter.failed(number, reason):
            failed_at = step
    assert failed_at == fails_at


def test_the_count_starts_anew_when_the_job_failed() -> None:
    counter = FailureCounter(1)
    reason = FailureReason.CHECKPOINT_DECLINED
    assert [counter.failed(number, reason) for number in range(1, 7)] == [False, True] * 3
