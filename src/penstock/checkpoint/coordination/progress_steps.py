"""From the end of an epoch to written metadata (P1-P6). The next epochs run meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.backoff import retry_delay_ms
from penstock.checkpoint.coordination.facts import CheckpointCompleted, CheckpointUploaded
from penstock.checkpoint.coordination.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import (
    CompleteRequest,
    ReReadMetadata,
    Upload,
    WriteMetadata,
)
from penstock.checkpoint.coordination.pending import PendingCheckpoint, Phase

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import events
    from penstock.checkpoint.coordination.completed import CompletedCheckpoint
    from penstock.checkpoint.coordination.coordinator_state import CoordinatorState


def on_epoch_completed(state: CoordinatorState, event: events.EpochCompleted) -> None:
    """Hands the job's state to every checkpoint that waits for the end of an epoch."""
    for pending in list(state.pending.values()):
        if pending.phase is not Phase.WAITING_FOR_EPOCH:
            continue
        if pending.request.stop and not event.stopped:
            continue
        base = _base(state, pending)
        moved = pending.moved(
            Phase.UPLOADING, epoch=event.epoch, snapshot=event.snapshot, base=base
        )
        state.pending[pending.checkpoint_id] = moved
        state.emit(
            Upload(pending.checkpoint_id, pending.request, event.epoch, event.snapshot, base)
        )


def _base(state: CoordinatorState, pending: PendingCheckpoint) -> CompletedCheckpoint | None:
    """Only a completed checkpoint may be built upon; savepoints stand alone."""
    if not state.settings.incremental or pending.is_savepoint or pending.request.full:
        return None
    return state.store.base


def on_upload_completed(state: CoordinatorState, event: events.UploadCompleted) -> None:
    """Writes the metadata, the last file."""
    pending = state.find(event.checkpoint_id, "UploadCompleted", Phase.UPLOADING)
    if pending is None:
        return
    state.pending[pending.checkpoint_id] = pending.moved(
        Phase.WRITING_METADATA,
        uploaded=event.uploaded,
        uploaded_ms=state.now_ms,
        figures=event.figures,
    )
    state.announce(CheckpointUploaded(pending.checkpoint_id, event.figures))
    latest = state.store.latest
    state.emit(
        WriteMetadata(
            pending.checkpoint_id,
            pending.request,
            pending.epoch,
            pending.snapshot,
            event.uploaded,
            None if latest is None else latest.checkpoint_id,
        )
    )


def on_upload_failed(state: CoordinatorState, event: events.UploadFailed) -> None:
    """Gives the checkpoint up."""
    pending = state.find(event.checkpoint_id, "UploadFailed", Phase.UPLOADING)
    if pending is not None:
        reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION
        state.abort(pending, CheckpointFailure(reason, event.message))


def on_metadata_written(state: CoordinatorState, event: events.MetadataWritten) -> None:
    """A savepoint is complete now; a checkpoint may be published."""
    pending = state.find(
        event.checkpoint_id, "MetadataWritten", Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN
    )
    if pending is None:
        state.discard_late(event.checkpoint_id, known=True)
        return
    moved = pending.moved(
        Phase.READY_TO_PUBLISH, location=event.location, details=event.details, retries=0
    )
    if moved.is_published:
        state.pending[pending.checkpoint_id] = moved
        return
    completed = complete(state, moved)
    assert moved.request.request_id is not None, "savepoints are never periodic"
    state.emit(CompleteRequest(moved.request.request_id, completed))


def complete(state: CoordinatorState, pending: PendingCheckpoint) -> CompletedCheckpoint:
    """Takes a checkpoint whose commit point has passed out of the pending ones."""
    del state.pending[pending.checkpoint_id]
    state.failures.succeeded(pending.checkpoint_id)
    state.triggering.last_completion_ms = state.now_ms
    completed = pending.completed()
    state.announce(
        CheckpointCompleted(
            pending.checkpoint_id,
            pending.request.kind,
            pending.location,
            pending.epoch,
            state.now_ms - pending.triggered_ms,
            state.now_ms - pending.uploaded_ms,
            pending.figures,
        )
    )
    return completed


def on_metadata_failed(state: CoordinatorState, event: events.MetadataFailed) -> None:
    """Gives the checkpoint up: its metadata does not exist."""
    pending = state.find(
        event.checkpoint_id, "MetadataFailed", Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN
    )
    if pending is None:
        state.discard_late(event.checkpoint_id, known=True)
    else:
        reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE
        failure = CheckpointFailure(reason, event.message)
        state.abort(pending, failure, certain=True)


def on_metadata_unknown(state: CoordinatorState, event: events.MetadataUnknown) -> None:
    """Asks again: at once for the first time, then at growing intervals."""
    pending = state.find(
        event.checkpoint_id, "MetadataUnknown", Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN
    )
    if pending is None:
        state.discard_late(event.checkpoint_id, known=False)
        return
    moved = ask_again(state, pending, Phase.METADATA_UNKNOWN)
    if moved.retry_ms is None:
        state.emit(ReReadMetadata(pending.checkpoint_id))


def ask_again(
    state: CoordinatorState, pending: PendingCheckpoint, phase: Phase
) -> PendingCheckpoint:
    """Moves a checkpoint into an unknown phase; without `retry_ms` the caller asks at once."""
    retries = pending.retries
    moved = pending.moved(phase, retries=retries + 1)
    if retries > 0:
        moved = pending.moved(
            phase, retries=retries + 1, retry_ms=state.now_ms + retry_delay_ms(retries - 1)
        )
    state.pending[pending.checkpoint_id] = moved
    return moved
