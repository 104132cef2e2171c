"""What a killed process noted is taken up by the next one, and nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.checkpoint import facts
from penstock.checkpoint.completed import SnapshotKind
from penstock.checkpoint.figures import CheckpointFigures, SubtaskFigures, TaskFigures
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.checkpoint.triggering import TriggerRequest
from penstock.core.clock import EpochClock
from penstock.launch.history_file import HistoryFile
from penstock.rest.views.facts import FailureRecord

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = CheckpointFigures(
    checkpointed_bytes=70,
    state_bytes=100,
    tasks=(TaskFigures("id", "task", (SubtaskFigures(0, 9, checkpointed_bytes=70),)),),
)
FAILURE = FailureRecord(5, "ValueError", "no")


class Clock(EpochClock):
    def wall_ms(self) -> int:
        return 9_000

    def monotonic_ms(self) -> int:
        return self.now_ms


def job(statistics: CheckpointStatistics | None) -> Any:
    return SimpleNamespace(
        statistics=statistics,
        failures=(FAILURE,),
        earlier_checkpoints=None,
        settings=SimpleNamespace(leader_epoch=3),
    )


def triggered(number: int) -> facts.CheckpointTriggered:
    return facts.CheckpointTriggered(number, TriggerRequest(number, 0))


def completed(number: int) -> facts.CheckpointCompleted:
    return facts.CheckpointCompleted(
        number, SnapshotKind.CHECKPOINT, f"chk-{number}", 7, 40, 2, FIGURES
    )


def test_the_next_process_goes_on_with_the_history(tmp_path: Path) -> None:
    before = CheckpointStatistics()
    for fact in (triggered(1), completed(1), triggered(2)):
        before.apply(fact, 1_000)
    clock = Clock()
    HistoryFile(tmp_path / "history", clock).refresh(job(before), is_last=False)

    found = job(None)
    found.failures = ()
    HistoryFile(tmp_path / "history", clock).take_up(found)
    assert found.failures == (FAILURE,)
    after = CheckpointStatistics()
    after.resume(found.earlier_checkpoints, 9_000)
    lost, kept = after.history()
    assert kept == replace(before.history()[1], leader_epoch=3)
    assert (lost.status, lost.failed_ms, lost.duration_ms) == ("FAILED", 9_000, 8_000)
    assert after.counts == replace(before.counts, in_progress=0, failed=1)
    assert after.summary() == before.summary()
    assert after.latest.completed is not None
    assert after.latest.completed.figures == FIGURES
    # A third process knows which of the first two took them.
    third = CheckpointStatistics()
    third.resume(after.remembered(5), 9_000)
    assert {record.leader_epoch for record in third.history()} == {3}


def test_it_is_written_when_it_changes_and_not_too_often(tmp_path: Path) -> None:
    path, clock, statistics = tmp_path / "history", Clock(), CheckpointStatistics()
    file = HistoryFile(path, clock)
    file.refresh(job(None), is_last=False)
    assert not path.exists()
    file.refresh(job(statistics), is_last=False)
    first = path.read_bytes()
    statistics.apply(triggered(1), 1_000)
    file.refresh(job(statistics), is_last=False)
    assert path.read_bytes() == first
    clock.now_ms = 2_000
    file.refresh(job(statistics), is_last=False)
    second = path.read_bytes()
    assert second != first
    statistics.apply(completed(1), 1_000)
    file.refresh(job(statistics), is_last=True)
    assert path.read_bytes() != second


def test_a_damaged_history_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("{")
    found = job(None)
    HistoryFile(path, Clock()).take_up(found)
    assert found.earlier_checkpoints is None
