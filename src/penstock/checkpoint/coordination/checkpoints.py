"""Checkpoints: on their way, completed, failed, and which completed ones go when one is added.

    WAITING_FOR_EPOCH ─> UPLOADING ─> WRITING_METADATA ─> READY_TO_PUBLISH ─> PUBLISHING ─> done
                                        ⇅                                      ⇅
                                      METADATA_UNKNOWN                        PUBLICATION_UNKNOWN

An intermediate savepoint is done once its metadata is written. From the moment at which the commit
point is under way a checkpoint is not aborted, because it may count already; a savepoint not from
the moment at which its metadata may be there, because people find it by that.

While more than `num-retained` are completed, go from oldest to newest and drop an entry unless it
is the latest, or the newest that is not a savepoint, because later increments may build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final

from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.settings import ClaimMode


class SnapshotKind(Enum):
    """What a request asks for."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class SavepointFormat(Enum):
    """Flink's formats of savepoints."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A snapshot whose commit point has passed."""

    checkpoint_id: int
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    location: str = ""  # Directory that holds its `_metadata`.
    epoch: int = 0  # Epoch whose end it holds.
    # Whether it is ours to delete once it is not needed. Savepoints of this job and unclaimed
    # snapshots are the user's.
    is_deletable: bool = True
    may_be_base: bool = True  # Whether increments may refer to its files.
    # Whatever the storage wants back, such as the manifest; never looked into here.
    details: object = field(default=None, compare=False, repr=False)

    @property
    def is_savepoint(self) -> bool:
        return self.kind is SnapshotKind.SAVEPOINT


def claimed(checkpoint: CompletedCheckpoint, mode: ClaimMode) -> CompletedCheckpoint:
    """Returns a snapshot to start from as the claim mode says."""
    return replace(
        checkpoint, is_deletable=mode is ClaimMode.CLAIM, may_be_base=mode is not ClaimMode.NO_CLAIM
    )


@dataclass(frozen=True, slots=True)
class TriggerRequest:
    """A request for a checkpoint or savepoint."""

    number: int = 0  # Order of arrival.
    arrived_ms: int = 0  # When it came.
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    request_id: str | None = None  # Who waits for the result; None for a periodic request.
    target: str | None = None  # Directory for a savepoint.
    format: SavepointFormat = SavepointFormat.CANONICAL  # Format of a savepoint.
    stop: bool = False  # The job ends with this savepoint.
    drain: bool = False  # Event time ends before it.
    full: bool = False  # A checkpoint that builds on no earlier one.
    # What this checkpoint says of the job; others do so only once this one counts.
    job: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_periodic(self) -> bool:
        """Whether the timetable asks for it: only such a one minds pause and concurrency."""
        return self.request_id is None

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """Sorts the queue; the smallest goes first."""
        is_checkpoint = self.kind is SnapshotKind.CHECKPOINT
        return is_checkpoint, self.is_periodic, self.arrived_ms, self.number


class Phase(Enum):
    """Where a pending checkpoint stands."""

    WAITING_FOR_EPOCH = auto()
    UPLOADING = auto()
    WRITING_METADATA = auto()
    METADATA_UNKNOWN = auto()
    READY_TO_PUBLISH = auto()
    PUBLISHING = auto()
    PUBLICATION_UNKNOWN = auto()


_NEXT: Final = {
    Phase.WAITING_FOR_EPOCH: {Phase.UPLOADING},
    Phase.UPLOADING: {Phase.WRITING_METADATA},
    Phase.WRITING_METADATA: {Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH},
    Phase.METADATA_UNKNOWN: {Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH},
    Phase.READY_TO_PUBLISH: {Phase.PUBLISHING},
    Phase.PUBLISHING: {Phase.PUBLICATION_UNKNOWN},
    Phase.PUBLICATION_UNKNOWN: {Phase.PUBLICATION_UNKNOWN},
}

_METADATA: Final = (Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH)
_PUBLICATION: Final = (Phase.PUBLISHING, Phase.PUBLICATION_UNKNOWN)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """One checkpoint or savepoint that has an id and is not completed."""

    checkpoint_id: int
    request: TriggerRequest  # What asked for it.
    triggered_ms: int
    deadline_ms: int
    phase: Phase = Phase.WAITING_FOR_EPOCH
    epoch: int = 0  # Epoch whose end it holds, from UPLOADING on.
    snapshot: Any = field(default=None, repr=False)  # The job's state at that end; opaque.
    base: CompletedCheckpoint | None = None  # Checkpoint whose files it may refer to.
    uploaded: Any = field(default=None, repr=False)  # What the upload brought; opaque.
    uploaded_ms: int = 0  # When it was done.
    location: str = ""  # Directory of its metadata, once written.
    # What the storage said about the metadata; opaque.
    details: Any = field(default=None, repr=False)
    figures: CheckpointFigures = field(default=CheckpointFigures(), repr=False)
    # When to ask again about an unknown outcome; None while an answer is awaited.
    retry_ms: int | None = None
    retries: int = 0  # How often was asked.

    @property
    def is_savepoint(self) -> bool:
        return self.request.kind is SnapshotKind.SAVEPOINT

    @property
    def is_published(self) -> bool:
        """Whether the pointer will name it: checkpoints, and the savepoint a job stops with.

        Were the latter not published, a crash between its sinks' commit and the end of the job
        would restore an older checkpoint and write the same output again.
        """
        return not self.is_savepoint or self.request.stop

    @property
    def is_publishing(self) -> bool:
        """Whether the pointer may change to it at any moment, or has changed already."""
        return self.phase in _PUBLICATION

    @property
    def is_abortable(self) -> bool:
        """Whether it is certain that nothing has seen it."""
        return not self.is_publishing and not (self.is_savepoint and self.phase in _METADATA)

    @property
    def is_awaiting_metadata(self) -> bool:
        """Whether an answer about its metadata is under way."""
        is_unknown = self.phase is Phase.METADATA_UNKNOWN and self.retry_ms is None
        return is_unknown or self.phase is Phase.WRITING_METADATA

    def moved(self, phase: Phase, **changes: Any) -> PendingCheckpoint:
        """Returns the checkpoint in its next phase."""
        assert phase in _NEXT[self.phase], f"{self.phase} -> {phase} of {self.checkpoint_id}"
        return replace(self, phase=phase, **{"retry_ms": None, **changes})

    def completed(self) -> CompletedCheckpoint:
        """Returns what it becomes once its commit point has passed."""
        return CompletedCheckpoint(
            self.checkpoint_id,
            self.request.kind,
            self.location,
            self.epoch,
            is_deletable=not self.is_savepoint,
            may_be_base=not self.is_savepoint,
            details=self.details,
        )


