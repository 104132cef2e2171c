"""The checkpoint coordinator: events in, instructions out.

It holds no clock, thread, file or randomness. Whoever drives it calls `handle` with one event at a
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
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, assert_never

from penstock.checkpoint.coordination import events, follow_up, steps
from penstock.checkpoint.coordination.state import CoordinatorState, Life

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, PendingCheckpoint
    from penstock.checkpoint.coordination.events import Event
    from penstock.checkpoint.coordination.instructions import Instruction
    from penstock.checkpoint.settings import CheckpointSettings

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
            follow_up.follow_up(state)
        instructions, state.out = state.out, []
        self._story.append((state.now_ms, event, instructions))
        return instructions

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
            f"{time_ms} {event}" + "".join(f"\n    -> {each}" for each in instructions)
            for time_ms, event, instructions in self._story
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
        unforced = [p for p in self.pending if not p.request.is_forced]
        assert len(unforced) <= state.settings.concurrency, "too many checkpoints are pending"
        if state.life in (Life.CLOSED, Life.FENCED):
            assert not state.pending, "pending checkpoints after the end"
            assert not state.triggering.queue, "requests after the end"


def _take_in(state: CoordinatorState, event: Event) -> None:  # noqa: PLR0912, PLR0915
    match event:
        case events.Restored():
            follow_up.on_restored(state, event)
        case events.Started():
            steps.on_started(state, event)
        case events.Ticked():
            pass  # `follow_up` finds what the time has made possible.
        case events.BacklogChanged(backlog):
            state.triggering.set_backlog(state.now_ms, backlog=backlog)
        case events.TasksFinished():
            steps.on_tasks_finished(state)
        case events.AttemptFailed():
            follow_up.on_attempt_failed(state)
        case events.JobEnded():
            follow_up.on_job_ended(state, event)
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
        case events.UploadFailed():
            steps.on_upload_failed(state, event)
        case events.MetadataWritten():
            steps.on_metadata_written(state, event)
        case events.MetadataFailed():
            steps.on_metadata_failed(state, event)
        case events.MetadataUnknown():
            steps.on_metadata_unknown(state, event)
        case events.Published():
            steps.on_published(state, event)
        case events.PublicationFailed():
            steps.on_publication_failed(state, event)
        case events.PublicationUnknown():
            steps.on_publication_unknown(state, event)
        case events.PublicationRejected() | events.LeadershipLost():
            steps.on_leadership_lost(state, event)
        case events.SinksCommitted(number):
            state.sinks.finished(number)
        case events.SinkCommitFailed():
            steps.on_sink_commit_failed(state, event)
        case events.DeletionCompleted(number):
            state.deletions.finished(number, succeeded=True)
        case events.DeletionFailed():
            follow_up.on_deletion_failed(state, event)
        case events.SharedFilesReleased():
            state.deletions.released()
        case events.PointersRemoved():
            follow_up.on_pointers_removed(state)
        case events.PointerRemovalUnknown():
            follow_up.on_pointer_removal_unknown(state)
        case _:
            assert_never(event)
