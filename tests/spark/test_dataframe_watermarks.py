"""A bounded DataFrame is one input: nothing of it is late, in whatever partitions it lies."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.aggregates import count, window_row
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.spark.session import get_session

pytestmark = pytest.mark.spark

MASTER = "local[2,4]"
RECORDS = 6_000


@pytest.mark.parametrize("lowers", [True, False])
def test_windows_over_partitions_that_overlap(lowers: bool) -> None:
    """Seven partitions, each with times of all six minutes, the newest first."""
    configuration = Configuration().set_string("penstock.spark.master", MASTER)
    configuration.set_string("penstock.lowering.enabled", str(lowers).lower())
    configuration.set_string("penstock.epoch.max-records", "1000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    times = get_session("test", MASTER, {}).range(RECORDS)
    df = times.selectExpr(f"({RECORDS - 1} - id) * 60 AS ts", "id % 3 AS name").repartition(7)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    counts = (
        env.from_spark(df, strategy)
        .key_by("name")
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(count(), window_row("name"))
    )
    found = {(row.window_start, row.name): row.value for row in counts.execute_and_collect()}
    model: Counter[tuple[int, int]] = Counter()
    for number in range(RECORDS):
        model[(RECORDS - 1 - number) * 60 // 10_000 * 10_000, number % 3] += 1
    assert found == model
