"""What the coordinator remembers, and the few changes that several events share."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import (
    COUNTED,
    CheckpointFailure,
    CompletedCheckpoint,
    CompletedStore,
    FailureReason,
    PendingCheckpoint,
    Phase,
    TriggerRequest,
)
from penstock.checkpoint.coordination.triggering import Triggering
from penstock.core.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.checkpoint.settings import CheckpointSettings


class Life(Enum):
    """Where the coordinator stands in the life of the job."""

    CREATED = auto()
    RUNNING = auto()
    STOPPING = auto()
    RECOVERING = auto()
    ENDING = auto()
    CLOSED = auto()
    FENCED = auto()


_NEXT: Final = {
    Life.CREATED: {Life.RUNNING, Life.RECOVERING, Life.ENDING, Life.FENCED},
    Life.RUNNING: {Life.STOPPING, Life.RECOVERING, Life.ENDING, Life.FENCED},
    Life.STOPPING: {Life.RECOVERING, Life.ENDING, Life.FENCED},
    Life.RECOVERING: {Life.RUNNING, Life.RECOVERING, Life.ENDING, Life.FENCED},
    Life.ENDING: {Life.CLOSED, Life.FENCED},
    Life.CLOSED: set[Life](),
    Life.FENCED: set[Life](),
}
"""Legal changes; any other one is a bug and crashes."""


_METADATA: Final = (Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN)
_PUBLICATION: Final = (Phase.PUBLISHING, Phase.PUBLICATION_UNKNOWN)
_AWAITED_IN: Final[dict[type[events.CheckpointEvent], tuple[Phase, ...]]] = {
    events.UploadCompleted: (Phase.UPLOADING,),
    events.UploadFailed: (Phase.UPLOADING,),
    events.MetadataWritten: _METADATA,
    events.MetadataFailed: _METADATA,
    events.MetadataUnknown: _METADATA,
    events.Published: _PUBLICATION,
    events.PublicationFailed: (Phase.PUBLISHING,),
    events.PublicationUnknown: _PUBLICATION,
}
"""The phases in which a checkpoint waits for an answer; one in any other is a bug, and crashes."""

_LATE_IDS: Final = 16


@dataclass(frozen=True, slots=True)
class StopResult:
    """The savepoint that the job stops with is published; its output may not be visible yet."""

    savepoint: CompletedCheckpoint
    request_id: str
    is_ordered: bool = False  # Its output is visible, and the job was told to finish.


_FIRST_RETRY_MS: Final = 100
_LAST_RETRY_MS: Final = 5_000


def retry_delay_ms(retries: int) -> int:
    """Returns the pause before retry number `retries` (from 0): 100 ms doubling up to 5 s."""
    return min(_FIRST_RETRY_MS << min(retries, 10), _LAST_RETRY_MS)


class FailureCounter:
    """Counts consecutive failures.

    Invariants:
    * An id counts once, and not when a higher id has succeeded.
    * A success with a higher id than any before resets the count.
    """

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._last_success = 0
        self._counted: set[int] = set()
        self.count = 0

    def failed(self, checkpoint_id: int | None, reason: FailureReason) -> bool:
        """Counts a failure; True when the job has to fail. Then the count starts again."""
        if reason not in COUNTED:
            return False
        if checkpoint_id is not None:
            if checkpoint_id < self._last_success or checkpoint_id in self._counted:
                return False
            self._counted.add(checkpoint_id)
        self.count += 1
        if self.count <= self._tolerable:
            return False
        self._clear()
        return True

    def succeeded(self, checkpoint_id: int) -> None:
        """Resets the count, unless a higher id succeeded before."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._counted.clear()


