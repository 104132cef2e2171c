"""From a request to a checkpoint with an id: start, requests, stop, reservation (P0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.checkpoint.coordination.completed import SnapshotKind
from penstock.checkpoint.coordination.coordinator_state import CoordinatorState, Life
from penstock.checkpoint.coordination.facts import CheckpointTriggered, TriggerDeclined
from penstock.checkpoint.coordination.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import RequestSnapshot
from penstock.checkpoint.coordination.pending import PendingCheckpoint
from penstock.checkpoint.coordination.triggering import TriggerRequest

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import events

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


def on_ticked(_state: CoordinatorState, _event: events.Ticked) -> None:
    """Changes nothing itself: `follow_up` finds what the time has made possible."""


def on_backlog_changed(state: CoordinatorState, event: events.BacklogChanged) -> None:
    """Switches between the two intervals."""
    state.triggering.set_backlog(state.now_ms, backlog=event.backlog)


def on_tasks_finished(state: CoordinatorState, _event: events.TasksFinished) -> None:
    """Ends checkpointing if the settings say so."""
    if state.settings.checkpoints_after_tasks_finish or state.some_tasks_finished:
        return
    state.some_tasks_finished = True
    for request in state.triggering.stop():
        failure = CheckpointFailure(FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)
        state.decline(TriggerDeclined(request, failure))


def on_trigger_requested(state: CoordinatorState, event: events.TriggerRequested) -> None:
    """Queues a user's request."""
    is_savepoint = event.kind is SnapshotKind.SAVEPOINT
    if not _may_trigger(state, event.request_id):
        return
    target = event.target or state.settings.savepoint_directory
    if is_savepoint and not _has_target(state, event.request_id, target):
        return
    request = TriggerRequest(
        state.triggering.next_number(),
        state.now_ms,
        event.kind,
        event.request_id,
        forced=event.forced,
        target=target if is_savepoint else None,
        format=event.format,
        full=event.full,
    )
    declined = state.triggering.add(request)
    if declined is not None:
        state.decline(declined)


def on_stop_requested(state: CoordinatorState, event: events.StopRequested) -> None:
    """Clears the way and queues the savepoint that the job stops with."""
    if not _may_trigger(state, event.request_id):
        return
    target = event.target or state.settings.savepoint_directory
    if not _has_target(state, event.request_id, target):
        return
    state.move(Life.STOPPING)
    suspend = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
    state.abort_all(suspend, suspend)
    state.triggering.add(
        TriggerRequest(
            state.triggering.next_number(),
            state.now_ms,
            SnapshotKind.SAVEPOINT,
            event.request_id,
            target=target,
            format=event.format,
            stop=True,
            drain=event.drain,
        )
    )


def on_id_reserved(state: CoordinatorState, event: events.IdReserved) -> None:
    """The checkpoint starts: it has an id, and waits for the end of an epoch."""
    assert event.checkpoint_id > state.last_id, f"id {event.checkpoint_id} was used before"
    state.last_id = event.checkpoint_id
    request, state.reserving = state.reserving, None
    if request is None:
        assert state.discarded_reservation, "nobody asked for an id"
        state.discarded_reservation = False
        return
    pending = PendingCheckpoint(
        event.checkpoint_id, request, state.now_ms, state.now_ms + state.settings.timeout_ms
    )
    state.pending[event.checkpoint_id] = pending
    state.announce(CheckpointTriggered(event.checkpoint_id, request))
    state.emit(RequestSnapshot(event.checkpoint_id, request.stop, request.drain))


def on_id_reservation_failed(state: CoordinatorState, event: events.IdReservationFailed) -> None:
    """The storage does not answer: the request fails, and counts as a failed checkpoint."""
    request, state.reserving = state.reserving, None
    if request is None:
        state.discarded_reservation = False
        return
    failure = CheckpointFailure(FailureReason.IO_EXCEPTION, event.message)
    state.decline(TriggerDeclined(request, failure))
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
