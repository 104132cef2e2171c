"""What is remembered of a job while it runs: states with their times, failures, figures.

`LocalJob` notes what happens in its `Job`; documents and pages are made of `JobFacts`, the job at
one moment. Nothing decides by either. One thread writes, any thread reads: every value is replaced,
never changed.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError, UserFunctionError
from penstock.core.job import JobExecutionResult, JobStatus
from penstock.core.redaction import without_secrets
from penstock.core.times import SystemClock
from penstock.jobmanager.job_records import JobRecord
from penstock.operators.errors import describe_exception
from penstock.operators.function_logic import RESULTS_NONE
from penstock.runtime.job_metrics import (
    LATE_DROPPED,
    JobMetrics,
    LateNotices,
    LateRecords,
    late_records,
    maps_to_none,
)

if TYPE_CHECKING:
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.statistics import CheckpointStatistics
    from penstock.graph.job_graph import JobGraph, Stage
    from penstock.job.settings import JobSettings
    from penstock.runtime.job_metrics import SubtaskTotals
    from penstock.runtime.job_state import EpochSummary
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
    cause: str = "other"  # As the label of its error names it.


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """An executor of a cluster."""

    id: str  # Spark's id.
    host: str
    slots: int  # Tasks that it runs at once.


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What runs the epochs."""

    name: str = "this process"  # Such as `Spark 4.1.0 (local[2])`.
    host: str = "localhost"  # Where the driver is.
    executors: int = 1  # Processes that run tasks.
    cores: int = 1  # Tasks that they run at once.
    known: tuple[ExecutorFacts, ...] = ()  # On a cluster: those of the last epoch.


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
    # How many there were in this process, by cause.
    failure_counts: Mapping[str, int] = field(default_factory=dict)
    engine: EngineFacts = field(default=EngineFacts())  # What runs the epochs.
    storage: StorageFacts = field(default=StorageFacts())  # What was asked of checkpoint storage.
    overdue: OverdueEpoch | None = None  # The running epoch, if it should have ended long ago.

    @property
    def uptime_ms(self) -> int:
        """When the running attempt started; 0 when none runs."""
        record = self.record
        return record.timestamps[JobStatus.RUNNING] if record.status is JobStatus.RUNNING else 0

    def totals(self, stage: Stage, index: int) -> SubtaskTotals | None:
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


_MAX_FAILURE_CHARACTERS: Final = 64 * 1024
MOST_FAILURES: Final = 16
_LATE_ADVICE: Final = (
    "the watermark had passed the end of their windows. To see them: "
    ".side_output_late_data(tag), at an interval join .side_output_left_late_data(tag). To keep "
    "them: .allowed_lateness(...), a larger bound in for_bounded_out_of_orderness(...), "
    "with_watermark_alignment(...) at a source whose splits run apart, or for bounded input "
    "env.set_runtime_mode(RuntimeExecutionMode.BATCH)."
)
_NONES: Final = "Does its function lack a return? To leave records out, use filter() or flat_map()."
_MANY_NONES: Final = 1_000
_TOLD_OF_REPEATS: Final = frozenset({3, 30, 300, 3000})
_EPOCH_NUMBER: Final = re.compile(r"epoch:? \d+")
_log = logging.getLogger("penstock.job")


