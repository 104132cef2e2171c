"""What the coordinator tells history, metrics, listeners and the log; nothing depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.completed import SnapshotKind
    from penstock.checkpoint.coordination.failures import CheckpointFailure
    from penstock.checkpoint.coordination.triggering import TriggerRequest
    from penstock.checkpoint.figures import CheckpointFigures


@dataclass(frozen=True, slots=True)
class Fact:
    """Base of all facts."""


@dataclass(frozen=True, slots=True)
class CheckpointTriggered(Fact):
    """A checkpoint got its id."""

    checkpoint_id: int
    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class CheckpointUploaded(Fact):
    """All subtasks have acknowledged and all files are in the storage."""

    checkpoint_id: int
    figures: CheckpointFigures


@dataclass(frozen=True, slots=True)
class CheckpointCompleted(Fact):
    """A checkpoint counts."""

    checkpoint_id: int
    kind: SnapshotKind
    location: str
    epoch: int  # Epoch whose end it holds.
    duration_ms: int  # From trigger to commit.
    finalization_ms: int  # From the end of the upload to commit.
    figures: CheckpointFigures


@dataclass(frozen=True, slots=True)
class CheckpointFailed(Fact):
    """A checkpoint was aborted."""

    checkpoint_id: int
    failure: CheckpointFailure
    duration_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointDiscarded(Fact):
    """A completed checkpoint was subsumed, or removed at the end of the job."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointRestored(Fact):
    """An attempt starts from this snapshot."""

    checkpoint_id: int
    kind: SnapshotKind
    location: str


@dataclass(frozen=True, slots=True)
class TriggerDeclined(Fact):
    """A request failed before it got an id."""

    request: TriggerRequest
    failure: CheckpointFailure


@dataclass(frozen=True, slots=True)
class LateAnswerDropped(Fact):
    """An answer came for a checkpoint that is not pending any more; told once per checkpoint."""

    checkpoint_id: int
    answer: str


@dataclass(frozen=True, slots=True)
class CleanupFailed(Fact):
    """Files could not be deleted; the sweep finds them later."""

    checkpoint_id: int
    message: str


@dataclass(frozen=True, slots=True)
class SinkCommitDelayed(Fact):
    """Sinks could not commit yet; it is tried again."""

    checkpoint_id: int
    message: str
