"""Figures of a job: folding reports, rates over a window, how time was spent. Values by hand."""

from __future__ import annotations

from typing import Any

from penstock.core.handles import FileHandle, KeyedStateVersion
from penstock.core.times import MIN_WATERMARK
from penstock.graph.job_graph import ChainedOperator, Edge, JobGraph, Stage
from penstock.graph.nodes import NodeKind, Rebalance
from penstock.operators.logic import MetricGroup
from penstock.runtime.job_metrics import JobMetrics
from penstock.runtime.job_state import EpochSummary
from penstock.runtime.records import (
    OperatorMetrics,
    OperatorVersion,
    SubtaskReport,
    SubtaskVersion,
)


def operator(node: int, kind: NodeKind, uid: str) -> ChainedOperator:
    return ChainedOperator(node, kind, uid, False, uid.title(), None, None, None)


SOURCE = Stage(0, 0, 1, 128, (operator(1, NodeKind.SOURCE, "source"),))
COUNT = Stage(1, 1, 2, 128, (operator(2, NodeKind.OPERATOR, "count"),))
GRAPH = JobGraph("job", (SOURCE, COUNT), (Edge(0, 0, 0, None, Rebalance(), 1, 0),))


def report(
    stage: int,
    subtask: int,
    records: int,
    *,
    busy_ms: float = 0.0,
    user: dict[str, Any] | None = None,
    state_bytes: int = 0,
) -> SubtaskReport:
    uid = ("source", "count")[stage]
    metrics = OperatorMetrics(
        0 if stage == 0 else records, records, watermark_in=50, watermark_out=40, user=user or {}
    )
    keyed = KeyedStateVersion("v", "hashmap", "", (FileHandle("f", state_bytes, ""),), (), (), 0, 9)
    version = SubtaskVersion(
        "v", {uid: OperatorVersion((keyed,), (FileHandle("l", 5, ""),), ((),))}
    )
    return SubtaskReport(
        stage,
        subtask,
        10 * stage + subtask,  # Each subtask is a task of its own.
        version=version,
        records_read=records if stage == 0 else 0,
        metrics={uid: metrics},
        busy_ms=busy_ms,
        watermark=50,
    )


def epoch(
    number: int, reports: list[SubtaskReport], ms: int = 100, *, backlog: bool = False
) -> Any:
    return EpochSummary(number, ms, 0, backlog, reports, {"run": ms - 10, "commit": 10})


def after(*epochs: tuple[int, list[SubtaskReport]]) -> JobMetrics:
    metrics = JobMetrics()
    for number, (now_ms, reports) in enumerate(epochs):
        metrics = metrics.folded(GRAPH, epoch(number + 1, reports), now_ms)
    return metrics


def test_counts_add_up_over_epochs() -> None:
    metrics = after(
        (100, [report(0, 0, 10), report(1, 0, 4), report(1, 1, 6)]),
        (200, [report(0, 0, 3), report(1, 0, 1), report(1, 1, 2)]),
    )
    subtasks = metrics.totals.subtasks
    assert subtasks[0, 0].records_in == subtasks[0, 0].records_out == 13
    assert [subtasks[1, index].records_in for index in (0, 1)] == [5, 8]
    # Nothing leaves the last stage.
    assert subtasks[1, 0].records_out == 0
    assert subtasks[1, 0].operators["count"].records_out == 5
    assert (metrics.totals.epoch, metrics.totals.epochs, metrics.totals.epoch_ms) == (2, 2, 200)


def test_retries_add_up_and_phases_are_those_of_the_last_epoch() -> None:
    first, second = report(0, 0, 1), report(1, 0, 1)
    first.retries, second.retries = 2, 1
    metrics = JobMetrics().folded(GRAPH, epoch(1, [first, second], 100), 100)
    metrics = metrics.folded(GRAPH, epoch(2, [first, report(1, 0, 1)], 300), 400)
    assert metrics.totals.task_retries == 5
    assert metrics.totals.phases_ms == {"run": 290, "commit": 10}


def test_home_hits_restores_and_moves_add_up() -> None:
    def placed(held: bool | None, home: str) -> list[SubtaskReport]:
        found = report(0, 0, 1)
        found.held, found.home = held, home
        return [found, report(1, 0, 1)]

    # Without a version there is nothing to find; with no home before it is no move.
    metrics = after(
        (100, placed(None, "")), (200, placed(False, "1/0")), (300, placed(True, "1/0"))
    )
    assert (metrics.totals.home_hits, metrics.totals.restores, metrics.totals.moves) == (1, 1, 0)
    metrics = metrics.folded(GRAPH, epoch(4, placed(False, "2/1")), 400)
    assert (metrics.totals.home_hits, metrics.totals.restores, metrics.totals.moves) == (1, 2, 1)
    assert metrics.totals.subtasks[0, 0].home == "2/1"


