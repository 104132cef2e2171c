"""The checkpoint coordinator: events in, instructions out.

It holds no clock, thread, file or randomness. Its driver calls `handle` with one event at a
time and the time of a monotonic clock, obeys the instructions in their order, and reports what came
of them as further events. The steps of a checkpoint, and the instruction that each begins with:

    P0   ReserveId            an id is used up, whatever becomes of the checkpoint
    P1   RequestSnapshot      the epoch that runs is the last one in it; P2 is its end
    P3   Upload               in the background, while the next epochs run
    P6   WriteMetadata        the last file; savepoints count from here
    P7   Publish              the commit point: before it a restart restores the one before
    P9   CommitSinks          output becomes visible, also once more after a restart
    P11  DeleteCheckpoint, ReleaseSharedFiles

Invariants, checked by `validate`:
* Ids rise strictly; a failed checkpoint's id is used up.
* One publication is open at a time; while it is, nothing is deleted, triggered or expired.
* Sinks commit only what is published. What is published is not aborted, ever.
* Only what the pointer does not name is deleted.
* After `StepDown` and after `Close` there is silence.

After each event `follow_up` asks the same questions: what has become possible? Order matters in two
places: sinks commit before anything is deleted, and deletions that may begin do so before the next
publication opens.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from penstock.checkpoint.coordination import events, instructions, steps
from penstock.checkpoint.coordination.checkpoints import (
    CheckpointFailure,
    FailureReason,
    Phase,
    claimed,
)
from penstock.checkpoint.coordination.state import CoordinatorState, Life, retry_delay_ms
from penstock.checkpoint.coordination.steps import publish
from penstock.checkpoint.settings import ENDINGS, CheckpointSettings, is_kept
from penstock.core.job import JobStatus
from penstock.core.times import format_millis

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, PendingCheckpoint
    from penstock.checkpoint.coordination.events import Event
    from penstock.checkpoint.coordination.instructions import Instruction


_STORY_LENGTH: Final = 200


class CheckpointCoordinator:
    """Decides about the checkpoints of one job, over all its attempts."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self._state = CoordinatorState(settings)
        self._story: deque[tuple[int, Event, list[Instruction]]] = deque(maxlen=_STORY_LENGTH)

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Takes in an event.

        Args:
            event: What happened.
            now_ms: Time of a monotonic clock.

        Returns:
            What to do, in this order.
        """
        state = self._state
        state.now_ms = max(state.now_ms, now_ms)
        is_over = state.life in (Life.CLOSED, Life.FENCED)
        if not is_over or isinstance(event, events.TriggerRequested):
            _take_in(state, event)
            follow_up(state)
        said, state.out = state.out, []
        self._story.append((state.now_ms, event, said))
        return said

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The newest published checkpoint: where recovery starts."""
        return self._state.store.latest

    @property
    def retained(self) -> tuple[CompletedCheckpoint, ...]:
        """What the pointer names, oldest first."""
        return self._state.store.entries

    @property
    def needed(self) -> tuple[CompletedCheckpoint, ...]:
        """Whose files must stay: what is retained, and what checkpoints under way build on.

        The sweep asks for this, not for `retained`: a base may have been subsumed meanwhile.
        """
        bases = (pending.base for pending in self._state.pending.values())
        found = {base.checkpoint_id: base for base in bases if base is not None}
        found.update((entry.checkpoint_id, entry) for entry in self._state.store.entries)
        return tuple(found[checkpoint_id] for checkpoint_id in sorted(found))

    @property
    def lowest_unfinished_id(self) -> int:
        """The lowest id under way, or the next one; the sweep leaves it and all above alone."""
        return min(self._state.pending, default=self._state.last_id + 1)

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """Checkpoints and savepoints under way, oldest first."""
        return tuple(self._state.pending.values())

    @property
    def last_id(self) -> int:
        return self._state.last_id

    @property
    def life(self) -> Life:
        return self._state.life

    def story(self) -> list[str]:
        """Returns the last events with what each led to, for logs and failing tests."""
        return [
            f"{time_ms} {event}" + "".join(f"\n    -> {each}" for each in said)
            for time_ms, event, said in self._story
        ]

    def validate(self) -> None:
        """Checks the invariants; tests call it after every event."""
        state = self._state
        state.triggering.validate()
        ids = [entry.checkpoint_id for entry in state.store.entries]
        assert ids == sorted(set(ids)), f"retained ids {ids} do not rise"
        known = [*ids, *state.pending]
        assert max(known, default=0) <= state.last_id, "an id beyond the last reserved one"
        assert len(set(known)) == len(known), "an id both pending and completed"
        publishing = [p.checkpoint_id for p in self.pending if p.is_publishing]
        assert len(publishing) <= 1, f"{publishing} are being published at once"
        assert not ids or min(publishing, default=state.last_id) >= ids[-1], "publishing backwards"
        assert not state.deletions.ids & set(known), "deleting what is retained or pending"
        periodic = [p for p in self.pending if p.request.is_periodic]
        assert len(periodic) <= state.settings.concurrency, "too many checkpoints are pending"
        if state.life in (Life.CLOSED, Life.FENCED):
            assert not state.pending, "pending checkpoints after the end"
            assert not state.triggering.queue, "requests after the end"


