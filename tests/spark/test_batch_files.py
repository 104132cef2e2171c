"""Batches of streaming DataFrames as files: the same records, whoever writes them."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Row
from penstock.connectors.source import Budget
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.batch_files import BatchFiles, comes_as_arrow, row_format, write_batch
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def spark() -> Any:
    return get_session("test", "local[2,4]", {})


def read(directory: Path, splits: Any, df: DataFrame) -> list[list[dict[str, Any]]]:
    """Returns the records of each split."""
    source = BatchFiles(str(directory), row_format(df), is_bounded=True)
    reader = pickle.loads(pickle.dumps(source)).create_reader()
    found = [reader.read(split, 0, Budget(1000, 1 << 20, 0)).values for split in splits]
    reader.close()
    return [[row.as_dict() for row in values] for values in found]


def test_a_batch_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    df = (
        spark()
        .range(5, numPartitions=1)
        .selectExpr(
            "id",
            "if(id = 2, null, cast(id AS string)) AS word",
            "id / 4 AS half",
            "cast(id AS decimal(10, 2)) AS price",
            "timestamp_millis(id * 1000) AS at",
            "cast(timestamp_millis(id) AS timestamp_ntz) AS local",
            "date_add(DATE'2020-01-01', cast(id AS int)) AS day",
            "array(timestamp_millis(id)) AS times",
            "map('k', timestamp_millis(id)) AS named",
            "named_struct('a', id, 'b', timestamp_millis(id)) AS both",
            "cast('x' AS binary) AS raw",
        )
    )
    by_spark = write_batch(df, str(tmp_path), "a")
    by_arrow = write_batch(df, str(tmp_path), "b", parts=2)
    assert (by_spark.rows, by_spark.group_rows) == ((5,), 0)
    assert (by_arrow.rows, by_arrow.group_rows) == ((3, 2), 3)
    (together,) = read(tmp_path, by_spark.splits, df)
    first, second = read(tmp_path, by_arrow.splits, df)
    assert [*first, *second] == together
    third = together[3]
    assert (third["id"], third["word"], third["half"]) == (3, "3", 0.75)
    assert third["price"] == Decimal(3)
    moment = dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=dt.UTC)
    assert third["at"] == moment, "an instant, which says its zone"
    millisecond = moment.replace(second=0, microsecond=3000)
    assert third["local"] == millisecond.replace(tzinfo=None)
    assert third["times"] == [millisecond]
    assert third["named"] == {"k": millisecond}
    assert (third["both"].a, third["both"]["b"]) == (3, millisecond)
    assert write_batch(df.where("id > 9"), str(tmp_path), "b", parts=2).splits == ()


def test_types_that_arrow_writes_otherwise_are_left_to_spark(tmp_path: Path) -> None:
    fitting = spark().sql("SELECT map(1, array(named_struct('a', 2D))) AS m")
    other = spark().sql("SELECT array(named_struct('a', INTERVAL 1 DAY)) AS m")
    assert comes_as_arrow(fitting)
    assert not comes_as_arrow(other)


class TooLarge:
    """A DataFrame whose rows Spark does not hand to the driver."""

    def __init__(self, df: DataFrame) -> None:
        self.write = df.write

    def toArrow(self) -> Any:
        raise RuntimeError(
            "Total size of ... is bigger than spark.driver.maxResultSize (1024.0 MiB)"
        )


def test_a_batch_that_is_too_large_for_the_driver_is_written_by_spark(tmp_path: Path) -> None:
    df: Any = TooLarge(spark().range(7, numPartitions=2))
    written = write_batch(df, str(tmp_path), "a", parts=2)
    assert (sum(written.rows), len(written.rows), written.group_rows) == (7, 2, 0)


def test_values_go_back_to_spark_as_they_came() -> None:
    df = spark().sql(
        "SELECT timestamp_seconds(1700000000) AS at, timestamp_ntz'2023-11-14 22:13:20' AS local, "
        "named_struct('x', 1L, 'inner', array(named_struct('at', timestamp_seconds(1)))) AS place"
    )
    seen: list[tuple[str, list[Any]]] = []
    configuration = Configuration().set_string("penstock.spark.master", "local[2,4]")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)

    def look(found: DataFrame, epoch: int) -> None:
        seen.append((found.schema.simpleString(), found.collect()))

    env.from_spark(df).map(instants).to_spark(look)
    env.execute()
    schema = df.schema.simpleString().removesuffix(">") + ",seconds:double>"
    assert seen == [(schema, [(*df.collect()[0], 1.7e9)])]


def instants(row: Row) -> Row:
    return Row(at=row.at, local=row.local, place=row.place, seconds=row.at.timestamp())
