"""PyFlink's `common.job_client`: a running job, as its program sees it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.common.completable_future import CompletableFuture
from penstock.core.errors import UnsupportedError
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.core.refused_names import names_of
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.graph.job_graph import ChainedOperator, Stage
    from penstock.job.record import JobFacts
    from penstock.runtime.job_metrics import OperatorTotals


@dataclass(frozen=True, slots=True)
class MeterFigures:
    """A meter of the user's, over all subtasks.

    Attributes:
        count: Events in this attempt of the job.
        per_second: Their rate over the last seconds.
    """

    count: int
    per_second: float


@dataclass(frozen=True, slots=True)
class DistributionFigures:
    """A distribution of the user's, over all subtasks; minimum and maximum are None if empty."""

    count: int
    sum: int
    min: int | None
    max: int | None

    @property
    def mean(self) -> float | None:
        """The average, or None without values."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """One operator over all its subtasks, since the running attempt of the job began.

    Attributes:
        uid: Its uid, given or generated.
        name: Its name.
        parallelism: Number of its subtasks.
        records_in: Records that it took.
        records_out: Records that it put out, side outputs aside.
        late_dropped: Records that came too late for every window and had no side output.
        fired_timers: Timers that came due.
        watermark: The lowest of its subtasks in milliseconds; None before the first, and at the
            end of bounded input.
        state_bytes: Size of its state.
        counters: The user's counters by dotted name, and those of a source.
        meters: The user's meters.
        gauges: What the user's gauges and those of a source said last, a value for each subtask
            that has one.
        distributions: The user's distributions.
    """

    uid: str
    name: str
    parallelism: int
    records_in: int = 0
    records_out: int = 0
    late_dropped: int = 0
    fired_timers: int = 0
    watermark: int | None = None
    state_bytes: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    meters: dict[str, MeterFigures] = field(default_factory=dict)
    gauges: dict[str, list[Any]] = field(default_factory=dict)
    distributions: dict[str, DistributionFigures] = field(default_factory=dict)


def figures_of(facts: JobFacts) -> dict[str, OperatorFigures]:
    """Returns the figures of every operator by uid, sources first."""
    return {
        operator.uid: _operator(facts, stage, operator)
        for stage in facts.graph.stages
        for operator in stage.operators
    }


def _operator(facts: JobFacts, stage: Stage, operator: ChainedOperator) -> OperatorFigures:
    rates = facts.metrics.rates(facts.rates_at_ms)
    totals: list[OperatorTotals] = []
    growth: dict[str, int] = {}
    for index in range(stage.parallelism):
        subtask = facts.totals(stage, index)
        if subtask is None or operator.uid not in subtask.operators:
            continue
        totals.append(subtask.operators[operator.uid])
        grown = rates.operator((stage.stage_id, index), operator.uid)
        for name, events in grown.meters.items():
            growth[name] = growth.get(name, 0) + events
    lowest = min((each.watermark_in for each in totals), default=MIN_WATERMARK)
    return OperatorFigures(
        uid=operator.uid,
        name=operator.name,
        parallelism=stage.parallelism,
        records_in=sum(each.records_in for each in totals),
        records_out=sum(each.records_out for each in totals),
        late_dropped=sum(each.late_dropped for each in totals),
        fired_timers=sum(each.fired_timers for each in totals),
        watermark=lowest if MIN_WATERMARK < lowest < MAX_WATERMARK else None,
        state_bytes=sum(each.state_bytes for each in totals),
        counters=_plain(_summed([each.counters for each in totals])),
        meters={
            name: MeterFigures(count, rates.per_second(growth.get(name, 0)))
            for name, count in _summed([each.meters for each in totals]).items()
        },
        gauges=_plain(_listed([each.gauges for each in totals])),
        distributions=_joined([each.distributions for each in totals]),
    )


def _plain(figures: dict[str, Any]) -> dict[str, Any]:
    """Returns figures with the names of sources' own as users know them."""
    return {name.removeprefix("."): value for name, value in figures.items()}


