"""What a job has done so far and how fast it goes: a pure fold of the reports of its epochs.

    totals after an epoch = folded(totals before, reports of the epoch, its duration)

A total is an immutable value, so a rate is the difference between two of
them. Totals begin at 0 with each attempt, as Flink's do.

How a subtask spent the time of an epoch: *busy* is what it says; *back pressured* is the rest, as
far as stages behind it worked while more input was waiting; the remainder is *idle*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.times import MIN_WATERMARK
from penstock.operators.function_logic import RESULTS_NONE
from penstock.operators.windows.partials import RECORDS_INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage
    from penstock.runtime.job_state import EpochSummary
    from penstock.runtime.records import OperatorMetrics, SubtaskKey, SubtaskReport

WINDOW_MS: Final = 10_000
"""Rates look back this far."""
_MARK_EVERY_MS: Final = 1_000
LATE_DROPPED: Final = "numLateRecordsDropped"
PENDING_RECORDS: Final = ".pendingRecords"
"""What a source says of records that it has not read yet."""
_TOLD_AGAIN: Final = 10
"""Late records are spoken of again when there are so many times as many."""


@dataclass(frozen=True, slots=True)
class OperatorTotals:
    """One operator in one subtask.

    Attributes:
        records_in: Records it took.
        records_out: Records of its main output.
        late_dropped: Records that came too late and went nowhere.
        fired_timers: Timers that came due.
        watermark_in: Its own watermark.
        watermark_out: What those behind it were told last.
        state_bytes: Size of its state, keyed and other.
        counters: The user's counters, by dotted name.
        meters: Events that the user's meters counted.
        gauges: What the user's gauges said last.
        distributions: Count, sum, minimum and maximum of the user's distributions.
        results_none: Results of `map` that are None, as far as they are counted.
    """

    records_in: int = 0
    records_out: int = 0
    late_dropped: int = 0
    fired_timers: int = 0
    watermark_in: int = MIN_WATERMARK
    watermark_out: int = MIN_WATERMARK
    state_bytes: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    meters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, Any] = field(default_factory=dict)
    distributions: dict[str, dict[str, Any]] = field(default_factory=dict)
    results_none: int = 0


@dataclass(frozen=True, slots=True)
class SubtaskTotals:
    """One subtask.

    Attributes:
        records_in: Records its first operator took; for a source, those it read.
        records_out: Records that its last operators put out.
        busy_ms: Time inside the subtask.
        back_pressured_ms: Time it waited for stages behind it although there was input.
        commit_ms: How long the last commit of its state took.
        watermark: Watermark of its first operator.
        has_ended: Its input has ended.
        operators: By uid.
        home: Where the driver wants it to run; empty where it has no say.
        worker_bytes: Memory of the worker process there.
    """

    records_in: int = 0
    records_out: int = 0
    busy_ms: float = 0.0
    back_pressured_ms: float = 0.0
    commit_ms: float = 0.0
    watermark: int = MIN_WATERMARK
    has_ended: bool = False
    operators: dict[str, OperatorTotals] = field(default_factory=dict)
    home: str = ""
    worker_bytes: int = 0


@dataclass(frozen=True, slots=True)
class JobTotals:
    """The whole job in this attempt.

    Attributes:
        epoch: The last epoch that counts.
        epochs: How many there were.
        epoch_ms: How long they took together.
        last_epoch_ms: How long the last one took.
        last_epoch_records: Records that it read.
        backlog: More could have been read in it.
        subtasks: By stage and index.
        phases_ms: What the duration of the last epoch is made of.
        task_retries: How often tasks were tried again, in all epochs.
        home_hits: How often a subtask found its state in the worker that ran it.
        restores: How often it did not, and read its state from files.
        moves: How often a subtask was given another home.
    """

    epoch: int = 0
    epochs: int = 0
    epoch_ms: int = 0
    last_epoch_ms: int = 0
    last_epoch_records: int = 0
    backlog: bool = False
    subtasks: dict[SubtaskKey, SubtaskTotals] = field(default_factory=dict)
    phases_ms: dict[str, int] = field(default_factory=dict)
    task_retries: int = 0
    home_hits: int = 0
    restores: int = 0
    moves: int = 0


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """Totals now, and as they were at some moments of the last seconds.

    Attributes:
        totals: Now.
        started_ms: When the attempt began, on the clock that `folded` is given.
        marks: Earlier totals with their times, oldest first.
    """

    totals: JobTotals = field(default=JobTotals())
    started_ms: int = 0
    marks: tuple[tuple[int, JobTotals], ...] = ()

    def folded(self, graph: JobGraph, summary: EpochSummary, now_ms: int) -> JobMetrics:
        """Returns the metrics after an epoch that counts."""
        marks = self.marks or ((self.started_ms, JobTotals()),)
        totals = _folded(graph, self.totals, summary)
        if now_ms - marks[-1][0] >= _MARK_EVERY_MS:
            # The mark before the window stays: from it on, the window is covered.
            inside = [index for index, mark in enumerate(marks) if now_ms - mark[0] < WINDOW_MS]
            first = max(inside[0] - 1, 0) if inside else len(marks) - 1
            marks = (*marks[first:], (now_ms, totals))
        return replace(self, totals=totals, marks=marks)

    def rates(self, now_ms: int) -> Rates:
        """Returns what the last seconds were like."""
        if not self.marks:
            return Rates(max(now_ms - self.started_ms, 1), self.totals, JobTotals())
        at_ms, before = self.marks[0]
        for mark_ms, mark in self.marks[1:]:
            if now_ms - mark_ms < WINDOW_MS:
                break
            at_ms, before = mark_ms, mark
        return Rates(max(now_ms - at_ms, 1), self.totals, before)


@dataclass(frozen=True, slots=True)
class Rates:
    """Growth over a span of time."""

    span_ms: int
    now: JobTotals
    before: JobTotals

    def subtask(self, key: SubtaskKey) -> SubtaskTotals:
        """Returns the growth of a subtask; operators are left out."""
        now = self.now.subtasks.get(key, _NOTHING)
        before = self.before.subtasks.get(key, _NOTHING)
        return SubtaskTotals(
            now.records_in - before.records_in,
            now.records_out - before.records_out,
            now.busy_ms - before.busy_ms,
            now.back_pressured_ms - before.back_pressured_ms,
        )

    def operator(self, key: SubtaskKey, uid: str) -> OperatorTotals:
        """Returns the growth of an operator in a subtask, meters included."""
        now = self.now.subtasks.get(key, _NOTHING).operators.get(uid, OperatorTotals())
        before = self.before.subtasks.get(key, _NOTHING).operators.get(uid, OperatorTotals())
        return OperatorTotals(
            now.records_in - before.records_in,
            now.records_out - before.records_out,
            meters={
                name: events - before.meters.get(name, 0) for name, events in now.meters.items()
            },
        )

    def per_second(self, growth: float) -> float:
        """Returns a growth over the span as a rate."""
        return growth * 1000 / self.span_ms

    def per_mille(self, time_ms: float) -> int:
        """Returns a time spent within the span as milliseconds a second, at most 1000."""
        return min(round(time_ms * 1000 / self.span_ms), 1000)


_NOTHING: Final = SubtaskTotals()


def _folded(graph: JobGraph, before: JobTotals, summary: EpochSummary) -> JobTotals:
    waits = _work_behind(graph, summary.reports)
    subtasks: dict[SubtaskKey, SubtaskTotals] = {}
    for report in summary.reports:
        key = report.stage_id, report.subtask
        known = before.subtasks.get(key, _NOTHING)
        stage = graph.stages[report.stage_id]
        operators = {
            uid: _operator(known.operators.get(uid, OperatorTotals()), metrics, report, uid)
            for uid, metrics in report.metrics.items()
        }
        taken = report.metrics.get(stage.operators[0].uid)
        waited = max(summary.duration_ms - report.busy_ms, 0.0)
        held_up = min(waited, waits[stage.level]) if summary.backlog else 0.0
        subtasks[key] = SubtaskTotals(
            known.records_in
            + (report.records_read if stage.is_source else _taken(taken) if taken else 0),
            known.records_out
            + sum(report.metrics[uid].records_out for uid in _ends(graph, report)),
            known.busy_ms + report.busy_ms,
            known.back_pressured_ms + held_up,
            report.commit_ms,
            report.watermark,
            report.input_ended,
            operators,
            report.home,
            report.worker_bytes,
        )
    return JobTotals(
        summary.epoch,
        before.epochs + 1,
        before.epoch_ms + summary.duration_ms,
        summary.duration_ms,
        summary.records_read,
        summary.backlog,
        subtasks,
        summary.phases_ms,
        before.task_retries + sum(report.retries for report in summary.reports),
        before.home_hits + sum(report.held is True for report in summary.reports),
        before.restores + sum(report.held is False for report in summary.reports),
        before.moves
        + sum(known.home not in {"", subtasks[key].home} for key, known in before.subtasks.items()),
    )


def _ends(graph: JobGraph, report: SubtaskReport) -> set[str]:
    """Returns the uids of operators whose output leaves the subtask."""
    stage = graph.stages[report.stage_id]
    positions = {edge.source_operator for edge in graph.outputs_of(stage) if edge.side_tag is None}
    uids = {stage.operators[position].uid for position in positions}
    return uids & report.metrics.keys()


def _work_behind(graph: JobGraph, reports: Iterable[SubtaskReport]) -> list[float]:
    """Returns for each level how long the levels behind it worked."""
    longest = work_by_level(graph, reports)
    return [sum(longest[level + 1 :]) for level in range(len(longest))]


def work_by_level(graph: JobGraph, reports: Iterable[SubtaskReport]) -> list[float]:
    """Returns how long each level, one after the other, worked, in ms: as its slowest task.

    A task runs its subtasks one after the other.
    """
    by_task: list[dict[int, float]] = [{} for _ in graph.levels]
    for report in reports:
        level = by_task[graph.stages[report.stage_id].level]
        level[report.attempt_id] = level.get(report.attempt_id, 0.0) + report.busy_ms
    return [max(level.values(), default=0.0) for level in by_task]


def _taken(metrics: OperatorMetrics) -> int:
    """Returns how many records an operator took; partials count as the records in them."""
    return metrics.records_in + int(metrics.user.get(RECORDS_INSIDE, 0))


def _operator(
    known: OperatorTotals, metrics: OperatorMetrics, report: SubtaskReport, uid: str
) -> OperatorTotals:
    counters, meters = dict(known.counters), dict(known.meters)
    gauges, distributions = dict(known.gauges), dict(known.distributions)
    late = nones = 0
    for name, value in metrics.user.items():
        if not isinstance(value, dict):
            if name == LATE_DROPPED:
                late = value
            elif name == RESULTS_NONE:
                nones = value
            elif name != RECORDS_INSIDE:
                counters[name] = counters.get(name, 0) + value
        elif "events" in value:
            meters[name] = meters.get(name, 0) + value["events"]
        elif "value" in value:
            gauges[name] = value["value"]
        else:
            distributions[name] = _joined(distributions.get(name), value)
    version = report.version.operators.get(uid) if report.version is not None else None
    return OperatorTotals(
        known.records_in + _taken(metrics),
        known.records_out + metrics.records_out,
        known.late_dropped + late,
        known.fired_timers + metrics.fired_timers,
        metrics.watermark_in,
        metrics.watermark_out,
        0 if version is None else sum(handle.size_bytes for handle in version.files),
        counters,
        meters,
        gauges,
        distributions,
        known.results_none + nones,
    )


def _joined(known: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    if known is None or not known["count"]:
        return new
    if not new["count"]:
        return known
    return {
        "count": known["count"] + new["count"],
        "sum": known["sum"] + new["sum"],
        "min": min(known["min"], new["min"]),
        "max": max(known["max"], new["max"]),
    }


@dataclass(frozen=True, slots=True)
class LateRecords:
    """Records that one operator dropped as late, in this attempt of the job."""

    name: str  # Of the operator.
    dropped: int
    taken: int  # All records that it was given.

    def __str__(self) -> str:
        return f"'{self.name}' dropped {self.dropped:,} of {self.taken:,} records as late"


def late_records(graph: JobGraph, totals: JobTotals) -> dict[str, LateRecords]:
    """Returns what was dropped as late, by uid of the operators that did."""
    return {
        operator.uid: LateRecords(operator.name, dropped, sum(part.records_in for part in parts))
        for _, operator, parts in _by_operator(graph, totals)
        if (dropped := sum(part.late_dropped for part in parts))
    }


def maps_to_none(graph: JobGraph, totals: JobTotals) -> dict[str, int]:
    """Returns how many records a `map` took whose results are used and were all None, by name."""
    return {
        operator.name: taken
        for stage, operator, parts in _by_operator(graph, totals)
        if (taken := sum(part.records_in for part in parts))
        and taken == sum(part.results_none for part in parts)
        and _is_used(graph, stage, operator)
    }


def _by_operator(
    graph: JobGraph, totals: JobTotals
) -> Iterator[tuple[Stage, ChainedOperator, list[OperatorTotals]]]:
    for stage in graph.stages:
        subtasks = [
            found
            for index in range(stage.parallelism)
            if (found := totals.subtasks.get((stage.stage_id, index))) is not None
        ]
        for operator in stage.operators:
            uid = operator.uid
            yield (
                stage,
                operator,
                [subtask.operators[uid] for subtask in subtasks if uid in subtask.operators],
            )


def _is_used(graph: JobGraph, stage: Stage, operator: ChainedOperator) -> bool:
    position = stage.operators.index(operator)
    return any(other.producer == position for other in stage.operators) or any(
        edge.source_operator == position for edge in graph.outputs_of(stage)
    )


class LateNotices:
    """Decides when to speak of late records: at the first, at ten times as many, and at the end."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def due(self, found: dict[str, LateRecords], *, at_end: bool = False) -> list[LateRecords]:
        """Returns what is to be said now."""
        due = [
            (uid, late)
            for uid, late in found.items()
            if late.dropped >= (told := self._told.get(uid, 0)) * _TOLD_AGAIN
            or (at_end and late.dropped != told)
        ]
        self._told.update({uid: late.dropped for uid, late in due})
        return [late for _, late in due]
