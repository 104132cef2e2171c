"""The commit point and what follows it: publication, sinks, subsumption (P7-P11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.coordination.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.coordination.coordinator_state import CoordinatorState, Life, StopResult
from penstock.checkpoint.coordination.facts import CheckpointDiscarded, SinkCommitDelayed
from penstock.checkpoint.coordination.failures import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import (
    CompleteRequest,
    NotifyAborted,
    Publish,
    ReReadPointer,
    StepDown,
)
from penstock.checkpoint.coordination.pending import PendingCheckpoint, Phase
from penstock.checkpoint.coordination.progress_steps import ask_again, complete
from penstock.checkpoint.coordination.sink_backlog import COMMIT_TRIES

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import events


def publish(state: CoordinatorState, pending: PendingCheckpoint) -> None:
    """Asks for the commit point. From here on the checkpoint may count at any moment."""
    state.pending[pending.checkpoint_id] = pending.moved(Phase.PUBLISHING)
    latest = state.store.latest
    kept, dropped = state.store.after_adding(pending.completed())
    state.forgetting = state.deletions.forgotten
    state.emit(
        Publish(
            pending.checkpoint_id,
            None if latest is None else latest.checkpoint_id,
            kept,
            dropped,
            state.forgetting,
        )
    )


def on_published(state: CoordinatorState, event: events.Published) -> None:
    """The checkpoint counts: its output becomes visible, older ones may go."""
    pending = state.find(
        event.checkpoint_id, "Published", Phase.PUBLISHING, Phase.PUBLICATION_UNKNOWN
    )
    if pending is None:
        return
    kept, dropped = state.store.after_adding(pending.completed())
    completed = complete(state, pending)
    state.store.replace(kept)
    state.deletions.pointer_forgot(state.forgetting)
    state.sinks.add(completed)
    _abort_older(state, completed)
    for old in dropped:
        state.announce(CheckpointDiscarded(old.checkpoint_id))
        if old.is_deletable:
            state.deletions.delete(old)
    request_id = pending.request.request_id
    if pending.request.stop:
        assert request_id is not None, "only a user stops a job"
        state.stopping = StopResult(completed, request_id)
    elif request_id is not None:
        state.emit(CompleteRequest(request_id, completed))


def _abort_older(state: CoordinatorState, completed: CompletedCheckpoint) -> None:
    failure = CheckpointFailure(
        FailureReason.CHECKPOINT_SUBSUMED, f"checkpoint {completed.checkpoint_id} completed first"
    )
    for pending in list(state.pending.values()):
        is_older = pending.checkpoint_id < completed.checkpoint_id
        if is_older and pending.request.kind is SnapshotKind.CHECKPOINT:
            state.abort(pending, failure)


def on_publication_failed(state: CoordinatorState, event: events.PublicationFailed) -> None:
    """Gives the checkpoint up: the pointer has certainly not changed."""
    pending = state.find(event.checkpoint_id, "PublicationFailed", Phase.PUBLISHING)
    if pending is not None:
        reason = FailureReason.FINALIZE_CHECKPOINT_FAILURE
        state.abort(pending, CheckpointFailure(reason, event.message), certain=True)


def on_publication_rejected(state: CoordinatorState, event: events.PublicationRejected) -> None:
    """Somebody else leads: stop, and leave everything to them."""
    step_down(state, f"checkpoint {event.checkpoint_id} was not published: {event.message}")


def on_leadership_lost(state: CoordinatorState, event: events.LeadershipLost) -> None:
    """The same, noticed elsewhere."""
    step_down(state, event.message)


def step_down(state: CoordinatorState, message: str) -> None:
    """Fails what people wait for, deletes nothing, and says nothing ever after."""
    failure = CheckpointFailure(FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, message)
    waiting = [*state.triggering.stop(), *([state.reserving] if state.reserving else [])]
    state.reserving = None
    for pending in state.pending.values():
        state.emit(NotifyAborted(pending.checkpoint_id, failure))
        waiting.append(pending.request)
    state.pending.clear()
    request_ids = [request.request_id for request in waiting]
    if state.stopping is not None:
        request_ids.append(state.stopping.request_id)
        state.stopping = None
    for request_id in request_ids:
        if request_id is not None:
            state.emit(CompleteRequest(request_id, failure=failure))
    state.move(Life.FENCED)
    state.emit(StepDown(message))


def on_publication_unknown(state: CoordinatorState, event: events.PublicationUnknown) -> None:
    """Reads again until the outcome is known; until then nothing is deleted or aborted."""
    pending = state.find(
        event.checkpoint_id, "PublicationUnknown", Phase.PUBLISHING, Phase.PUBLICATION_UNKNOWN
    )
    if pending is None:
        return
    moved = ask_again(state, pending, Phase.PUBLICATION_UNKNOWN)
    if moved.retry_ms is None:
        state.emit(ReReadPointer(pending.checkpoint_id))


def on_sinks_committed(state: CoordinatorState, event: events.SinksCommitted) -> None:
    """Everything up to this checkpoint is visible."""
    state.sinks.finished(event.checkpoint_id)


def on_sink_commit_failed(state: CoordinatorState, event: events.SinkCommitFailed) -> None:
    """Repeats the commit later: the checkpoint promises it.

    A sink that fails again and again counts as a failed checkpoint, so that the job fails and its
    restart strategy decides; each attempt commits first what is owed.
    """
    state.announce(SinkCommitDelayed(event.checkpoint_id, event.message))
    state.sinks.failed(event.checkpoint_id, state.now_ms)
    owed = (
        f"the output of checkpoint {event.checkpoint_id} could not be committed in {COMMIT_TRIES} "
        f"tries in a row, the last one: {event.message}"
    )
    if state.life is Life.ENDING and state.sinks.is_stuck:
        # Whoever starts from what is kept commits it; the end of the job must not wait for ever.
        state.sinks.give_up()
        state.keeps_everything = True
    elif state.stopping is not None and state.sinks.exceeds(0):
        _fail_stop(state, owed)
    elif state.life is Life.RUNNING and state.sinks.exceeds(state.settings.tolerable_failures):
        state.fail_job(
            f"{owed}. See the sink's error; checkpoints are complete, and the next attempt "
            "commits first what is owed."
        )


def _fail_stop(state: CoordinatorState, owed: str) -> None:
    """A stop whose output does not become visible fails; its savepoint stays and holds the rest."""
    assert state.stopping is not None
    stopping, state.stopping = state.stopping, None
    message = f"the savepoint {stopping.savepoint.location} is complete, but {owed}"
    failure = CheckpointFailure(FailureReason.FINALIZE_CHECKPOINT_FAILURE, message)
    state.emit(CompleteRequest(stopping.request_id, failure=failure))
    state.fail_job(f"the stop with a savepoint failed: {message}")