class Job:
    """A job as others see it."""

    def __init__(self, graph: JobGraph, settings: JobSettings, job_id: str) -> None:
        self.job_id = job_id
        self.graph = graph
        self.settings = settings
        self.last_epoch = 0
        """Number of the last epoch that counts; 0 before the first."""
        self.records_read = 0
        """Over all sources and epochs of all attempts."""
        self.restarts = 0
        self.restarts_before = 0
        """Of processes before this one."""
        self.metrics = JobMetrics()
        self.result: Future[JobExecutionResult] = Future()
        """Comes when the job has ended."""
        self.statistics: CheckpointStatistics | None = None
        """Counts and figures of checkpoints; None before the job has started."""
        self.overdue: OverdueEpoch | None = None
        """The epoch that runs, if it should have ended long ago."""
        self._late_notices = LateNotices()
        self._maps_to_none: set[str] = set()
        self.engine_facts = EngineFacts(settings.master)
        self.find_executors: Callable[[], tuple[ExecutorFacts, ...]] = tuple
        """Names the executors of a cluster, which come and go."""
        self.failures: tuple[FailureRecord, ...] = ()
        """Newest first."""
        self.storage_facts: Callable[[], StorageFacts] = StorageFacts
        """Says what was asked of checkpoint storage."""
        self._failures_dropped = False
        self._failure_counts: Counter[str] = Counter()
        self._clock = SystemClock()
        self.created_ms = self._clock.wall_ms()
        self.ended_ms: int | None = None
        self._figures_at_ms: int | None = None
        self._status = JobStatus.INITIALIZING
        self._entered = {JobStatus.INITIALIZING: self.created_ms}

    @property
    def status(self) -> JobStatus:
        return self._status

    @status.setter
    def status(self, status: JobStatus) -> None:
        now_ms = self._clock.wall_ms()
        if status.is_terminal_state() and self.ended_ms is None:
            self.ended_ms = now_ms
            # Figures of a job that has ended stay as they were then.
            self._figures_at_ms = self._clock.monotonic_ms()
            asked = self.storage_facts()
            self.storage_facts = lambda: asked
        self._entered = {**self._entered, status: now_ms}
        self._status = status

    def attempt_started(self, attempt: int) -> None:
        """Resets the figures for a new attempt."""
        self.restarts = attempt
        self._late_notices = LateNotices()
        self.metrics = JobMetrics(started_ms=self._clock.monotonic_ms())

    def epoch_done(self, summary: EpochSummary) -> None:
        self.last_epoch = summary.epoch
        self.records_read += summary.records_read
        self.metrics = self.metrics.folded(self.graph, summary, self._clock.monotonic_ms())
        seen = {
            name
            for report in summary.reports
            for metrics in report.metrics.values()
            for name in (LATE_DROPPED, RESULTS_NONE)
            if metrics.user.get(name)
        }
        if LATE_DROPPED in seen:
            self._warn_of_late_records()
        if RESULTS_NONE in seen:
            self._warn_of_nones(_MANY_NONES)

    def _warn_of_late_records(self, *, at_end: bool = False) -> dict[str, LateRecords]:
        found = late_records(self.graph, self.metrics.totals)
        for late in self._late_notices.due(found, at_end=at_end):
            _log.warning("%s: %s", late, _LATE_ADVICE)
        return found

    def _warn_of_nones(self, least: int) -> None:
        for name, taken in maps_to_none(self.graph, self.metrics.totals).items():
            if taken >= least and name not in self._maps_to_none:
                self._maps_to_none.add(name)
                _log.warning("'%s' made None of all its %s records. %s", name, f"{taken:,}", _NONES)

    def summed_up(self) -> dict[str, int]:
        """Says what is striking about a job that has ended.

        Returns:
            The records that were dropped as late, by the names of the operators.
        """
        self._warn_of_nones(1)
        counts: Counter[str] = Counter()
        for late in self._warn_of_late_records(at_end=True).values():
            counts[late.name] += late.dropped
        return dict(counts)

    def failed(self, error: BaseException, restored_id: int | None = None) -> None:
        """Remembers a failure.

        An error of ours loses its frames: its text says it all, and frames of the engine would
        only push that off the screen.
        """
        attempt = self.restarts_before + self.restarts
        failure = failure_of(error, self._clock.wall_ms(), attempt, restored_id, self.graph)
        self._failures_dropped = self._failures_dropped or len(self.failures) >= MOST_FAILURES
        self.failures = (failure, *self.failures)[:MOST_FAILURES]
        self._failure_counts = self._failure_counts + Counter([failure.cause])
        if isinstance(error, PenstockError):
            _log.debug("Attempt %s of job %s failed.", attempt, self.job_id, exc_info=error)
            error.__traceback__ = None

    def facts(self) -> JobFacts:
        statistics = self.statistics
        completed = None if statistics is None else statistics.latest.completed
        status, entered = self._status, self._entered
        record = JobRecord(
            job_id=self.job_id,
            name=self.graph.job_name,
            submitted_ms=self.created_ms,
            status=status,
            changed_ms=entered[status],
            timestamps=entered,
            ended_ms=self.ended_ms,
            last_checkpoint_ms=None if completed is None else completed.ended_ms,
            restarts=self.restarts_before + self.restarts,
        )
        return JobFacts(
            record,
            self.graph,
            self.metrics,
            self._clock.monotonic_ms() if self._figures_at_ms is None else self._figures_at_ms,
            self.failures,
            self._failures_dropped,
            self._failure_counts,
            with_executors(self.engine_facts, self.find_executors()),
            self.storage_facts(),
            self.overdue,
        )


