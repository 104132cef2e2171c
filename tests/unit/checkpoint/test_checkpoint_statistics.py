"""History and figures of checkpoints: what REST and the command line show."""

from __future__ import annotations

import pytest

from penstock.checkpoint.coordination.checkpoints import (
    CheckpointFailure,
    CompletedCheckpoint,
    FailureReason,
    PendingCheckpoint,
    SavepointFormat,
    SnapshotKind,
    TriggerRequest,
)
from penstock.checkpoint.coordination.events import Restored
from penstock.checkpoint.coordination.instructions import (
    DeclineTrigger,
    DeleteCheckpoint,
    NotifyAborted,
    NotifyCompleted,
    Recover,
    RequestSnapshot,
    WriteMetadata,
)
from penstock.checkpoint.figures import (
    CheckpointFigures,
    Series,
    SubtaskFigures,
    Summary,
    TaskFigures,
    percentile,
)
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.job.documents.checkpoints import details_view

CHECKPOINT, SAVEPOINT = SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT


def triggered(statistics: CheckpointStatistics, number: int, kind: SnapshotKind) -> None:
    request_id = None if kind is CHECKPOINT else "r"
    request = TriggerRequest(number, 0, kind, request_id)
    statistics.apply(RequestSnapshot(number, request), 1_000 * number)


def completed(
    statistics: CheckpointStatistics,
    number: int,
    kind: SnapshotKind = CHECKPOINT,
    *,
    size: int = 10,
    duration_ms: int = 50,
) -> None:
    triggered(statistics, number, kind)
    figures = CheckpointFigures(checkpointed_bytes=size, state_bytes=10 * size)
    pending = PendingCheckpoint(
        number,
        TriggerRequest(number, 0, kind),
        0,
        0,
        epoch=number + 100,
        location=f"chk-{number}",
        figures=figures,
    )
    ended = statistics.apply(NotifyCompleted(pending, duration_ms, 5), 1_000 * number + duration_ms)
    assert ended is not None
    assert (ended.checkpoint_id, ended.status) == (number, "COMPLETED")


def failed(statistics: CheckpointStatistics, number: int) -> None:
    triggered(statistics, number, CHECKPOINT)
    failure = CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED, "not complete after 10 min")
    statistics.apply(NotifyAborted(number, failure, 600), 1_000 * number + 600)


def test_counts_and_latest() -> None:
    statistics = CheckpointStatistics()
    completed(statistics, 1)
    completed(statistics, 2, SAVEPOINT)
    failed(statistics, 3)
    triggered(statistics, 4, CHECKPOINT)
    statistics.apply(Restored(()), 8_000)
    statistics.apply(Recover(None), 8_500)
    statistics.apply(Recover(CompletedCheckpoint(1, location="chk-1")), 9_000)
    counts = statistics.counts
    assert (counts.total, counts.completed, counts.failed) == (4, 2, 1)
    assert (counts.in_progress, counts.restored) == (1, 1)
    latest = statistics.latest
    assert latest.completed is not None
    assert latest.savepoint is not None
    assert latest.failed is not None
    assert latest.restored is not None
    assert [latest.completed.checkpoint_id, latest.savepoint.checkpoint_id] == [1, 2]
    assert latest.savepoint.savepoint_format == SavepointFormat.CANONICAL.value
    assert (latest.failed.failure_reason, latest.failed.failed_ms) == ("CHECKPOINT_EXPIRED", 3_600)
    assert latest.failed.failure_message == "not complete after 10 min"
    assert (latest.restored.restored_ms, latest.restored.location) == (9_000, "chk-1")


def test_history_is_bounded_newest_first_and_keeps_what_is_in_progress() -> None:
    statistics = CheckpointStatistics(history_size=3)
    triggered(statistics, 1, SAVEPOINT)
    for number in range(2, 7):
        completed(statistics, number)
    assert [record.checkpoint_id for record in statistics.history()] == [6, 5, 4, 1]
    assert [record.status for record in statistics.history()][-1] == "IN_PROGRESS"
    assert statistics.find(2) is None
    statistics.apply(DeleteCheckpoint(CompletedCheckpoint(5)), 0)
    record = statistics.find(5)
    assert record is not None
    assert record.is_discarded
    assert record.epoch == 105


def test_a_history_without_room_still_says_what_has_ended() -> None:
    statistics = CheckpointStatistics(history_size=0)
    completed(statistics, 1)
    assert statistics.history() == []
    assert statistics.counts.completed == 1


def test_summary_over_all_that_completed() -> None:
    statistics = CheckpointStatistics(history_size=1)
    for number, (size, duration_ms) in enumerate([(10, 100), (30, 400), (20, 200)], start=1):
        completed(statistics, number, size=size, duration_ms=duration_ms)
    failed(statistics, 4)
    summary = statistics.summary()
    sizes, durations = summary["checkpointed_size"], summary["end_to_end_duration"]
    assert (sizes.min, sizes.max) == (10, 30)
    assert (sizes.avg, summary["state_size"].avg) == (20, 200)
    assert durations.p50 == 200.0
    assert durations.avg == 233


def test_subtask_rows() -> None:
    rows = tuple(
        SubtaskFigures(index, 1_000 + index, 90 + index, 1, 10 * index, 3, 5, 50)
        for index in range(3)
    )
    task = TaskFigures("count", "Count per user", rows)
    statistics = CheckpointStatistics(num_subtasks=4)
    triggered(statistics, 1, CHECKPOINT)
    figures = CheckpointFigures(tasks=(task,))
    pending = PendingCheckpoint(1, TriggerRequest(1, 0), 0, 0, figures=figures)
    statistics.apply(WriteMetadata(pending, None), 0)
    record = statistics.find(1)
    assert record is not None
    assert (record.num_acknowledged, record.num_subtasks, record.latest_ack_ms) == (3, 4, 1_002)
    summary = details_view(record)["subtasks"]["count"]["summary"]
    steps = summary["checkpoint_duration"]
    assert (steps["async"]["min"], steps["async"]["max"]) == (0, 20)
    assert (steps["sync"]["avg"], summary["start_delay"]["avg"]) == (1, 3)
    assert summary["end_to_end_duration"]["avg"] == 91


def test_declined_requests_are_counted_by_reason() -> None:
    statistics = CheckpointStatistics()
    failure = CheckpointFailure(FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS)
    for _ in range(2):
        statistics.apply(DeclineTrigger(TriggerRequest(1, 0), failure), 0)
    assert statistics.declined == {"MINIMUM_TIME_BETWEEN_CHECKPOINTS": 2}
    assert statistics.counts.total == 0


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5], 50, 5.0),
        ([1, 2], 50, 1.5),
        ([1, 2, 3], 50, 2.0),
        ([10, 20, 30, 40], 90, 40.0),  # position 4.5 lies beyond the last value
        ([10, 20, 30, 40], 25, 12.5),  # position 1.25: a quarter of the way from 10 to 20
        ([10, 20, 30, 40], 10, 10.0),
        (list(range(1, 1_001)), 99, 990.99),
        (list(range(1, 1_001)), 99.9, 999.999),
    ],
)
def test_percentiles(values: list[int], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected)


def test_nothing_is_all_zero() -> None:
    assert Series().summary() == Summary()