class CompletedStore:
    """What the pointer names, in memory. Changes only after the pointer has changed."""

    def __init__(self, num_retained: int) -> None:
        self._num_retained = num_retained
        self.entries: tuple[CompletedCheckpoint, ...] = ()

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """Where recovery starts."""
        return self.entries[-1] if self.entries else None

    @property
    def base(self) -> CompletedCheckpoint | None:
        """The newest entry that increments may build on; None: the next one is full."""
        return next((entry for entry in reversed(self.entries) if entry.may_be_base), None)

    def after_adding(
        self, checkpoint: CompletedCheckpoint
    ) -> tuple[tuple[CompletedCheckpoint, ...], tuple[CompletedCheckpoint, ...]]:
        """Returns what would be kept, and what would be dropped; changes nothing."""
        assert not self.entries or checkpoint.checkpoint_id > self.entries[-1].checkpoint_id
        return split_surplus((*self.entries, checkpoint), self._num_retained)

    def replace(self, entries: Iterable[CompletedCheckpoint]) -> None:
        """Takes over what the pointer names now."""
        self.entries = tuple(sorted(entries, key=lambda entry: entry.checkpoint_id))


def split_surplus(
    entries: tuple[CompletedCheckpoint, ...], num_retained: int
) -> tuple[tuple[CompletedCheckpoint, ...], tuple[CompletedCheckpoint, ...]]:
    """Splits entries, oldest first, into those that stay and the surplus."""
    needed = {entries[-1]}
    needed.update([entry for entry in entries if not entry.is_savepoint][-1:])
    surplus = len(entries) - num_retained
    kept: list[CompletedCheckpoint] = []
    dropped: list[CompletedCheckpoint] = []
    for entry in entries:
        if len(dropped) < surplus and entry not in needed:
            dropped.append(entry)
        else:
            kept.append(entry)
    return tuple(kept), tuple(dropped)


# -- why checkpoints fail ----------------------------------------------------------------------


class FailureReason(Enum):
    """Flink's names, as far as such failures happen here; history, REST and logs show them."""

    # Before the checkpoint started.
    PERIODIC_SCHEDULER_SHUTDOWN = "Periodic checkpoint scheduler is shut down."
    TOO_MANY_CHECKPOINT_REQUESTS = "The maximum number of queued checkpoint requests exceeded"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = (
        "The minimum time between checkpoints is still pending. Checkpoint will be triggered "
        "after the minimum time."
    )
    NOT_ALL_REQUIRED_TASKS_RUNNING = "Not all required tasks are currently running."
    IO_EXCEPTION = "An Exception occurred while triggering the checkpoint. IO-problem detected."
    # In flight.
    CHECKPOINT_ASYNC_EXCEPTION = "Asynchronous task checkpoint failed."
    CHECKPOINT_EXPIRED = "Checkpoint expired before completing."
    CHECKPOINT_SUBSUMED = "Checkpoint has been subsumed."
    CHECKPOINT_DECLINED = "Checkpoint was declined."
    CHECKPOINT_COORDINATOR_SHUTDOWN = "CheckpointCoordinator shutdown."
    CHECKPOINT_COORDINATOR_SUSPEND = "Checkpoint Coordinator is suspending."
    JOB_FAILOVER_REGION = "FailoverRegion is restarting."
    FINALIZE_CHECKPOINT_FAILURE = "Failure to finalize checkpoint."
    TRIGGER_CHECKPOINT_FAILURE = "Trigger checkpoint failure."


COUNTED: Final = frozenset(
    {
        FailureReason.IO_EXCEPTION,
        FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.CHECKPOINT_EXPIRED,
        FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""The reasons that count against `tolerable-failed-checkpoints`."""

CONSEQUENCES: Final = frozenset(
    {
        FailureReason.CHECKPOINT_SUBSUMED,
        FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
        FailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
        FailureReason.JOB_FAILOVER_REGION,
    }
)
"""The reasons that follow from something else, which is reported by itself."""


@dataclass(frozen=True, slots=True)
class CheckpointFailure:
    """Why a request or a checkpoint failed."""

    reason: FailureReason  # Flink's name for it.
    message: str = ""  # What happened, for people.

    def __str__(self) -> str:
        return f"{self.reason.name}: {self.message or self.reason.value}"