def _take_in(state: CoordinatorState, event: Event) -> None:  # noqa: PLR0912, PLR0915
    match event:
        case events.Restored():
            on_restored(state, event)
        case events.Started():
            steps.on_started(state, event)
        case events.Ticked():
            pass  # `follow_up` finds what the time has made possible.
        case events.BacklogChanged(backlog):
            state.triggering.set_backlog(state.now_ms, backlog=backlog)
        case events.TasksFinished():
            steps.on_tasks_finished(state)
        case events.AttemptFailed():
            on_attempt_failed(state)
        case events.JobEnded():
            on_job_ended(state, event)
        case events.TriggerRequested():
            steps.on_trigger_requested(state, event)
        case events.IdReserved():
            steps.on_id_reserved(state, event)
        case events.IdReservationFailed():
            steps.on_id_reservation_failed(state, event)
        case events.EpochCompleted():
            steps.on_epoch_completed(state, event)
        case events.UploadCompleted():
            steps.on_upload_completed(state, event)
        case events.MetadataWritten():
            steps.on_metadata_written(state, event)
        case events.Published():
            steps.on_published(state, event)
        case events.UploadFailed() | events.MetadataFailed() | events.PublicationFailed():
            steps.on_step_failed(state, event)
        case events.MetadataUnknown() | events.PublicationUnknown():
            steps.on_outcome_unknown(state, event)
        case events.PublicationRejected() | events.LeadershipLost():
            steps.on_leadership_lost(state, event)
        case events.SinksCommitted(number):
            state.sinks.finished(number)
        case events.SinkCommitFailed():
            steps.on_sink_commit_failed(state, event)
        case events.DeletionCompleted(number):
            state.deletions.finished(number, succeeded=True)
        case events.DeletionFailed(number):
            # Files may be left: the pointer still lists them as subsumed, and the sweep comes by.
            state.deletions.finished(number, succeeded=False)
        case events.SharedFilesReleased():
            state.deletions.released()
        case events.PointersRemoved():
            on_pointers_removed(state)
        case events.PointerRemovalUnknown():
            on_pointer_removal_unknown(state)
        case _:
            assert_never(event)


