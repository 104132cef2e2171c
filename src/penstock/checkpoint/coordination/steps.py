"""The way of one checkpoint: one function for each event, in the order of the commit protocol.

A request gets an id, an epoch ends, files and metadata are written, the pointer names the
checkpoint, its output becomes visible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import (
    CheckpointFailure,
    CompletedCheckpoint,
    FailureReason,
    PendingCheckpoint,
    Phase,
    SnapshotKind,
)
from penstock.checkpoint.coordination.state import (
    COMMIT_TRIES,
    CoordinatorState,
    Life,
    StopResult,
    retry_delay_ms,
)

_REFUSALS: Final = {
    Life.CREATED: FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
    Life.RECOVERING: FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
    Life.STOPPING: FailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
    Life.ENDING: FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
    Life.CLOSED: FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
    Life.FENCED: FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
}
"""What a request hears while the job does not run."""


def on_started(state: CoordinatorState, event: events.Started) -> None:
    """Starts the timetable: with the random delay at first, after a restart with the pause."""
    state.move(Life.RUNNING)
    state.some_tasks_finished = False
    pause_ms = state.settings.min_pause_ms
    state.triggering.start(state.now_ms, pause_ms if state.has_started else event.first_delay_ms)
    state.has_started = True


def on_tasks_finished(state: CoordinatorState) -> None:
    """Ends checkpointing if the settings say so."""
    if state.settings.checkpoints_after_tasks_finish or state.some_tasks_finished:
        return
    state.some_tasks_finished = True
    failure = CheckpointFailure(FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)
    for request in state.triggering.stop():
        state.decline(instructions.DeclineTrigger(request, failure))


def on_trigger_requested(state: CoordinatorState, event: events.TriggerRequested) -> None:
    """Queues a user's request; for the savepoint that the job stops with, clears the way first."""
    request = event.request
    assert request.request_id is not None, "users wait for an answer"
    if not _may_trigger(state, request.request_id):
        return
    target = None
    if request.kind is SnapshotKind.SAVEPOINT:
        target = request.target or state.settings.savepoint_directory
        if not _has_target(state, request.request_id, target):
            return
    if request.stop:
        state.move(Life.STOPPING)
        suspend = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        state.abort_all(suspend, suspend)
    number = state.triggering.next_number()
    request = replace(request, number=number, arrived_ms=state.now_ms, target=target)
    declined = state.triggering.add(request)
    if declined is not None:
        state.decline(declined)


def on_id_reserved(state: CoordinatorState, event: events.IdReserved) -> None:
    """The checkpoint starts: it has an id, and waits for the end of an epoch."""
    assert event.checkpoint_id > state.last_id, f"id {event.checkpoint_id} was used before"
    state.last_id = event.checkpoint_id
    request, state.reserving = state.reserving, None
    if request is None:
        assert state.discarded_reservation, "no id was asked for"
        state.discarded_reservation = False
        return
    pending = PendingCheckpoint(
        event.checkpoint_id, request, state.now_ms, state.now_ms + state.settings.timeout_ms
    )
    state.pending[event.checkpoint_id] = pending
    state.emit(instructions.RequestSnapshot(event.checkpoint_id, request))


def on_id_reservation_failed(state: CoordinatorState, event: events.IdReservationFailed) -> None:
    """The storage does not answer: the request fails, and counts as a failed checkpoint."""
    request, state.reserving = state.reserving, None
    if request is None:
        state.discarded_reservation = False
        return
    failure = CheckpointFailure(FailureReason.IO_EXCEPTION, event.message)
    state.decline(instructions.DeclineTrigger(request, failure))
    if request.kind is SnapshotKind.CHECKPOINT:
        state.count_failure(None, failure)


def _may_trigger(state: CoordinatorState, request_id: str) -> bool:
    reason = _REFUSALS.get(state.life)
    if state.some_tasks_finished:
        reason = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    if reason is not None:
        state.refuse(request_id, reason)
    return reason is None


def _has_target(state: CoordinatorState, request_id: str, target: str | None) -> bool:
    if target is None:
        state.refuse(
            request_id,
            FailureReason.TRIGGER_CHECKPOINT_FAILURE,
            "the request names no target directory and none is configured; name one, or set "
            "execution.checkpointing.savepoint-dir",
        )
    return target is not None


# -- P1 to P6: the next epochs run meanwhile -----------------------------------------------------


def on_epoch_completed(state: CoordinatorState, event: events.EpochCompleted) -> None:
    """Hands the job's state to every checkpoint that waits for the end of an epoch."""
    for pending in list(state.pending.values()):
        if pending.phase is not Phase.WAITING_FOR_EPOCH:
            continue
        if pending.request.stop and not event.stopped:
            continue
        moved = pending.moved(
            Phase.UPLOADING,
            epoch=event.epoch,
            snapshot=event.snapshot,
            base=_base(state, pending),
        )
        state.pending[pending.checkpoint_id] = moved
        state.emit(instructions.Upload(moved))


