"""Columns of a DataFrame stay columns until the window, with the results of the row path."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Row, Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.aggregates import all_of, avg_of, count, max_of, sum_of, window_row
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.job import engine
from penstock.runtime.lowering import Lowered, lower
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph

pytestmark = pytest.mark.spark

MASTER = "local[2,4]"
RECORDS = 30_000


def run(df: Any, monkeypatch: pytest.MonkeyPatch, *, lowers: bool) -> tuple[list[Row], list[str]]:
    remarks: list[str] = []

    def noted(graph: JobGraph) -> Lowered:
        lowered = lower(graph)
        remarks.extend(lowered.remarks.values())
        return lowered

    monkeypatch.setattr(engine, "lower", noted)
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", MASTER)
    configuration.set_string("penstock.lowering.enabled", str(lowers).lower())
    configuration.set_string("penstock.epoch.max-records", "9000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(60_000).with_timestamp_column("ts")
    aggregates = all_of(n=count(), total=sum_of("id"), last=max_of("id"), mean=avg_of("price"))
    stream = (
        env.from_spark(df)
        .assign_timestamps_and_watermarks(strategy)
        .key_by("channel")
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(aggregates, window_row("channel"))
    )
    return list(stream.execute_and_collect()), remarks


def test_dataframe_is_lowered_with_equal_results(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = get_session("test", MASTER, {})
    # Times as Spark writes them: a timestamp column, here of whole milliseconds.
    df = spark.range(RECORDS).selectExpr(
        "id",
        "timestamp_millis(id - 1500) AS ts",
        "concat('channel-', id % 3) AS channel",
        "CASE WHEN id % 7 = 0 THEN NULL ELSE id / 8 END AS price",
    )
    lowered, remarks = run(df, monkeypatch, lowers=True)
    plain, _ = run(df, monkeypatch, lowers=False)
    assert remarks == [""]
    assert sorted(map(repr, lowered)) == sorted(map(repr, plain))

    model: Counter[tuple[int, str]] = Counter()
    for number in range(RECORDS):
        model[(number - 1500) // 1000 * 1000, f"channel-{number % 3}"] += 1
    assert {(row.window_start, row.channel): row.n for row in lowered} == model
    assert sum(row.total for row in lowered) == RECORDS * (RECORDS - 1) // 2
