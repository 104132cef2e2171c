"""What the coordinator remembers, and the few changes that several events share."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.coordination.completed import CompletedCheckpoint, CompletedStore
from penstock.checkpoint.coordination.deletion_queue import DeletionQueue
from penstock.checkpoint.coordination.facts import (
    CheckpointFailed,
    Fact,
    LateAnswerDropped,
    TriggerDeclined,
)
from penstock.checkpoint.coordination.failures import (
    CheckpointFailure,
    FailureCounter,
    FailureReason,
)
from penstock.checkpoint.coordination.instructions import (
    Announce,
    CompleteRequest,
    FailJob,
    Instruction,
    NotifyAborted,
)
from penstock.checkpoint.coordination.pending import PendingCheckpoint, Phase
from penstock.checkpoint.coordination.sink_backlog import SinkBacklog
from penstock.checkpoint.coordination.triggering import Triggering, TriggerRequest

if TYPE_CHECKING:
    from penstock.checkpoint.settings import CheckpointSettings
    from penstock.core.job import JobStatus


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


_LATE_IDS: Final = 16


@dataclass(frozen=True, slots=True)
class StopResult:
    """The savepoint that the job stops with is published; its output may not be visible yet."""

    savepoint: CompletedCheckpoint
    request_id: str


class CoordinatorState:
    """Everything between two events. The steps change it and append to `out`."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.out: list[Instruction] = []
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

    def move(self, life: Life) -> None:
        """Changes the phase of life."""
        assert life in _NEXT[self.life], f"the coordinator cannot go from {self.life} to {life}"
        self.life = life

    def emit(self, *instructions: Instruction) -> None:
        """Appends instructions."""
        self.out.extend(instructions)

    def announce(self, fact: Fact) -> None:
        """Appends a fact for history, metrics and log."""
        self.out.append(Announce(fact))

    @property
    def publication(self) -> PendingCheckpoint | None:
        """The checkpoint whose publication is open; nothing is deleted or triggered meanwhile."""
        for pending in self.pending.values():
            if pending.is_publishing:
                return pending
        return None

    def find(self, checkpoint_id: int, answer: str, *phases: Phase) -> PendingCheckpoint | None:
        """Returns the pending checkpoint that an answer is about; None when it came too late."""
        pending = self.pending.get(checkpoint_id)
        if pending is not None:
            assert pending.phase in phases, f"{answer} for {checkpoint_id} in {pending.phase}"
            return pending
        assert checkpoint_id <= self.last_id, f"{answer} for the unknown checkpoint {checkpoint_id}"
        if checkpoint_id not in self.late_ids:
            self.late_ids.append(checkpoint_id)
            self.announce(LateAnswerDropped(checkpoint_id, answer))
        return None

    def discard_late(self, checkpoint_id: int, *, known: bool) -> None:
        """An answer about metadata came for an aborted checkpoint: now its files may go."""
        if checkpoint_id in self.discard_later:
            self.discard_later.discard(checkpoint_id)
            if known:
                self.deletions.discard(checkpoint_id)

    def refuse(self, request_id: str, reason: FailureReason, message: str = "") -> None:
        """Answers a request that is not even queued."""
        self.emit(CompleteRequest(request_id, failure=CheckpointFailure(reason, message)))

    def decline(self, declined: TriggerDeclined) -> None:
        """Turns down a request that has no id."""
        self.announce(declined)
        request, failure = declined.request, declined.failure
        if request.request_id is not None:
            self.emit(CompleteRequest(request.request_id, failure=failure))
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
        self.emit(NotifyAborted(pending.checkpoint_id, failure))
        if pending.phase in (Phase.UPLOADING, Phase.READY_TO_PUBLISH) or certain:
            self.deletions.discard(pending.checkpoint_id)
        elif pending.is_awaiting_metadata:
            self.discard_later.add(pending.checkpoint_id)
        self.report_failure(pending, failure)

    def report_failure(self, pending: PendingCheckpoint, failure: CheckpointFailure) -> None:
        """Tells everybody who waits for a checkpoint that it failed, and counts it."""
        duration_ms = self.now_ms - pending.triggered_ms
        self.announce(CheckpointFailed(pending.checkpoint_id, failure, duration_ms))
        if pending.request.request_id is not None:
            self.emit(CompleteRequest(pending.request.request_id, failure=failure))
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

    def fail_job(self, message: str) -> None:
        """Fails the running attempt; without one there is nothing to fail."""
        if self.life in (Life.RUNNING, Life.STOPPING):
            self.emit(FailJob(message))

    def abort_all(self, reason: FailureReason, queued: FailureReason) -> None:
        """Gives up all that can be given up; what may count already is waited for."""
        waiting = self.triggering.stop()
        if self.reserving is not None:
            waiting.append(self.reserving)
            self.reserving = None
            self.discarded_reservation = True
        for request in waiting:
            shut = FailureReason.PERIODIC_SCHEDULER_SHUTDOWN if request.is_periodic else queued
            self.decline(TriggerDeclined(request, CheckpointFailure(shut)))
        for pending in list(self.pending.values()):
            if pending.is_abortable:
                self.abort(pending, CheckpointFailure(reason))