def _base(state: CoordinatorState, pending: PendingCheckpoint) -> CompletedCheckpoint | None:
    """Only a completed checkpoint may be built upon; savepoints stand alone."""
    if not state.settings.incremental or pending.is_savepoint or pending.request.full:
        return None
    return state.store.base


def on_upload_completed(state: CoordinatorState, event: events.UploadCompleted) -> None:
    """Writes the metadata, the last file."""
    pending = state.find(event)
    if pending is None:
        return
    moved = pending.moved(
        Phase.WRITING_METADATA,
        uploaded=event.uploaded,
        uploaded_ms=state.now_ms,
        figures=event.figures,
    )
    state.pending[pending.checkpoint_id] = moved
    latest = state.store.latest
    # The job may have been captured before the checkpoint counted that said so first.
    job = {**state.said, **pending.request.job}
    state.emit(
        instructions.WriteMetadata(moved, None if latest is None else latest.checkpoint_id, job)
    )


def on_metadata_written(state: CoordinatorState, event: events.MetadataWritten) -> None:
    """A savepoint is complete now; a checkpoint may be published."""
    pending = state.find(event)
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
    state.emit(instructions.CompleteRequest(moved.request.request_id, completed))


def complete(state: CoordinatorState, pending: PendingCheckpoint) -> CompletedCheckpoint:
    """Takes a checkpoint whose commit point has passed out of the pending ones."""
    del state.pending[pending.checkpoint_id]
    state.failures.succeeded(pending.checkpoint_id)
    state.triggering.last_completion_ms = state.now_ms
    state.emit(
        instructions.NotifyCompleted(
            pending, state.now_ms - pending.triggered_ms, state.now_ms - pending.uploaded_ms
        )
    )
    return pending.completed()


# -- steps that failed, or may have ---------------------------------------------------------------


def on_step_failed(
    state: CoordinatorState,
    event: events.UploadFailed | events.MetadataFailed | events.PublicationFailed,
) -> None:
    """Gives the checkpoint up: it certainly does not count, and never will."""
    pending = state.find(event)
    if pending is None:
        state.discard_late(event.checkpoint_id, known=True)
        return
    is_upload = isinstance(event, events.UploadFailed)
    reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE
    if is_upload:
        reason = FailureReason.CHECKPOINT_ASYNC_EXCEPTION
    state.abort(pending, CheckpointFailure(reason, event.message), certain=not is_upload)


def on_outcome_unknown(
    state: CoordinatorState, event: events.MetadataUnknown | events.PublicationUnknown
) -> None:
    """Asks again: at once for the first time, then at growing intervals.

    Until the outcome of a publication is known, nothing is deleted or aborted.
    """
    pending = state.find(event)
    if pending is None:
        state.discard_late(event.checkpoint_id, known=False)
        return
    is_metadata = isinstance(event, events.MetadataUnknown)
    phase = Phase.METADATA_UNKNOWN if is_metadata else Phase.PUBLICATION_UNKNOWN
    retries = pending.retries
    retry_ms = state.now_ms + retry_delay_ms(retries - 1) if retries > 0 else None
    moved = pending.moved(phase, retries=retries + 1, retry_ms=retry_ms)
    state.pending[pending.checkpoint_id] = moved
    if retry_ms is None:
        state.emit(asking_again(moved))


def asking_again(pending: PendingCheckpoint) -> instructions.Instruction:
    """Returns what finds out whether the step came about of which that is unknown."""
    if pending.phase is Phase.METADATA_UNKNOWN:
        return instructions.ReReadMetadata(pending.checkpoint_id)
    return instructions.ReReadPointer(pending.checkpoint_id)


# -- P7 to P11: the commit point and what follows ------------------------------------------------


def publish(state: CoordinatorState, pending: PendingCheckpoint) -> None:
    """Asks for the commit point. From here on the checkpoint may count at any moment."""
    state.pending[pending.checkpoint_id] = pending.moved(Phase.PUBLISHING)
    latest = state.store.latest
    kept, dropped = state.store.after_adding(pending.completed())
    state.forgetting = state.deletions.forgotten
    state.emit(
        instructions.Publish(
            pending.checkpoint_id,
            None if latest is None else latest.checkpoint_id,
            kept,
            dropped,
            state.forgetting,
        )
    )


