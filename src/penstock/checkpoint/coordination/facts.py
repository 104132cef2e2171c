"""What the coordinator tells history, metrics, listeners and the log, and why checkpoints fail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import SnapshotKind, TriggerRequest
    from penstock.checkpoint.figures import CheckpointFigures


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