def test_state_and_watermarks_are_those_of_the_last_epoch() -> None:
    metrics = after(
        (100, [report(1, 0, 1, state_bytes=1000)]), (200, [report(1, 0, 1, state_bytes=70)])
    )
    found = metrics.totals.subtasks[1, 0].operators["count"]
    assert found.state_bytes == 75
    assert (found.watermark_in, found.watermark_out) == (50, 40)
    assert JobMetrics().totals.subtasks == {}
    assert OperatorMetrics().watermark_in == MIN_WATERMARK


def test_a_rate_looks_back_ten_seconds() -> None:
    """100 records a second for 20 s, then 10 a second for 10 s: the window forgets the former."""
    metrics = JobMetrics()
    for second in range(1, 31):
        records = 100 if second <= 20 else 10
        metrics = metrics.folded(GRAPH, epoch(second, [report(0, 0, records)]), second * 1000)
        if second == 5:
            rates = metrics.rates(5000)
            assert rates.per_second(rates.subtask((0, 0)).records_in) == 100
    rates = metrics.rates(30_000)
    assert rates.span_ms == 10_000
    assert rates.per_second(rates.subtask((0, 0)).records_in) == 10
    # Nothing more comes: the rate falls although no epoch is folded.
    rates = metrics.rates(35_000)
    assert rates.per_second(rates.subtask((0, 0)).records_in) == 5
    assert len(metrics.marks) <= 12


def test_before_the_first_epoch_nothing_is_divided_by_zero() -> None:
    rates = JobMetrics(started_ms=500).rates(500)
    assert rates.per_second(rates.subtask((0, 0)).records_in) == 0


def test_time_is_busy_back_pressured_or_idle() -> None:
    """An epoch of 100 ms: the source works 20, then the slower counter 50 (30 are for nobody)."""
    reports = [
        report(0, 0, 1, busy_ms=20),
        report(1, 0, 1, busy_ms=50),
        report(1, 1, 1, busy_ms=10),
    ]
    busy = JobMetrics().folded(GRAPH, epoch(1, reports, 100, backlog=True), 100)
    source, slow, quick = (busy.totals.subtasks[key] for key in ((0, 0), (1, 0), (1, 1)))
    assert (source.busy_ms, source.back_pressured_ms) == (20, 50)
    assert (slow.busy_ms, slow.back_pressured_ms) == (50, 0)
    assert (quick.busy_ms, quick.back_pressured_ms) == (10, 0)
    rates = busy.rates(100)
    assert rates.per_mille(rates.subtask((0, 0)).back_pressured_ms) == 500
    # Without a backlog the source waits for nobody.
    calm = JobMetrics().folded(GRAPH, epoch(1, reports, 100), 100)
    assert calm.totals.subtasks[0, 0].back_pressured_ms == 0


def test_user_metrics_are_joined_by_kind() -> None:
    first = {
        "hits": 3,
        "numLateRecordsDropped": 2,
        "requests": {"events": 30},
        "size": {"value": 7},
        "latency": {"count": 2, "sum": 10, "min": 4, "max": 6},
    }
    second = {
        "hits": 1,
        "numLateRecordsDropped": 1,
        "requests": {"events": 10},
        "size": {"value": 9},
        "latency": {"count": 1, "sum": 1, "min": 1, "max": 1},
    }
    third = {"latency": {"count": 0, "sum": 0, "min": None, "max": None}}
    metrics = after(
        (500, [report(1, 0, 1, user=first)]),
        (1000, [report(1, 0, 1, user=second)]),
        (2000, [report(1, 0, 1, user=third)]),
    )
    found = metrics.totals.subtasks[1, 0].operators["count"]
    assert found.counters == {"hits": 4}
    assert found.late_dropped == 3
    assert found.meters == {"requests": 40}
    assert found.gauges == {"size": 9}
    assert found.distributions == {"latency": {"count": 3, "sum": 11, "min": 1, "max": 6}}
    rates = metrics.rates(2000)
    assert rates.per_second(rates.operator((1, 0), "count").meters["requests"]) == 20


def test_a_metric_group_reports_the_growth_of_an_epoch() -> None:
    group = MetricGroup()
    counter, meter = group.counter("hits"), group.add_group("web").meter("requests")
    spread = group.distribution("latency")
    group.gauge("size", lambda: 42)
    group.begin_epoch()
    counter.inc(5)
    meter.mark_event(2)
    spread.update(3)
    spread.update(9)
    assert group.report() == {
        "hits": 5,
        "latency": {"count": 2, "sum": 12, "min": 3, "max": 9},
        "size": {"value": 42},
        "web.requests": {"events": 2},
    }
    # An epoch that was given up leaves nothing in the next report; the user's own view goes on.
    counter.inc(100)
    group.begin_epoch()
    counter.dec()
    assert group.report()["hits"] == -1
    assert group.report()["latency"]["count"] == 0
    assert counter.get_count() == 104
