"""What the operators of a job have done so far, as its program reads it: `JobClient.metrics()`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from penstock.graph.job_graph import ChainedOperator, Stage
    from penstock.job.facts import JobFacts
    from penstock.runtime.job_metrics import OperatorTotals

__all__ = ["DistributionFigures", "MeterFigures", "OperatorFigures", "figures_of"]


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
        counters: The user's counters by dotted name.
        meters: The user's meters.
        gauges: What the user's gauges said last, a value for each subtask that has one.
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
        counters=_summed([each.counters for each in totals]),
        meters={
            name: MeterFigures(count, rates.per_second(growth.get(name, 0)))
            for name, count in _summed([each.meters for each in totals]).items()
        },
        gauges=_listed([each.gauges for each in totals]),
        distributions=_joined([each.distributions for each in totals]),
    )


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
