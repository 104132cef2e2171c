"""What the coordinator tells history, metrics, listeners and the log; nothing depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint.completed import SnapshotKind
    from penstock.checkpoint.failures import CheckpointFailure
    from penstock.checkpoint.figures import CheckpointFigures
    from penstock.checkpoint.triggering import TriggerRequest


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """A checkpoint got its id."""

    checkpoint_id: int
    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class CheckpointUploaded:
    """All subtasks have acknowledged and all files are in the storage."""

    checkpoint_id: int
    figures: CheckpointFigures


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """A checkpoint counts."""

    checkpoint_id: int
    kind: SnapshotKind  # Checkpoint or savepoint.
    location: str
    epoch: int  # Epoch whose end it holds.
    duration_ms: int  # From trigger to commit.
    finalization_ms: int  # From the end of the upload to commit.
    figures: CheckpointFigures  # Sizes and durations.


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """A checkpoint was aborted."""

    checkpoint_id: int
    failure: CheckpointFailure
    duration_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointDiscarded:
    """A completed checkpoint was subsumed, or removed at the end of the job."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointRestored:
    """An attempt starts from this snapshot."""

    checkpoint_id: int
    kind: SnapshotKind
    location: str


@dataclass(frozen=True, slots=True)
class TriggerDeclined:
    """A request failed before it got an id."""

    request: TriggerRequest
    failure: CheckpointFailure


@dataclass(frozen=True, slots=True)
class LateAnswerDropped:
    """An answer came for a checkpoint that is not pending any more; told once per checkpoint."""

    checkpoint_id: int
    answer: str


@dataclass(frozen=True, slots=True)
class CleanupFailed:
    """Files could not be deleted; the sweep finds them later."""

    checkpoint_id: int
    message: str


@dataclass(frozen=True, slots=True)
class SinkCommitDelayed:
    """Sinks could not commit yet; it is tried again."""

    checkpoint_id: int
    message: str


Fact = (
    CheckpointTriggered
    | CheckpointUploaded
    | CheckpointCompleted
    | CheckpointFailed
    | CheckpointDiscarded
    | CheckpointRestored
    | TriggerDeclined
    | LateAnswerDropped
    | CleanupFailed
    | SinkCommitDelayed
)
