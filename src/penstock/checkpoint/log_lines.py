"""The coordinator's facts as lines of the log; the first words are Flink's (`semantics.md` 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint import facts
from penstock.checkpoint.completed import SnapshotKind

if TYPE_CHECKING:
    from penstock.checkpoint.triggering import TriggerRequest


def log_line(fact: facts.Fact, job_id: str, wall_ms: int) -> str:
    """Returns the sentence for a fact.

    Args:
        fact: What the coordinator announced.
        job_id: 32 hex digits.
        wall_ms: Wall time of the announcement.
    """
    match fact:
        case facts.CheckpointTriggered(number, request):
            kind = _type(request)
            line = f"Triggering checkpoint {number} (type={kind}) @ {wall_ms} for job {job_id}."
        case facts.CheckpointUploaded(number, figures):
            line = (
                f"Uploaded checkpoint {number} for job {job_id} ({figures.files_new} new files, "
                f"{figures.files_reused} reused, {figures.inline_bytes} bytes inline)."
            )
        case facts.CheckpointCompleted(number, figures=figures):
            line = (
                f"Completed checkpoint {number} for job {job_id} "
                f"({figures.checkpointed_bytes} bytes, checkpointDuration={fact.duration_ms} ms, "
                f"finalizationTime={fact.finalization_ms} ms)."
            )
        case facts.CheckpointFailed(number, failure):
            line = f"Checkpoint {number} of job {job_id} failed: {failure}"
        case facts.CheckpointDiscarded(number):
            line = f"Discarding checkpoint {number} of job {job_id}."
        case facts.CheckpointRestored(number, kind, location):
            line = f"Restoring job {job_id} from {kind.value.lower()} {number} at {location}."
        case facts.TriggerDeclined(request, failure):
            line = f"No {_type(request).lower()} was triggered for job {job_id}: {failure}"
        case facts.LateAnswerDropped(number, answer):
            line = f"Dropped a late {answer} for checkpoint {number} of job {job_id}."
        case facts.CleanupFailed(number, message):
            line = (
                f"Files of checkpoint {number} of job {job_id} could not be deleted and are left "
                f"to the sweep: {message}"
            )
        case facts.SinkCommitDelayed(number, message):
            line = (
                f"Output of checkpoint {number} of job {job_id} is not visible yet, the commit "
                f"is repeated: {message}"
            )
    return line


def _type(request: TriggerRequest) -> str:
    if request.kind is SnapshotKind.CHECKPOINT:
        return "FULL_CHECKPOINT" if request.full else "CHECKPOINT"
    if request.stop:
        return "TERMINATE" if request.drain else "SUSPEND"
    return "SAVEPOINT"
