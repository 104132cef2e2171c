"""Records as tables, and what goes to Spark or comes from it."""

from __future__ import annotations

import datetime
from collections import namedtuple
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet
from sink_job import at, write

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.file_sink.encoders import to_table
from penstock.connectors.spark import SparkSink, SparkSource
from penstock.core.errors import (
    EnvironmentError_,
    JobExecutionError,
    ProgramError,
)
from penstock.core.row import Row
from penstock.datastream import StreamExecutionEnvironment

# -- tables ---------------------------------------------------------------------------------------

Named = namedtuple("Named", "a b")


@dataclass
class Data:
    """A data class."""

    a: int
    b: str


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (Row(a=1, b="x"), ["a", "b"]),
        (Row(1, "x"), ["_1", "_2"]),
        ({"a": 1, "b": "x"}, ["a", "b"]),
        (Named(1, "x"), ["a", "b"]),
        ((1, "x"), ["_1", "_2"]),
        ([1, "x"], ["_1", "_2"]),
        (Data(1, "x"), ["a", "b"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_become_columns(value: Any, names: list[str]) -> None:
    table = to_table([value, value])
    assert table.to_pydict() == {names[0]: [1, 1], names[1]: ["x", "x"]}


def test_single_values_are_one_column() -> None:
    day = datetime.date(2024, 2, 29)
    assert to_table([day, None]).to_pydict() == {"value": [day, None]}
    assert to_table([(1, 2)], ["x", "y"]).to_pydict() == {"x": [1], "y": [2]}
    assert to_table([{"a": 1}, {"b": 2}]).to_pydict() == {"a": [1, None], "b": [None, 2]}


@pytest.mark.parametrize(
    ("values", "schema", "message"),
    [
        ([(1,), (1, 2)], None, "2 fields instead of 1"),
        ([{"c": 1}], ["a"], "a column 'c' that the schema does not: a"),
        ([(1,), ("x",)], None, "column '_1' cannot be written"),
        ([(2**70,)], arrow.schema([("n", arrow.int64())]), "as int64"),
    ],
)
def test_records_that_are_no_table(values: list[Any], schema: Any, message: str) -> None:
    with pytest.raises(JobExecutionError, match=message):
        to_table(values, schema)


# -- Spark ----------------------------------------------------------------------------------------


class FakeSpark:
    """As much of a Spark session, and of its DataFrames, as the sinks and sources use."""

    def __init__(self) -> None:
        self.read = self.write = self.sparkContext = self
        self.calls: list[Any] = []
        self.tags: list[str] = []

    def addJobTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def parquet(self, *paths: str) -> Any:
        self.rows = [row for path in paths for row in parquet.read_table(path).to_pylist()]
        return self

    def createDataFrame(self, table: Any) -> Any:
        self.rows = table.to_pylist()
        return self

    def format(self, name: str) -> Any:
        self.calls.append(("format", name))
        return self

    def mode(self, name: str) -> Any:
        self.calls.append(("mode", name))
        return self

    def options(self, **options: Any) -> Any:
        self.calls.append(("options", options))
        return self

    def partitionBy(self, *columns: str) -> Any:
        self.calls.append(("partitionBy", columns))
        return self

    def save(self, *path: str) -> None:
        self.calls.append(("save", *path, self.rows))


def test_spark_function_gets_each_commit_once(tmp_path: Path) -> None:
    spark = FakeSpark()
    seen: list[Any] = []
    sink = SparkSink(lambda df, epoch: seen.append((epoch, df.rows)))
    scratch = {"scratch_dir": str(tmp_path)}
    committables = write(sink, [{"n": 2}], 2, **scratch)
    committables += write(sink, [{"n": 1}], 1, subtask=1, **scratch)
    for _ in range(2):
        sink.create_committer().commit(committables, at(2, spark=spark))
    assert seen == [(2, [{"n": 1}, {"n": 2}])]
    assert [path.name for path in tmp_path.rglob("*.parquet")] == []


def test_spark_commit_that_failed_is_repeated(tmp_path: Path) -> None:
    spark = FakeSpark()
    seen: list[Any] = []

    def save(df: Any, epoch: int) -> None:
        seen.append((epoch, df.rows))
        if len(seen) == 1:
            raise OSError("no connection")

    sink = SparkSink(save)
    committables = write(sink, [(1,)], 1, scratch_dir=str(tmp_path))
    committer = sink.create_committer()
    with pytest.raises(OSError, match="no connection"):
        committer.commit(committables, at(1, spark=spark))
    committer.commit(committables, at(1, spark=spark))
    assert seen == [(1, [{"_1": 1}])] * 2


def test_spark_writer(tmp_path: Path) -> None:
    spark = FakeSpark()
    sink = SparkSink(
        output_format="delta", path="out", options={"a": "b"}, partition_by=("n",), schema=["n"]
    )
    committables = write(sink, [(1,)], 5, scratch_dir=str(tmp_path))
    sink.create_committer().commit(committables, replace(at(5, spark=spark), checkpoint_id=2))
    assert spark.calls == [
        ("format", "delta"),
        ("mode", "append"),
        ("options", {"a": "b", "txnAppId": "b" * 32 + "-sink", "txnVersion": 5}),
        ("partitionBy", ("n",)),
        ("save", "out", [{"n": 1}]),
    ]


@pytest.mark.parametrize("limit", [100, 1])
def test_files_of_different_types_are_one_data_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("penstock.connectors.spark._TABLE_ROWS_LIMIT", limit)
    spark = FakeSpark()
    seen: list[Any] = []
    sink = SparkSink(lambda df, epoch: seen.append(df.rows))
    scratch = {"scratch_dir": str(tmp_path)}
    committables = write(sink, [{"n": 1}], 1, **scratch) + write(sink, [{"n": 0.5}], 2, **scratch)
    sink.create_committer().commit(committables, at(2, spark=spark))
    assert seen == [[{"n": 1.0}, {"n": 0.5}]]
    assert list(tmp_path.rglob("*.parquet")) == []
    mixed = write(sink, [{"n": 1}], 3, **scratch) + write(sink, [{"n": "x"}], 4, **scratch)
    with pytest.raises(JobExecutionError, match=r"schema=pyarrow\.schema"):
        sink.create_committer().commit(mixed, at(4, spark=spark))


def test_spark_sink_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="either a function"):
        SparkSink()
    numbers = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(ProgramError, match="'overwrite': a stream can only append"):
        numbers.to_spark(output_format="parquet", mode="overwrite")
    numbers.to_spark(output_format="parquet", mode="append")
    sink = SparkSink(output_format="parquet")
    committables = write(sink, [1], scratch_dir=str(tmp_path))
    with pytest.raises(EnvironmentError_, match="runs without it"):
        sink.create_committer().commit(committables, at(1))
    Path(committables[0]["path"]).unlink()
    with pytest.raises(JobExecutionError, match="is lost"):
        sink.create_committer().commit(committables, at(1, spark=FakeSpark()))


def test_a_text_is_no_schema() -> None:
    for make in (
        lambda schema: SparkSink(output_format="json", path="/out", schema=schema),
        BulkWriterFactory.parquet,
        BulkWriterFactory.csv,
    ):
        with pytest.raises(ProgramError, match="is the text 'name STRING'; give a list of column"):
            make("name STRING")


def test_only_data_frames_are_sources_of_rows() -> None:
    with pytest.raises(ProgramError, match="needs a DataFrame, not list"):
        SparkSource([])


def test_rows_inside_records_become_structs() -> None:
    records = [
        Row(id=1, place=Row(city="Oslo", tags=[Row(n=1)])),
        Row(id=2, place=None),
    ]
    table = to_table(records)
    assert table.column("place").to_pylist() == [{"city": "Oslo", "tags": [{"n": 1}]}, None]
    place = arrow.struct(
        [("city", arrow.string()), ("tags", arrow.list_(arrow.struct([("n", arrow.int32())])))]
    )
    typed = to_table(records, arrow.schema([("id", arrow.int32()), ("place", place)]))
    assert typed.column("place").type == place
    assert typed.to_pylist() == table.to_pylist()