def _summed(parts: list[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _listed(parts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: [part[name] for part in parts if name in part] for name in names}


def _joined(parts: list[dict[str, dict[str, Any]]]) -> dict[str, DistributionFigures]:
    joined: dict[str, DistributionFigures] = {}
    for name, values in _listed(parts).items():
        filled = [each for each in values if each["count"]]
        joined[name] = DistributionFigures(
            sum(each["count"] for each in filled),
            sum(each["sum"] for each in filled),
            min((each["min"] for each in filled), default=None),
            max((each["max"] for each in filled), default=None),
        )
    return joined


__getattr__ = names_of(__name__)


class RunningJob(Protocol):
    """What launches a job hands back; further methods are used where it has them."""

    job_id: str
    status: JobStatus
    result: Future[JobExecutionResult]

    def cancel(self) -> None:
        """Asks the job to stop."""


class CheckpointList(list[Any]):
    """Checkpoints, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from penstock.job.progress import checkpoints_html

        return checkpoints_html(self)


class JobClient:
    """Asks about a job and steers it."""

    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def get_job_id(self) -> JobID:
        return JobID(self._job.job_id)

    def get_job_status(self) -> CompletableFuture:
        """Returns a future of the job's status."""
        return CompletableFuture.completed(self._job.status)

    def cancel(self) -> CompletableFuture:
        """Asks the job to stop, without a savepoint."""
        self._job.cancel()
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Takes a savepoint and stops; the future holds its path.

        Args:
            advance_to_end_of_event_time: Fires all timers and windows first; for jobs that will
                not be resumed.
            savepoint_directory: Where; `execution.checkpointing.savepoint-dir` if None.
        """
        stop = self._ability("stop_with_savepoint")
        return CompletableFuture(
            stop(drain=advance_to_end_of_event_time, directory=savepoint_directory), str
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint while the job goes on; the future holds its path."""
        trigger = self._ability("trigger_savepoint")
        return CompletableFuture(trigger(directory=savepoint_directory), str)

    def trigger_checkpoint(self) -> CompletableFuture:
        """Takes a checkpoint now; the future holds its number."""
        return CompletableFuture(self._ability("trigger_checkpoint")())

    def rescale(self, parallelism: int) -> CompletableFuture:
        """Continues with another parallelism, from a checkpoint that is taken now.

        It changes the operators without a parallelism of their own. The future holds the number of
        the checkpoint, and comes when the job runs again.
        """
        return CompletableFuture(self._ability("rescale")(parallelism))

    def checkpoints(self) -> CheckpointList:
        """Returns the checkpoints and savepoints of the job, newest first."""
        return CheckpointList(self._ability("checkpoints")())

    def metrics(self) -> dict[str, OperatorFigures]:
        """Returns what each operator has done, with the user's own metrics, by uid."""
        return figures_of(self._ability("facts")())

    def add_listener(self, listener: Any) -> None:
        """Adds a listener for future events of the job; see the environment's method."""
        self._ability("listeners").add(listener)

    @property
    def last_epoch(self) -> int:
        """Number of the last epoch that ended."""
        return int(self._ability("last_epoch"))

    def get_accumulators(self) -> CompletableFuture:
        """Returns a future of all accumulated values by name."""
        result = self._job.result
        done = result.done() and result.exception() is None
        values = result.result().get_all_accumulator_results() if done else {}
        return CompletableFuture.completed(values)

    def get_job_execution_result(self) -> CompletableFuture:
        """Returns a future of the result, which comes when the job has ended."""
        return CompletableFuture(self._job.result)

    def exception(self) -> BaseException | None:
        """Returns why the job failed; None if it did not, was cancelled, or has not ended."""
        error = self.get_job_execution_result().exception()
        return None if self._job.status is JobStatus.CANCELED else error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds; says whether it came. Raises a failure.

        To be cancelled is no failure here, as with Spark's queries; the future of
        `get_job_execution_result()` raises then, as Flink's does.
        """
        with contextlib.suppress(TimeoutError):
            self._job.result.exception(timeout)
        if not self._job.result.done():
            return False
        if self._job.status is not JobStatus.CANCELED:
            self._job.result.result()
        return True

    def _wait_quietly(self) -> None:
        """Waits for the end of a job that was cancelled."""
        with contextlib.suppress(Exception):
            self._job.result.result()

    def _ability(self, name: str) -> Any:
        found = getattr(self._job, name, None)
        if found is None:
            raise UnsupportedError(
                f"the job does not offer {name}: it runs in this process. Submit it to a job "
                "manager (penstock run -d) for that."
            )
        return found

    def _repr_html_(self) -> str:
        from penstock.core.times import SystemClock
        from penstock.job.progress import checkpoints_html, digest_of, job_html

        table = job_html(digest_of(self._job, SystemClock().wall_ms()))  # type: ignore[arg-type]
        records = self.checkpoints()[:5]
        return table + (checkpoints_html(records) if records else "")

    def __repr__(self) -> str:
        return f"JobClient({self._job.job_id}, {self._job.status.name})"
