"""What the coordinator is told. Each is a fact in the past tense; times come beside it.

Every instruction that expects an answer gets exactly one, chosen among the events named there. A
request that got no reply in time is answered by its `…Unknown`, or by its failure where nothing is
lost by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.checkpoint.figures import CheckpointFigures

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, TriggerRequest
    from penstock.checkpoint.settings import ClaimMode
    from penstock.core.job import JobStatus


@dataclass(frozen=True, slots=True)
class CheckpointEvent:
    """Something happened to one checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointProblem(CheckpointEvent):
    """Something went wrong with one checkpoint."""

    message: str


# -- life of the job ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Restored:
    """Snapshots were found to start from, before the first `Started`."""

    # What the pointer names, oldest first; or the one the user names.
    checkpoints: tuple[CompletedCheckpoint, ...]
    last_id: int = 0  # Highest id ever reserved, as far as is known.
    claim_mode: ClaimMode | None = None  # Set when the user named the snapshot.
    # Former ones whose deletion a predecessor may not have finished.
    subsumed: tuple[CompletedCheckpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """All tasks of an attempt run."""

    first_delay_ms: int  # Random delay from `first_delay_range_ms`; only the first start uses it.


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; answers `ScheduleTick`, and may come at any other moment."""


@dataclass(frozen=True, slots=True)
class BacklogChanged:
    """The sources began or ceased to lag behind."""

    backlog: bool


@dataclass(frozen=True, slots=True)
class TasksFinished:
    """Some tasks have ended while others run."""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The running attempt failed and will be restarted; answered by `Recover`."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job has ended; after cleaning up comes `Close`."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Another leader has taken over, or a durable write was refused for its leader epoch."""

    message: str = ""


# -- requests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriggerRequested:
    """A user wants a snapshot; `CompleteRequest` answers, in case of a stop also `FinishJob`."""

    request: TriggerRequest  # Number and time of arrival are the coordinator's to say.


# -- progress -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdReserved(CheckpointEvent):
    """`ReserveId` succeeded: the durable counter has moved to this id."""


@dataclass(frozen=True, slots=True)
class IdReservationFailed:
    """`ReserveId` failed or got no reply; the id, if one was taken, is used up."""

    message: str


@dataclass(frozen=True, slots=True)
class EpochCompleted:
    """An epoch counts."""

    epoch: int
    snapshot: Any = field(repr=False)  # State of the job at its end; opaque.
    stopped: bool = False  # The sources were stopped (and drained, if asked), no epoch follows.


@dataclass(frozen=True, slots=True)
class UploadCompleted(CheckpointEvent):
    """`Upload` is done: every file is durable."""

    uploaded: Any = field(default=None, repr=False)  # Durable handles; opaque.
    figures: CheckpointFigures = field(default=CheckpointFigures(), repr=False)


@dataclass(frozen=True, slots=True)
class UploadFailed(CheckpointProblem):
    """`Upload` failed, also after retries."""


@dataclass(frozen=True, slots=True)
class MetadataWritten(CheckpointEvent):
    """`WriteMetadata` (or `ReReadMetadata`) found the metadata whole and durable."""

    location: str
    details: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MetadataFailed(CheckpointProblem):
    """The metadata does not exist and never will."""


@dataclass(frozen=True, slots=True)
class MetadataUnknown(CheckpointProblem):
    """It is unknown whether the metadata was written."""


# -- the commit point -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published(CheckpointEvent):
    """The pointer names the checkpoint."""


@dataclass(frozen=True, slots=True)
class PublicationFailed(CheckpointProblem):
    """`Publish` failed and is certain to have changed nothing; never an answer to a re-reading."""


@dataclass(frozen=True, slots=True)
class PublicationRejected(CheckpointProblem):
    """Another process has changed the pointer or leads now: this coordinator is over."""


@dataclass(frozen=True, slots=True)
class PublicationUnknown(CheckpointProblem):
    """It is unknown whether the pointer has changed."""


# -- after it -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SinksCommitted(CheckpointEvent):
    """Everything prepared up to this checkpoint is visible."""


@dataclass(frozen=True, slots=True)
class SinkCommitFailed(CheckpointProblem):
    """Some sink did not commit, or the outcome is unknown; it will be asked again."""

    is_lasting: bool = False  # The next attempt of the job would be refused as well.


@dataclass(frozen=True, slots=True)
class DeletionCompleted(CheckpointEvent):
    """`DiscardPending` or `DeleteCheckpoint` is done."""


@dataclass(frozen=True, slots=True)
class DeletionFailed(CheckpointProblem):
    """Files may be left; the sweep finds them."""


@dataclass(frozen=True, slots=True)
class SharedFilesReleased:
    """`ReleaseSharedFiles` is over."""

    message: str = ""  # What could not be deleted, if anything; it is left to the sweep.


@dataclass(frozen=True, slots=True)
class PointersRemoved:
    """`RemovePointers` is done: nothing durable names these checkpoints any more."""


@dataclass(frozen=True, slots=True)
class PointerRemovalUnknown:
    """`RemovePointers` failed, or its outcome is unknown; it will be asked again."""

    message: str


Event: TypeAlias = (
    Restored
    | Started
    | Ticked
    | BacklogChanged
    | TasksFinished
    | AttemptFailed
    | JobEnded
    | LeadershipLost
    | TriggerRequested
    | IdReserved
    | IdReservationFailed
    | EpochCompleted
    | UploadCompleted
    | UploadFailed
    | MetadataWritten
    | MetadataFailed
    | MetadataUnknown
    | Published
    | PublicationFailed
    | PublicationRejected
    | PublicationUnknown
    | SinksCommitted
    | SinkCommitFailed
    | DeletionCompleted
    | DeletionFailed
    | SharedFilesReleased
    | PointersRemoved
    | PointerRemovalUnknown
)