class DeletionQueue:
    """What is to be deleted and what is being deleted: private files first, shared ones last."""

    def __init__(self) -> None:
        self._waiting: dict[int, instructions.DiscardPending | instructions.DeleteCheckpoint] = {}
        self._in_flight: set[int] = set()
        self._subsumed: set[int] = set()
        self._released_below = 0
        self._is_releasing = False
        self.forgotten: tuple[int, ...] = ()
        """Subsumed checkpoints whose files are gone, until the pointer has been told."""

    @property
    def unfinished(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def discard(self, checkpoint_id: int) -> None:
        self._waiting[checkpoint_id] = instructions.DiscardPending(checkpoint_id)

    def delete(self, checkpoint: CompletedCheckpoint) -> None:
        self._subsumed.add(checkpoint.checkpoint_id)
        self._waiting[checkpoint.checkpoint_id] = instructions.DeleteCheckpoint(checkpoint)

    def start(self) -> list[instructions.Instruction]:
        """Returns the deletions that may begin. Call it only while no publication is open."""
        started: list[instructions.Instruction] = list(self._waiting.values())
        self._in_flight.update(self._waiting)
        self._waiting.clear()
        return started

    def release(self, lowest_id: int) -> list[instructions.Instruction]:
        """Returns the release of shared files, once the private files before it are gone."""
        if self.unfinished or self._is_releasing or lowest_id <= self._released_below:
            return []
        self._released_below = lowest_id
        self._is_releasing = True
        return [instructions.ReleaseSharedFiles(lowest_id)]

    def released(self) -> None:
        self._is_releasing = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being deleted or waits for it."""
        return not self.unfinished and not self._is_releasing

    def finished(self, checkpoint_id: int, *, succeeded: bool) -> None:
        self._in_flight.discard(checkpoint_id)
        if succeeded and checkpoint_id in self._subsumed:
            self._subsumed.discard(checkpoint_id)
            self.forgotten = (*self.forgotten, checkpoint_id)

    def pointer_forgot(self, checkpoint_ids: tuple[int, ...]) -> None:
        """The pointer lists these as subsumed no more."""
        self.forgotten = tuple(id_ for id_ in self.forgotten if id_ not in checkpoint_ids)

    @property
    def ids(self) -> set[int]:
        return self._in_flight.union(self._waiting)


COMMIT_TRIES: Final = 10
"""So many failed commits in a row, about half a minute of them, count as one failed checkpoint."""
_TRIES_OF_THE_INTERRUPTED: Final = 4
"""So many a job has that was cancelled or suspended and whose user waits: less than a second."""


class SinkBacklog:
    """Commits that the sinks still owe: one at a time, repeated until they are known to be done.

    Committing checkpoint n covers all that was prepared before it, so a newer one replaces an older
    one that waits.
    """

    def __init__(self) -> None:
        self._due: CompletedCheckpoint | None = None
        self._in_flight: CompletedCheckpoint | None = None
        self._retries = 0
        self._failures = 0
        """Failed commits in a row, over all checkpoints; only one that is done ends the row."""
        self._blamed = 0
        """Those of them for which the job has failed already."""
        self._most_failures = COMMIT_TRIES
        self.retry_ms: int | None = None
        """When to try again; None unless a commit failed."""

    @property
    def is_clear(self) -> bool:
        """Whether every commit asked for is known to be done."""
        return self._due is None and self._in_flight is None

    def add(self, checkpoint: CompletedCheckpoint) -> None:
        self._due = checkpoint
        self._retries, self.retry_ms = 0, None

    def start(self, now_ms: int) -> CompletedCheckpoint | None:
        """Returns the commit that may begin now, if any."""
        if self._due is None or self._in_flight is not None:
            return None
        if self.retry_ms is not None and now_ms < self.retry_ms:
            return None
        self._in_flight, self._due, self.retry_ms = self._due, None, None
        return self._in_flight

    def finished(self, checkpoint_id: int) -> None:
        if self._in_flight is not None and self._in_flight.checkpoint_id == checkpoint_id:
            self._in_flight = None
            self._retries = self._failures = self._blamed = 0

    def failed(self, checkpoint_id: int, now_ms: int) -> None:
        """The commit in flight has to be repeated, unless a newer one covers it."""
        if self._in_flight is None or self._in_flight.checkpoint_id != checkpoint_id:
            return
        failed, self._in_flight = self._in_flight, None
        if self._due is None:
            self._due = failed
        self.retry_ms = now_ms + retry_delay_ms(self._retries)
        self._retries += 1
        self._failures += 1

    def hurry(self, ending: JobStatus) -> None:
        """The job ends: the next try is due now, and the interrupted have few."""
        self._retries, self.retry_ms = 0, None
        if ending in (JobStatus.CANCELED, JobStatus.SUSPENDED):
            self._failures, self._most_failures = 0, _TRIES_OF_THE_INTERRUPTED

    @property
    def is_stuck(self) -> bool:
        """Whether so many commits in a row have failed that waiting for the next is in vain."""
        return self._failures >= self._most_failures

    def exceeds(self, tolerable: int) -> bool:
        """Whether more than `tolerable` times `COMMIT_TRIES` have failed; then counts again."""
        if self._failures - self._blamed < COMMIT_TRIES * (tolerable + 1):
            return False
        self._blamed = self._failures
        return True

    def give_up(self) -> None:
        """Owes nothing any more: a job that starts from the checkpoint commits its output."""
        self._due = self._in_flight = self.retry_ms = None


class CoordinatorState:
    """Everything between two events. The steps change it and append to `out`."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.out: list[instructions.Instruction] = []
        self.life = Life.CREATED
        self.last_id = 0
        self.triggering = Triggering(settings)
        self.reserving: TriggerRequest | None = None
        self.discarded_reservation = False
        """The answer to `ReserveId` is awaited, but its request is gone."""
        self.pending: dict[int, PendingCheckpoint] = {}
        self.store = CompletedStore(settings.num_retained)
        self.failures = FailureCounter(settings.tolerable_failures)
        self.deletions = DeletionQueue()
        self.sinks = SinkBacklog()
        self.has_started = False
        self.some_tasks_finished = False
        self.recover_due = False
        self.stopping: StopResult | None = None
        self.ending: JobStatus | None = None
        self.keeps_everything = False
        """Output is owed that could not be committed: no checkpoint is deleted at the end."""
        self.pointer_removal: tuple[int, ...] | None = None
        """Pointers being removed at the end; empty once that is done."""
        self.pointer_is_open = False
        """The end is being noted in the pointer, which also removes those."""
        self.pointer_retry_ms: int | None = None
        self.pointer_retries = 0
        self.tick_ms: int | None = None
        self.discard_later: set[int] = set()
        """Aborted checkpoints whose files wait for an answer about their metadata."""
        self.late_ids: deque[int] = deque(maxlen=_LATE_IDS)
        self.forgetting: tuple[int, ...] = ()
        """What the open publication tells the pointer to forget."""
        self.said: Mapping[str, Any] = {}
        """What published checkpoints alone said of the job; all that follow say so, too."""

    def move(self, life: Life) -> None:
        assert life in _NEXT[self.life], f"the coordinator cannot go from {self.life} to {life}"
        self.life = life

    def emit(self, *wanted: instructions.Instruction) -> None:
        self.out.extend(wanted)

    @property
    def publication(self) -> PendingCheckpoint | None:
        """The checkpoint whose publication is open; nothing is deleted or triggered meanwhile."""
        for pending in self.pending.values():
            if pending.is_publishing:
                return pending
        return None

    def find(self, event: events.CheckpointEvent) -> PendingCheckpoint | None:
        """Returns the pending checkpoint that an answer is about; None when it came too late."""
        number, answer = event.checkpoint_id, type(event).__name__
        pending = self.pending.get(number)
        if pending is not None:
            is_awaited = pending.phase in _AWAITED_IN[type(event)]
            assert is_awaited, f"{answer} for {number} in {pending.phase}"
            return pending
        assert number <= self.last_id, f"{answer} for the unknown checkpoint {number}"
        if number not in self.late_ids:
            self.late_ids.append(number)
            self.emit(instructions.IgnoreAnswer(number, answer))
        return None

    def discard_late(self, checkpoint_id: int, *, known: bool) -> None:
        """An answer about metadata came for an aborted checkpoint: now its files may go."""
        if checkpoint_id in self.discard_later:
            self.discard_later.discard(checkpoint_id)
            if known:
                self.deletions.discard(checkpoint_id)

    def refuse(self, request_id: str, reason: FailureReason, message: str = "") -> None:
        """Answers a request that is not even queued."""
        failure = CheckpointFailure(reason, message)
        self.emit(instructions.CompleteRequest(request_id, failure=failure))

    def decline(self, declined: instructions.DeclineTrigger) -> None:
        """Turns down a request that has no id."""
        self.emit(declined)
        request, failure = declined.request, declined.failure
        if request.request_id is not None:
            self.emit(instructions.CompleteRequest(request.request_id, failure=failure))
        if request.stop:
            self.fail_job(f"the stop with a savepoint failed: {failure}")

    def abort(
        self, pending: PendingCheckpoint, failure: CheckpointFailure, *, certain: bool = False
    ) -> None:
        """Gives up a checkpoint of which it is certain that it does not count.

        Its files are deleted, except while its metadata may still arrive: then they wait for that
        answer, so that no snapshot without files appears. Without an answer the sweep comes by.

        Args:
            pending: The checkpoint.
            failure: Why.
            certain: The storage has said that the step under way failed and changed nothing.
        """
        assert certain or not pending.is_publishing, f"{pending.checkpoint_id} may count already"
        del self.pending[pending.checkpoint_id]
        duration_ms = self.now_ms - pending.triggered_ms
        self.emit(instructions.NotifyAborted(pending.checkpoint_id, failure, duration_ms))
        if pending.phase in (Phase.UPLOADING, Phase.READY_TO_PUBLISH) or certain:
            self.deletions.discard(pending.checkpoint_id)
        elif pending.is_awaiting_metadata:
            self.discard_later.add(pending.checkpoint_id)
        if pending.request.request_id is not None:
            self.emit(instructions.CompleteRequest(pending.request.request_id, failure=failure))
        if pending.request.stop:
            self.fail_job(f"the stop with a savepoint failed: {failure}")
        elif not pending.is_savepoint:
            self.count_failure(pending.checkpoint_id, failure)

    def count_failure(self, checkpoint_id: int | None, failure: CheckpointFailure) -> None:
        """Fails the job when too many checkpoints in a row have failed."""
        if self.failures.failed(checkpoint_id, failure.reason):
            self.fail_job(
                "Exceeded checkpoint tolerable failure threshold: more than "
                f"{self.settings.tolerable_failures} in a row failed; raise "
                "execution.checkpointing.tolerable-failed-checkpoints to survive more. The last "
                f"one failed with {failure}"
            )

    def fail_job(self, message: str, *, is_lasting: bool = False) -> None:
        """Fails the running attempt; without one there is nothing to fail."""
        if self.life in (Life.RUNNING, Life.STOPPING):
            self.emit(instructions.FailJob(message, is_lasting))

    def abort_all(self, reason: FailureReason, queued: FailureReason) -> None:
        """Gives up all that can be given up; what may count already is waited for."""
        waiting = self.triggering.stop()
        if self.reserving is not None:
            waiting.append(self.reserving)
            self.reserving = None
            self.discarded_reservation = True
        for request in waiting:
            shut = FailureReason.PERIODIC_SCHEDULER_SHUTDOWN if request.is_periodic else queued
            self.decline(instructions.DeclineTrigger(request, CheckpointFailure(shut)))
        for pending in list(self.pending.values()):
            if pending.is_abortable:
                self.abort(pending, CheckpointFailure(reason))
