"""Streaming DataFrames as sources, and DataFrames as sinks, in whole jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.core.errors import JobExecutionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

MASTER = "local[2,4]"


def environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", MASTER)
    for key, value in settings.items():
        configuration.set_string(key.replace("__", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def numbered_batches(rows_per_batch: int) -> DataFrame:
    """0, 1, 2 … without end, one second of event time a batch; the same in every run."""
    reader = get_session("test", MASTER, {}).readStream.format("rate-micro-batch")
    return (
        reader.option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", 2)
        .option("startTimestamp", 10_000)
        .option("advanceMillisPerBatch", 1_000)
        .load()
    )


def test_windows_over_a_streaming_dataframe() -> None:
    """Each second of event time holds one batch of fifty rows."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("timestamp")
    stream = (
        environment()
        .from_spark(numbered_batches(50), strategy)
        .map(lambda row: row["value"])
        .key_by(lambda value: value % 2)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(
            lambda key, context, values: [(context.window().start, key, sorted(values))],
        )
    )
    found = stream.execute_and_collect(limit=6)
    expected = [
        (10_000 + 1_000 * batch, key, list(range(50 * batch + key, 50 * batch + 50, 2)))
        for batch in range(3)
        for key in (0, 1)
    ]
    assert sorted(found) == expected


def test_a_query_that_is_stopped_ends_the_input() -> None:
    found = []
    values = environment().from_spark(numbered_batches(20)).map(lambda row: row["value"])
    with values.execute_and_collect() as results:
        for value in results:
            found.append(value)
            if len(found) == 30:
                (query,) = get_session("test", MASTER, {}).streams.active
                query.stop()
    assert sorted(found) == list(range(len(found)))
    assert len(found) >= 40


def test_a_query_that_fails_fails_the_job() -> None:
    env = environment()
    broken = numbered_batches(20).selectExpr("if(value = 30, raise_error('broken'), value) AS n")
    env.from_spark(broken).uid("numbers").print()
    told = r"^the streaming DataFrame of source 'numbers' failed: .*broken"
    with pytest.raises(JobExecutionError, match=told):
        env.execute()


def test_a_function_is_given_each_epoch_once() -> None:
    """Epochs of some hundred records; the function runs in the driver."""
    given: list[tuple[int, int, int]] = []

    def note(df: DataFrame, epoch: int) -> None:
        row = df.selectExpr("count(*) AS n", "sum(value) AS total").first()
        given.append((epoch, row["n"], row["total"]))

    env = environment()
    env.get_configuration().set_string("penstock.epoch.max-records", "400")
    env.from_sequence(0, 999).map(lambda n: {"value": n}).to_spark(note)
    env.execute()
    epochs = [epoch for epoch, _, _ in given]
    assert epochs == sorted(set(epochs))
    assert len(epochs) > 1
    assert sum(n for _, n, _ in given) == 1_000
    assert sum(total for _, _, total in given) == 999 * 1_000 // 2


def test_a_format_of_sparks(tmp_path: Path) -> None:
    env = environment()
    rows = env.from_sequence(0, 99).map(lambda n: {"n": n, "half": n / 2, "parity": str(n % 2)})
    rows.to_spark(output_format="orc", path=str(tmp_path / "orc"), partition_by=("parity",))
    env.execute()
    df = get_session("test", MASTER, {}).read.orc(str(tmp_path / "orc"))
    assert sorted(row["n"] for row in df.where("parity = '1'").collect()) == list(range(1, 100, 2))
    assert df.agg({"half": "sum"}).first()[0] == 99 * 100 / 4
