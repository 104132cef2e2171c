"""What became of a job's checkpoints: log lines, history and figures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.checkpoint.coordination.facts import (
    CONSEQUENCES,
    CheckpointCompleted,
    CheckpointFailed,
    CheckpointRestored,
    CheckpointTriggered,
    CleanupFailed,
    LateAnswerDropped,
    SinkCommitDelayed,
    TriggerDeclined,
)
from penstock.checkpoint.statistics import CheckpointStatistics

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.facts import Fact
    from penstock.core.clock import Clock

_log = logging.getLogger("penstock.checkpoint")


class CheckpointJournal:
    """Takes in the coordinator's facts."""

    def __init__(self, job_id: str, clock: Clock, history_size: int, num_subtasks: int) -> None:
        self._job_id = job_id
        self._clock = clock
        self.statistics = CheckpointStatistics(history_size, num_subtasks)
        self.listener: Callable[[Fact], None] | None = None

    def note(self, fact: Fact) -> None:
        now_ms = self._clock.wall_ms()
        self.statistics.apply(fact, now_ms)
        line = self._line(fact, now_ms)
        if line is not None:
            _log.log(*line)
        if self.listener is not None:
            self.listener(fact)

    def _line(  # noqa: PLR0911 - one text for each kind of fact
        self, fact: Fact, now_ms: int
    ) -> tuple[int, str] | None:
        match fact:
            case CheckpointTriggered():
                # The first words are Flink's: dashboards and scripts look for them.
                return logging.INFO, (
                    f"Triggering checkpoint {fact.checkpoint_id} (type={fact.request.kind.value}) "
                    f"@ {now_ms} for job {self._job_id}."
                )
            case CheckpointCompleted():
                return logging.INFO, (
                    f"Completed checkpoint {fact.checkpoint_id} for job {self._job_id} "
                    f"({fact.figures.checkpointed_bytes} bytes, "
                    f"checkpointDuration={fact.duration_ms} ms, "
                    f"finalizationTime={fact.finalization_ms} ms)."
                )
            case CheckpointFailed():
                follows = fact.failure.reason in CONSEQUENCES
                level = logging.INFO if follows else logging.WARNING
                return level, f"Checkpoint {fact.checkpoint_id} failed: {fact.failure}"
            case CheckpointRestored():
                return logging.INFO, (
                    f"Job {self._job_id} starts from {fact.kind.value.lower()} "
                    f"{fact.checkpoint_id} in {fact.location}."
                )
            case TriggerDeclined():
                return logging.INFO, f"A checkpoint was not triggered: {fact.failure}"
            case SinkCommitDelayed():
                return logging.WARNING, (
                    f"Sinks did not commit checkpoint {fact.checkpoint_id}; it is tried again: "
                    f"{fact.message}"
                )
            case CleanupFailed():
                return logging.WARNING, (
                    f"Files of checkpoint {fact.checkpoint_id} were not deleted: {fact.message}"
                )
            case LateAnswerDropped():
                return logging.INFO, (
                    f"A late answer ({fact.answer}) for checkpoint {fact.checkpoint_id} is dropped."
                )
        return None
