"""Why checkpoints fail, and how many failures a job survives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


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


@dataclass(frozen=True, slots=True)
class CheckpointFailure:
    """Why a request or a checkpoint failed."""

    reason: FailureReason  # Flink's name for it.
    message: str = ""  # What happened, for people.

    def __str__(self) -> str:
        return f"{self.reason.name}: {self.message or self.reason.value}"


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
        """Counts a failure; True when the job has to fail. Then the count starts anew."""
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
