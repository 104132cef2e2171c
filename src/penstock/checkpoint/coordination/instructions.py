"""What the coordinator wants done, in this order. The driver obeys and answers with events.

History, log and listeners follow the same instructions (`statistics`); nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import (
        CheckpointFailure,
        CompletedCheckpoint,
        PendingCheckpoint,
        TriggerRequest,
    )


@dataclass(frozen=True, slots=True)
class ScheduleTick:
    """Send `Ticked` at this time; replaces an earlier one. None: no tick is needed."""

    at_ms: int | None


@dataclass(frozen=True, slots=True)
class ReserveId:
    """Take a new id from the durable counter, under our leader epoch, not below `at_least`.

    Answer: `IdReserved`, `IdReservationFailed`, or `LeadershipLost`.
    """

    at_least: int


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """A checkpoint has its id: hand over the job's state at the end of the running epoch.

    At once when none runs. Answer: `EpochCompleted`; every one answers all open requests. For
    `stop` read nothing more, for `drain` first end event time, and say `stopped` in the answer.
    """

    checkpoint_id: int
    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class Upload:
    """Make the files of a snapshot durable, in the background.

    Only files that its base names may be referred to instead of written; without one it is full.
    Answer: `UploadCompleted` or `UploadFailed`.
    """

    checkpoint: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write `_metadata`, whole or not at all, as the last file.

    Answer: `MetadataWritten`, `MetadataFailed` or `MetadataUnknown`.
    """

    checkpoint: PendingCheckpoint
    parent_id: int | None
    job: Mapping[str, Any] = field(default_factory=dict)  # What it says of the job, and others did.


@dataclass(frozen=True, slots=True)
class ReReadMetadata:
    """Find out whether `_metadata` was written. Answers as of `WriteMetadata`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Set the pointer by compare-and-set under our leader epoch: the only commit point.

    Afterwards the pointer names exactly `retained`, the new checkpoint last. It lists `dropped`
    as subsumed, so that a successor can finish their deletion, and no longer `forgotten`, whose
    files are gone. Answer: `Published`, `PublicationRejected`, `PublicationUnknown`, or
    `PublicationFailed` when the request is certain to have changed nothing.
    """

    checkpoint_id: int
    parent_id: int | None
    retained: tuple[CompletedCheckpoint, ...]
    dropped: tuple[CompletedCheckpoint, ...] = ()
    forgotten: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReReadPointer:
    """Find the outcome of `Publish`, repeating the same change if need be.

    Answer: `Published`, `PublicationRejected` or `PublicationUnknown`. Finding the old pointer is
    not an answer: the lost request may still arrive.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CommitSinks:
    """Make output visible, idempotently: all that was prepared up to this checkpoint.

    What is not known to be committed must be in the next snapshot too, because this checkpoint
    may be subsumed by then. Answer: `SinksCommitted` or `SinkCommitFailed`.
    """

    checkpoint: CompletedCheckpoint


@dataclass(frozen=True, slots=True)
class NotifyCompleted:
    """The checkpoint counts: let go of what its upload needed."""

    checkpoint: PendingCheckpoint
    duration_ms: int  # From trigger to commit.
    finalization_ms: int  # From the end of the upload to commit.


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Stop work on the checkpoint; late answers are ignored."""

    checkpoint_id: int
    failure: CheckpointFailure
    duration_ms: int = 0  # From trigger to failure.


@dataclass(frozen=True, slots=True)
class DiscardPending:
    """Delete what is private to an aborted checkpoint, never shared files.

    Wait for its upload to stop first, so that nothing is written behind the deletion.
    Answer: `DeletionCompleted` or `DeletionFailed`.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint:
    """Delete metadata, then private files, of a checkpoint that the pointer does not name.

    Answer: `DeletionCompleted` or `DeletionFailed`.
    """

    checkpoint: CompletedCheckpoint


@dataclass(frozen=True, slots=True)
class ReleaseSharedFiles:
    """Delete shared files whose `last_used` is below this id. Answer: `SharedFilesReleased`."""

    lowest_id: int


@dataclass(frozen=True, slots=True)
class RemovePointers:
    """At the end of the job: make the pointer name none of these.

    Answer: `PointersRemoved`, `PointerRemovalUnknown` or `LeadershipLost`.
    """

    checkpoint_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recover:
    """Start the next attempt from this checkpoint; None: from empty state, as at first."""

    checkpoint: CompletedCheckpoint | None


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the attempt; the restart strategy decides what follows."""

    message: str
    is_lasting: bool = False  # No restart heals it.


@dataclass(frozen=True, slots=True)
class StepDown:
    """Another leader owns the job: stop, and touch nothing durable any more."""

    message: str


@dataclass(frozen=True, slots=True)
class FinishJob:
    """The job has stopped with this savepoint and its output is visible: it is FINISHED."""

    savepoint: CompletedCheckpoint


@dataclass(frozen=True, slots=True)
class Close:
    """Everything is cleaned up; no further event is needed."""


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """Tell the caller the result: a checkpoint, or why there is none."""

    request_id: str
    checkpoint: CompletedCheckpoint | None = None
    failure: CheckpointFailure | None = None


@dataclass(frozen=True, slots=True)
class DeclineTrigger:
    """A request failed before it got an id; `CompleteRequest` tells its caller, if it has one."""

    request: TriggerRequest
    failure: CheckpointFailure


@dataclass(frozen=True, slots=True)
class IgnoreAnswer:
    """An answer came for a checkpoint that is not pending any more; said once per checkpoint."""

    checkpoint_id: int
    answer: str  # Name of the event.


Steering: TypeAlias = (
    ScheduleTick
    | RequestSnapshot
    | NotifyCompleted
    | NotifyAborted
    | CompleteRequest
    | DeclineTrigger
    | IgnoreAnswer
    | Recover
    | FailJob
    | StepDown
    | FinishJob
    | Close
)
"""What concerns the running job and the people who wait, not storage."""

Instruction: TypeAlias = (
    Steering
    | ReserveId
    | Upload
    | WriteMetadata
    | ReReadMetadata
    | Publish
    | ReReadPointer
    | CommitSinks
    | DiscardPending
    | DeleteCheckpoint
    | ReleaseSharedFiles
    | RemovePointers
)
