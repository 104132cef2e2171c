"""Restore, failure and end of the job, and the answers of the clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.backoff import retry_delay_ms
from penstock.checkpoint.coordination.completed import claimed
from penstock.checkpoint.coordination.coordinator_state import CoordinatorState, Life
from penstock.checkpoint.coordination.facts import (
    CheckpointDiscarded,
    CheckpointRestored,
    CleanupFailed,
)
from penstock.checkpoint.coordination.failures import FailureReason
from penstock.checkpoint.retention import ENDINGS
from penstock.core.job import JobStatus

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import events


def on_restored(state: CoordinatorState, event: events.Restored) -> None:
    """Takes over what the pointer, or the user, names; ids go on after the highest one.

    The output of the latest checkpoint is committed once more: nobody knows how far its first
    commit came.
    """
    assert state.life is Life.CREATED, "a snapshot is restored before the first start"
    checkpoints = event.checkpoints
    if event.claim_mode is not None:
        checkpoints = tuple(claimed(each, event.claim_mode) for each in checkpoints)
    state.store.replace(checkpoints)
    state.last_id = max([event.last_id, *(each.checkpoint_id for each in checkpoints)])
    for old in event.subsumed:
        if old.is_deletable:
            state.deletions.delete(old)
    latest = state.store.latest
    if latest is not None:
        state.sinks.add(latest)
        state.announce(CheckpointRestored(latest.checkpoint_id, latest.kind, latest.location))


def on_attempt_failed(state: CoordinatorState, _event: events.AttemptFailed) -> None:
    """Gives up what is pending; recovery waits until it is known what the pointer says."""
    state.move(Life.RECOVERING)
    state.abort_all(FailureReason.JOB_FAILOVER_REGION, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)
    state.recover_due = True


def on_job_ended(state: CoordinatorState, event: events.JobEnded) -> None:
    """Gives up what is pending; `follow_up` cleans up as the retention policy says."""
    assert event.status in ENDINGS, f"{event.status} is no end of a job"
    state.move(Life.ENDING)
    state.ending = event.status
    state.recover_due = False
    reason = FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
    if event.status is JobStatus.SUSPENDED:
        reason = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
    state.abort_all(reason, reason)


def on_deletion_completed(state: CoordinatorState, event: events.DeletionCompleted) -> None:
    """The files are gone."""
    state.deletions.finished(event.checkpoint_id, succeeded=True)


def on_deletion_failed(state: CoordinatorState, event: events.DeletionFailed) -> None:
    """Files may be left: the pointer still lists them as subsumed, and the sweep comes by."""
    state.announce(CleanupFailed(event.checkpoint_id, event.message))
    state.deletions.finished(event.checkpoint_id, succeeded=False)


def on_shared_files_released(state: CoordinatorState, _event: events.SharedFilesReleased) -> None:
    """The next release may begin."""
    state.deletions.released()


def on_pointers_removed(state: CoordinatorState, _event: events.PointersRemoved) -> None:
    """At the end of the job: nothing names these checkpoints any more, their files may go."""
    removed = state.pointer_removal or ()
    state.pointer_removal = ()
    state.pointer_is_open = False
    state.pointer_retry_ms = None
    for checkpoint in state.store.entries:
        if checkpoint.checkpoint_id in removed:
            state.announce(CheckpointDiscarded(checkpoint.checkpoint_id))
            state.deletions.delete(checkpoint)
    state.store.replace(
        checkpoint for checkpoint in state.store.entries if checkpoint.checkpoint_id not in removed
    )


def on_pointer_removal_unknown(
    state: CoordinatorState, _event: events.PointerRemovalUnknown
) -> None:
    """Asks again later; until it is known, no file goes."""
    state.pointer_retry_ms = state.now_ms + retry_delay_ms(state.pointer_retries)
    state.pointer_retries += 1
