"""What has become possible after an event: the same list of questions after each one.

Order matters in two places: sinks commit before anything is deleted, and deletions that may begin
do so before the next publication opens.
"""

from __future__ import annotations

from penstock.checkpoint.coordination.commit_steps import publish
from penstock.checkpoint.coordination.coordinator_state import CoordinatorState, Life
from penstock.checkpoint.coordination.facts import CheckpointRestored, TriggerDeclined
from penstock.checkpoint.coordination.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import (
    Close,
    CommitSinks,
    CompleteRequest,
    FinishJob,
    Recover,
    RemovePointers,
    ReReadMetadata,
    ReReadPointer,
    ReserveId,
    ScheduleTick,
)
from penstock.checkpoint.coordination.pending import Phase
from penstock.checkpoint.retention import is_kept
from penstock.core.duration import format_millis
from penstock.core.job import JobStatus


def follow_up(state: CoordinatorState) -> None:
    """Asks every question once; a fenced or closed coordinator does nothing."""
    if state.life in (Life.CLOSED, Life.FENCED):
        return
    _expire(state)
    _re_read(state)
    _commit_sinks(state)
    _delete(state)
    _publish_next(state)
    _finish_stop(state)
    _trigger(state)
    _recover(state)
    _close(state)
    _schedule(state)


def _expire(state: CoordinatorState) -> None:
    if state.publication is not None:
        return
    for pending in list(state.pending.values()):
        if pending.is_abortable and state.now_ms >= pending.deadline_ms:
            message = f"not complete after {format_millis(state.settings.timeout_ms)}"
            state.abort(pending, CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED, message))


def _re_read(state: CoordinatorState) -> None:
    for pending in state.pending.values():
        if pending.retry_ms is None or state.now_ms < pending.retry_ms:
            continue
        state.pending[pending.checkpoint_id] = pending.moved(pending.phase)
        if pending.phase is Phase.METADATA_UNKNOWN:
            state.emit(ReReadMetadata(pending.checkpoint_id))
        else:
            state.emit(ReReadPointer(pending.checkpoint_id))


def _delete(state: CoordinatorState) -> None:
    if state.publication is not None or state.pointer_removal:
        return
    state.emit(*state.deletions.start())
    bases = [p.base.checkpoint_id for p in state.pending.values() if p.base is not None]
    # Savepoints stand alone, and what we do not own is protected by the registry itself.
    retained = [entry.checkpoint_id for entry in state.store.entries if entry.is_deletable]
    if retained or state.pointer_removal is not None:
        # A checkpoint under way may still refer to files of its base.
        lowest_id = min([*retained, *bases], default=state.last_id + 1)
        state.emit(*state.deletions.release(lowest_id))


def _publish_next(state: CoordinatorState) -> None:
    """One publication at a time, in the order of ids, so that none is skipped needlessly."""
    if state.publication is not None:
        return
    ready = [p for p in state.pending.values() if p.phase is Phase.READY_TO_PUBLISH]
    if ready:
        publish(state, min(ready, key=lambda pending: pending.checkpoint_id))


def _commit_sinks(state: CoordinatorState) -> None:
    checkpoint = state.sinks.start(state.now_ms)
    if checkpoint is not None:
        state.emit(CommitSinks(checkpoint))


def _finish_stop(state: CoordinatorState) -> None:
    """A stop with a savepoint is done when its output is visible."""
    if state.stopping is None or not state.sinks.is_clear:
        return
    stopping, state.stopping = state.stopping, None
    state.recover_due = False
    state.emit(CompleteRequest(stopping.request_id, stopping.savepoint))
    if state.life is not Life.ENDING:
        state.emit(FinishJob(stopping.savepoint))


def _trigger(state: CoordinatorState) -> None:
    if state.life not in (Life.RUNNING, Life.STOPPING):
        return
    too_many = state.triggering.add_periodic(state.now_ms)
    if too_many is not None:
        state.decline(too_many)
    while state.publication is None and not state.reserving and not state.discarded_reservation:
        chosen = state.triggering.choose(
            state.now_ms, pending=len(state.pending), deleting=state.deletions.unfinished
        )
        if chosen is None:
            return
        if isinstance(chosen, TriggerDeclined):
            state.decline(chosen)
            continue
        state.reserving = chosen
        state.emit(ReserveId(state.last_id + 1))


def _recover(state: CoordinatorState) -> None:
    """The restore point is certain once no publication can change it any more."""
    undecided = state.stopping or any(
        pending.is_published and not pending.is_abortable for pending in state.pending.values()
    )
    if not state.recover_due or undecided:
        return
    state.recover_due = False
    latest = state.store.latest
    state.emit(Recover(latest))
    if latest is not None:
        state.announce(CheckpointRestored(latest.checkpoint_id, latest.kind, latest.location))
        state.sinks.add(latest)
        _commit_sinks(state)


def _close(state: CoordinatorState) -> None:
    """Pointers first, files last, and nothing before the output is visible."""
    if state.life is not Life.ENDING or state.pending or not state.sinks.is_clear:
        return
    assert state.ending is not None, "an ending job has a status"
    if state.pointer_removal is None:
        keeps = state.keeps_everything or is_kept(state.settings.retention, state.ending)
        entries = () if keeps else state.store.entries
        state.pointer_removal = tuple(e.checkpoint_id for e in entries if e.is_deletable)
        # Also without any: that the job has finished is noted in the same step, or it would begin
        # again where a savepoint stopped it.
        is_noted = not keeps and state.ending is JobStatus.FINISHED and state.store.entries
        state.pointer_is_open = bool(state.pointer_removal or is_noted)
        if state.pointer_is_open:
            state.emit(RemovePointers(state.pointer_removal))
    elif state.pointer_retry_ms is not None and state.now_ms >= state.pointer_retry_ms:
        state.pointer_retry_ms = None
        state.emit(RemovePointers(state.pointer_removal))
    if state.pointer_is_open:
        return
    _delete(state)
    if state.deletions.is_idle and not state.discard_later:
        state.move(Life.CLOSED)
        state.emit(Close())


def _schedule(state: CoordinatorState) -> None:
    """Says when time alone will make something possible."""
    if state.tick_ms is not None and state.now_ms >= state.tick_ms:
        state.tick_ms = None
    times = [state.triggering.next_periodic_ms, state.sinks.retry_ms, state.pointer_retry_ms]
    is_open = state.publication is not None
    for pending in state.pending.values():
        times.append(pending.retry_ms)
        if pending.is_abortable and not is_open:
            times.append(pending.deadline_ms)
    next_ms = min((time for time in times if time is not None), default=None)
    if state.life is Life.CLOSED:
        next_ms = None
    if next_ms != state.tick_ms:
        state.tick_ms = next_ms
        state.emit(ScheduleTick(next_ms))
