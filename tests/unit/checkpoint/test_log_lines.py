"""Log lines that people and tools look for (`semantics.md` section 12)."""

from __future__ import annotations

from penstock.checkpoint import facts
from penstock.checkpoint.completed import SnapshotKind
from penstock.checkpoint.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.log_lines import log_line
from penstock.checkpoint.triggering import TriggerRequest

JOB = "582e17d2cc343e6c56255d111bae0191"
FAILURE = CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED, "not complete after 10 min")


def test_flinks_sentences() -> None:
    triggered = facts.CheckpointTriggered(861, TriggerRequest(1, 0))
    assert log_line(triggered, JOB, 1_500_000_000_000) == (
        f"Triggering checkpoint 861 (type=CHECKPOINT) @ 1500000000000 for job {JOB}."
    )
    completed = facts.CheckpointCompleted(
        861, SnapshotKind.CHECKPOINT, "chk-861", 7, 120, 15, CheckpointFigures(4_096)
    )
    assert log_line(completed, JOB, 0) == (
        f"Completed checkpoint 861 for job {JOB} (4096 bytes, checkpointDuration=120 ms, "
        "finalizationTime=15 ms)."
    )


def test_every_fact_has_one() -> None:
    savepoint = TriggerRequest(1, 0, SnapshotKind.SAVEPOINT, "r")
    every = [
        facts.CheckpointTriggered(1, savepoint),
        facts.CheckpointUploaded(1, CheckpointFigures()),
        facts.CheckpointFailed(1, FAILURE, 5),
        facts.CheckpointDiscarded(1),
        facts.CheckpointRestored(1, SnapshotKind.SAVEPOINT, "there"),
        facts.TriggerDeclined(savepoint, FAILURE),
        facts.LateAnswerDropped(1, "UploadCompleted"),
        facts.CleanupFailed(1, "forbidden"),
        facts.SinkCommitDelayed(1, "down"),
    ]
    lines = [log_line(fact, JOB, 0) for fact in every]
    assert all(JOB in line for line in lines)
    assert {type(fact) for fact in every} | {facts.CheckpointCompleted} == set(facts.Fact.__args__)