def on_restored(state: CoordinatorState, event: events.Restored) -> None:
    """Takes over what the pointer, or the user, names; ids go on after the highest one.

    The output of the latest checkpoint is committed once more: it is unknown how far its first
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


def on_attempt_failed(state: CoordinatorState) -> None:
    """Gives up what is pending; recovery waits until it is known what the pointer says."""
    state.move(Life.RECOVERING)
    if state.stopping is not None:
        state.stopping = replace(state.stopping, is_ordered=False)
    state.abort_all(FailureReason.JOB_FAILOVER_REGION, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)
    state.recover_due = True


def on_job_ended(state: CoordinatorState, event: events.JobEnded) -> None:
    """Gives up what is pending; `follow_up` cleans up as the retention policy says."""
    assert event.status in ENDINGS, f"{event.status} is no end of a job"
    state.move(Life.ENDING)
    state.ending = event.status
    state.recover_due = False
    state.sinks.hurry(event.status)
    reason = FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
    if event.status is JobStatus.SUSPENDED:
        reason = FailureReason.CHECKPOINT_COORDINATOR_SUSPEND
    state.abort_all(reason, reason)


def on_pointers_removed(state: CoordinatorState) -> None:
    """At the end of the job: nothing names these checkpoints any more, their files may go."""
    removed = state.pointer_removal or ()
    state.pointer_removal = ()
    state.pointer_is_open = False
    state.pointer_retry_ms = None
    for checkpoint in state.store.entries:
        if checkpoint.checkpoint_id in removed:
            state.deletions.delete(checkpoint)
    state.store.replace(
        checkpoint for checkpoint in state.store.entries if checkpoint.checkpoint_id not in removed
    )


def on_pointer_removal_unknown(state: CoordinatorState) -> None:
    """Asks again later; until it is known, no file goes."""
    state.pointer_retry_ms = state.now_ms + retry_delay_ms(state.pointer_retries)
    state.pointer_retries += 1


# -- after every event ---------------------------------------------------------------------------


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
        state.emit(steps.asking_again(pending))


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
        state.emit(instructions.CommitSinks(checkpoint))


def _finish_stop(state: CoordinatorState) -> None:
    """A job that stops may finish when the output of its savepoint is visible."""
    stopping = state.stopping
    if stopping is None or stopping.is_ordered or not state.sinks.is_clear:
        return
    state.stopping = replace(stopping, is_ordered=True)
    state.recover_due = False
    if state.life is not Life.ENDING:
        state.emit(instructions.FinishJob(stopping.savepoint))


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
        if isinstance(chosen, instructions.DeclineTrigger):
            state.decline(chosen)
            continue
        state.reserving = chosen
        state.emit(instructions.ReserveId(state.last_id + 1))


def _recover(state: CoordinatorState) -> None:
    """The restore point is certain once no publication can change it any more."""
    undecided = state.stopping or any(
        pending.is_published and not pending.is_abortable for pending in state.pending.values()
    )
    if not state.recover_due or undecided:
        return
    state.recover_due = False
    latest = state.store.latest
    state.emit(instructions.Recover(latest))
    if latest is not None:
        state.sinks.add(latest)
        _commit_sinks(state)


def _close(state: CoordinatorState) -> None:
    """Pointers first, files last, and nothing before the output is visible.

    A stop is answered once no other process can go on with the job.
    """
    if state.life is not Life.ENDING or state.pending or not state.sinks.is_clear:
        return
    assert state.ending is not None, "an ending job has a status"
    if state.pointer_removal is None:
        keeps = state.keeps_everything or is_kept(state.settings.retention, state.ending)
        entries = () if keeps else state.store.entries
        state.pointer_removal = tuple(e.checkpoint_id for e in entries if e.is_deletable)
        # Also without any: that the job has finished is noted in the same step, or it would begin
        # again where a savepoint stopped it.
        is_noted = not keeps and state.ending is JobStatus.FINISHED
        state.pointer_is_open = bool(state.pointer_removal or is_noted)
        if state.pointer_is_open:
            state.emit(instructions.RemovePointers(state.pointer_removal))
    elif state.pointer_retry_ms is not None and state.now_ms >= state.pointer_retry_ms:
        state.pointer_retry_ms = None
        state.emit(instructions.RemovePointers(state.pointer_removal))
    if state.pointer_is_open:
        return
    if state.stopping is not None:
        stopping, state.stopping = state.stopping, None
        state.emit(instructions.CompleteRequest(stopping.request_id, stopping.savepoint))
    _delete(state)
    if state.deletions.is_idle and not state.discard_later:
        state.move(Life.CLOSED)
        state.emit(instructions.Close())


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
        state.emit(instructions.ScheduleTick(next_ms))
