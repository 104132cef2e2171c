"""What the documents of a job are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.job import JobStatus

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.jobmanager.job_records import JobRecord
    from penstock.runtime.job_metrics import JobMetrics, SubtaskTotals
    from penstock.runtime.overdue import OverdueEpoch

TASK_STATES: Final = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)
"""Flink's states of a subtask."""

_STATES: Final = {
    JobStatus.INITIALIZING: "CREATED",
    JobStatus.CREATED: "SCHEDULED",
    JobStatus.RESTARTING: "SCHEDULED",
    JobStatus.RECONCILING: "RECONCILING",
    JobStatus.FAILING: "CANCELING",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.SUSPENDED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
}


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A failure of the job, for people."""

    time_ms: int  # Wall time.
    name: str  # Class of the exception; the user's own where a function of theirs raised.
    text: str  # Full text, the user's frames first.
    task: str | None = None  # Name of the task in which it happened, or None.
    subtask: int | None = None  # Index of the subtask, or None.
    attempt: int = 0  # Which attempt of the job ended with it, from 0.
    # Checkpoint from which the next attempt started; None without one.
    restored_id: int | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What runs the epochs."""

    name: str = "this process"  # Such as `Spark 4.1.0 (local[2])`.
    host: str = "localhost"  # Where the driver is.
    executors: int = 1  # Processes that run tasks.
    cores: int = 1  # Tasks that they run at once.


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """What the driver has asked of checkpoint storage."""

    # How many, by operation and outcome.
    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    retries: int = 0  # How often something was asked once more.
    fenced_writes: int = 0  # How often a write was refused because another leader is at work.
    orphan_bytes: int = 0  # Size of files that no checkpoint names and that are too young to go.


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job at one moment, in the process that runs it."""

    record: JobRecord  # As its job manager knows it, but for the tasks.
    graph: JobGraph
    metrics: JobMetrics  # What it has done.
    rates_at_ms: int = 0  # The moment, on the clock of the metrics.
    failures: tuple[FailureRecord, ...] = ()  # Newest first.
    failures_dropped: bool = False  # Whether older failures were forgotten.
    engine: EngineFacts = field(default=EngineFacts())  # What runs the epochs.
    storage: StorageFacts = field(default=StorageFacts())  # What was asked of checkpoint storage.
    overdue: OverdueEpoch | None = None  # The running epoch, if it should have ended long ago.

    @property
    def uptime_ms(self) -> int:
        """When the running attempt started; 0 when none runs."""
        record = self.record
        return record.timestamps[JobStatus.RUNNING] if record.status is JobStatus.RUNNING else 0

    def totals(self, stage: Stage, index: int) -> SubtaskTotals | None:
        """Returns what a subtask has done; None before its first epoch."""
        return self.metrics.totals.subtasks.get((stage.stage_id, index))


def task_state(facts: JobFacts, stage: Stage, index: int) -> str:
    """Returns Flink's name for where a subtask stands."""
    status = facts.record.status
    if status is JobStatus.FAILED:
        latest = facts.failures[0] if facts.failures else None
        if latest is None or latest.task is None:
            return "FAILED"
        is_culprit = latest.task == stage.name and latest.subtask in (index, None)
        return "FAILED" if is_culprit else "CANCELED"
    if status is JobStatus.RUNNING:
        totals = facts.totals(stage, index)
        if totals is None:
            return "INITIALIZING"
        return "FINISHED" if totals.has_ended else "RUNNING"
    return _STATES[status]


def task_counts(facts: JobFacts) -> dict[str, int]:
    """Returns the number of subtasks in each state, as the record of a job has them."""
    totals = {"total": 0}
    for stage in facts.graph.stages:
        for state, count in stage_counts(facts, stage).items():
            totals["total"] += count
            totals[state.lower()] = totals.get(state.lower(), 0) + count
    return totals


def stage_counts(facts: JobFacts, stage: Stage) -> dict[str, int]:
    """Returns how many subtasks of a stage are in each state."""
    counts = dict.fromkeys(TASK_STATES, 0)
    for index in range(stage.parallelism):
        counts[task_state(facts, stage, index)] += 1
    return counts


_AGGREGATION: Final = (
    # As Flink: one failure fails the vertex; otherwise its least advanced subtask counts.
    "FAILED",
    "CANCELING",
    "CANCELED",
    "INITIALIZING",
    "RUNNING",
    "RECONCILING",
    "DEPLOYING",
    "SCHEDULED",
    "CREATED",
    "FINISHED",
)


def stage_state(facts: JobFacts, stage: Stage) -> str:
    """Returns the state of a stage as a whole."""
    counts = stage_counts(facts, stage)
    return next(state for state in _AGGREGATION if counts[state])