def in_one_line(error: BaseException) -> str:
    """Returns what went wrong and where, without frames."""
    if "\n" not in str(error):
        return str(error)
    text = str(error).replace("\n  | ", "\n")  # Lines of an exception group.
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    place = next((line for line in lines if line.startswith("in operator")), "")
    what = next((line for line in lines if not line.startswith("Traceback")), type(error).__name__)
    reason = text.partition(f"{what}\n  - ")[2].partition("\n")[0]
    what = f"{what} {reason}".strip().rstrip(".") + (f", {place}" if place else "")
    record = getattr(error, "record", None)
    return f"{what}{'' if record is None else f', record {record}'}."


class FailuresInARow:
    """Recognises failures of a job that repeat, so that the log shows their number."""

    def __init__(self) -> None:
        self._last: tuple[str, ...] | None = None
        self._count = 0

    def lines(self, error: BaseException, delay_ms: int) -> list[str]:
        """Returns what to say about one more failure, and the restart behind it."""
        found: tuple[str, ...] = (type(error).__name__, _EPOCH_NUMBER.sub("", str(error)))
        place = ""
        if isinstance(error, UserFunctionError) and error.record is not None:
            found = (error.uid or error.operator_name, error.cause_type, error.record)
            place = (
                f" in '{error.operator_name}' at the record {error.record} with {error.cause_type}"
            )
        self._count = self._count + 1 if found == self._last else 1
        self._last = found
        if self._count == 1:
            line, (first, _, rest) = in_one_line(error), str(error).partition("\n")
            story = rest if line.startswith(first) else f"{first}\n{rest}"
            return [f"restarts in {delay_ms} ms after: {line}" + (rest and f"\n{story}")]
        lines = [f"restarts in {delay_ms} ms after the same failure, {self._count} times in a row."]
        if self._count in _TOLD_OF_REPEATS:
            remedy = "Remove the cause"
            if place:
                remedy = "Catch the exception in the function and send the record to a side output"
            lines.append(
                f"failed {self._count} times in a row{place}: it hardly heals by itself. {remedy}, "
                "or limit the restarts with restart-strategy.type: fixed-delay."
            )
        return lines


def failure_of(
    error: BaseException,
    time_ms: int,
    attempt: int,
    restored_id: int | None = None,
    graph: JobGraph | None = None,
) -> FailureRecord:
    """Returns an exception as people are to see it: the user's frames first, no secrets."""
    name, task, subtask = type(error).__name__, None, None
    text = describe_exception(error)
    if isinstance(error, UserFunctionError):
        # Its text starts with the user's traceback, which says it all.
        name, text = error.cause_type or name, str(error)
        subtask = error.subtask
        task = next(
            (
                stage.name
                for stage in (() if graph is None else graph.stages)
                for operator in stage.operators
                if operator.uid == error.uid or (not error.uid and operator.name in stage.name)
            ),
            error.operator_name or None,
        )
    shown = without_secrets(text)
    if len(shown) > _MAX_FAILURE_CHARACTERS:
        half = _MAX_FAILURE_CHARACTERS // 2
        shown = f"{shown[:half]}\n[…]\n{shown[-half:]}"
    cause = error.failure_label if isinstance(error, PenstockError) else "other"
    return FailureRecord(time_ms, name, shown, task, subtask, attempt, restored_id, cause)


def storage_facts(files: CheckpointFiles) -> StorageFacts:
    """Returns what was asked of checkpoint storage."""
    counts = files.storages.counts
    return StorageFacts(
        counts.requests(), counts.retries, counts.fenced_writes, files.orphans.orphan_bytes
    )


def with_executors(engine: EngineFacts, known: tuple[ExecutorFacts, ...]) -> EngineFacts:
    """Returns the engine with the executors that it has now, if these are known."""
    cores = sum(each.slots for each in known)
    return replace(engine, executors=len(known), cores=cores, known=known) if known else engine