def on_published(state: CoordinatorState, event: events.Published) -> None:
    """The checkpoint counts: its output becomes visible, older ones may go."""
    pending = state.find(event)
    if pending is None:
        return
    kept, dropped = state.store.after_adding(pending.completed())
    completed = complete(state, pending)
    state.store.replace(kept)
    state.deletions.pointer_forgot(state.forgetting)
    state.sinks.add(completed)
    _abort_older(state, completed)
    if pending.request.job:
        state.said = {**state.said, **pending.request.job}
        _abort_contrary(state, completed)
    for old in dropped:
        if old.is_deletable:
            state.deletions.delete(old)
    request_id = pending.request.request_id
    if pending.request.stop:
        assert request_id is not None, "only a user stops a job"
        state.stopping = StopResult(completed, request_id)
    elif request_id is not None:
        state.emit(instructions.CompleteRequest(request_id, completed))


def _abort_older(state: CoordinatorState, completed: CompletedCheckpoint) -> None:
    failure = CheckpointFailure(
        FailureReason.CHECKPOINT_SUBSUMED,
        f"checkpoint {completed.checkpoint_id} completed first",
    )
    for pending in list(state.pending.values()):
        is_older = pending.checkpoint_id < completed.checkpoint_id
        if is_older and pending.request.kind is SnapshotKind.CHECKPOINT:
            state.abort(pending, failure)


def _abort_contrary(state: CoordinatorState, completed: CompletedCheckpoint) -> None:
    """Gives up what would be published next and does not say what this checkpoint said first."""
    failure = CheckpointFailure(
        FailureReason.CHECKPOINT_SUBSUMED,
        f"checkpoint {completed.checkpoint_id} changed the job",
    )
    for pending in list(state.pending.values()):
        has_metadata = pending.phase not in (Phase.WAITING_FOR_EPOCH, Phase.UPLOADING)
        if has_metadata and pending.is_published and pending.is_abortable:
            state.abort(pending, failure)


def on_leadership_lost(
    state: CoordinatorState, event: events.PublicationRejected | events.LeadershipLost
) -> None:
    """Fails what people wait for, deletes nothing, and says nothing after it: another one leads."""
    message = event.message
    if isinstance(event, events.PublicationRejected):
        message = f"checkpoint {event.checkpoint_id} was not published: {message}"
    failure = CheckpointFailure(FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, message)
    waiting = [*state.triggering.stop(), *([state.reserving] if state.reserving else [])]
    state.reserving = None
    for pending in state.pending.values():
        duration_ms = state.now_ms - pending.triggered_ms
        state.emit(instructions.NotifyAborted(pending.checkpoint_id, failure, duration_ms))
        waiting.append(pending.request)
    state.pending.clear()
    for request in waiting:
        if request.request_id is not None:
            state.emit(instructions.CompleteRequest(request.request_id, failure=failure))
    if state.stopping is not None:
        _fail_stop(state, f"another process goes on with the job: {message}")
    state.move(Life.FENCED)
    state.emit(instructions.StepDown(message))


def on_sink_commit_failed(state: CoordinatorState, event: events.SinkCommitFailed) -> None:
    """Repeats the commit later: the checkpoint promises it.

    A sink that fails again and again counts as a failed checkpoint, so that the job fails and its
    restart strategy decides; each attempt commits first what is owed. Where it would be refused
    again, the job ends, and keeps its checkpoints.
    """
    state.sinks.failed(event.checkpoint_id, state.now_ms)
    owed = (
        f"the output of checkpoint {event.checkpoint_id} could not be committed in {COMMIT_TRIES} "
        f"tries in a row, the last one: {event.message}"
    )
    if state.life is Life.ENDING and (event.is_lasting or state.sinks.is_stuck):
        # A job that starts from what is kept commits it; the end of this one must not wait for it.
        state.sinks.give_up()
        state.keeps_everything = True
        if state.stopping is not None:
            _fail_stop(state, owed)
    elif state.stopping is not None and state.sinks.exceeds(0):
        state.fail_job(f"the stop with a savepoint failed: {_fail_stop(state, owed)}")
    elif state.life is Life.RUNNING and state.sinks.exceeds(state.settings.tolerable_failures):
        state.fail_job(
            f"{owed}. Checkpoints are complete: once the cause is gone, the next attempt, or a job "
            "that starts from the latest checkpoint, commits first what is owed.",
            is_lasting=event.is_lasting,
        )


def _fail_stop(state: CoordinatorState, why: str) -> str:
    """A stop fails whose savepoint is complete; returns what the answer says."""
    assert state.stopping is not None
    stopping, state.stopping = state.stopping, None
    message = f"the savepoint {stopping.savepoint.location} is complete, but {why}"
    failure = CheckpointFailure(FailureReason.FINALIZE_CHECKPOINT_FAILURE, message)
    state.emit(instructions.CompleteRequest(stopping.request_id, failure=failure))
    return message
