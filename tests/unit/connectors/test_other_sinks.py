"""Collecting, printing, the user's own sinks, and those that go through Spark."""

from __future__ import annotations

import datetime
import threading
from collections import namedtuple
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.arrow_tables import to_table
from penstock.connectors.collect import CollectedResults, CollectSink
from penstock.connectors.print_sink import PrintSink, format_row
from penstock.connectors.sink import CommitContext, Sink, WriterContext
from penstock.connectors.source import Budget
from penstock.connectors.spark_sink import SparkSink
from penstock.connectors.spark_source import SparkSource, materialise
from penstock.connectors.user_sink import FunctionSink, PythonSink, SinkFunction
from penstock.core.errors import (
    EnvironmentError_,
    JobExecutionError,
    ProgramError,
    UnsupportedError,
)
from penstock.core.row import Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT = WriterContext(
    job_id="b" * 32,
    uid="sink",
    subtask=0,
    parallelism=1,
    epoch=1,
    attempt_id="bbbbbbbb-0-1-0",
    now_ms=77,
    scratch_dir="",
)


def write(sink: Sink, values: list[Any], epoch: int = 1, **changes: Any) -> list[Any]:
    subtask = changes.get("subtask", 0)
    attempt = f"bbbbbbbb-0-{epoch}-{subtask}"
    writer = sink.create_writer(replace(CONTEXT, epoch=epoch, attempt_id=attempt, **changes))
    writer.write(values, None, 0)
    committables = writer.prepare_commit()
    writer.close()
    return committables


def at(epoch: int, job: str = "b", spark: Any = None) -> CommitContext:
    return CommitContext(job * 32, "sink", epoch, None, False, 0, spark)


# -- collecting -----------------------------------------------------------------------------------


@pytest.fixture
def results(request: pytest.FixtureRequest) -> Iterator[CollectedResults]:
    collected = CollectedResults(request.node.name, max_buffered=3)
    yield collected
    collected.close()


def test_collected_records_come_in_order(results: CollectedResults) -> None:
    sink = CollectSink(results.name)
    committables = write(sink, ["c"], 2) + write(sink, ["b"], 1, subtask=1) + write(sink, ["a"], 1)
    sink.create_committer().commit(committables, at(2))
    results.finish()
    assert list(results) == ["a", "b", "c"]


def test_collected_records_are_those_at_the_time_of_writing(results: CollectedResults) -> None:
    sink = CollectSink(results.name)
    record = [1]
    writer = sink.create_writer(CONTEXT)
    writer.write([record], None, 0)
    record.append(2)
    sink.create_committer().commit(writer.prepare_commit(), at(1))
    results.finish()
    assert list(results) == [[1]]


def test_a_slow_program_holds_the_job_back(results: CollectedResults) -> None:
    """Three records may wait; the fourth comes once the first was taken."""
    progress: list[int] = []
    noticed = threading.Condition()

    def job() -> None:
        for epoch in (1, 2, 3, 4):
            results.put(epoch, [[epoch]])
            with noticed:
                progress.append(epoch)
                noticed.notify_all()
        results.finish()

    thread = threading.Thread(target=job)
    thread.start()
    with noticed:
        assert noticed.wait_for(lambda: len(progress) == 3, timeout=10)
    iterator = iter(results)
    assert progress == [1, 2, 3]
    assert list(iterator) == [1, 2, 3, 4]
    thread.join(10)
    assert progress == [1, 2, 3, 4]


def test_closing_lets_the_job_go_on(results: CollectedResults) -> None:
    def job() -> None:
        for epoch in range(1, 10):
            results.put(epoch, [[epoch]])

    thread = threading.Thread(target=job)
    thread.start()
    results.close()
    thread.join(10)
    assert not thread.is_alive()
    assert list(results) == []
    # A commit after that finds nobody, which is no error.
    sink = CollectSink(results.name)
    sink.create_committer().commit(write(sink, [1]), at(20))


def test_an_error_comes_after_the_records(results: CollectedResults) -> None:
    results.put(1, [["a"]])
    results.finish(JobExecutionError("it failed"))
    found = []
    with pytest.raises(JobExecutionError, match="it failed"):
        for value in results:
            found.append(value)
    assert found == ["a"]


def test_receivers_have_names_of_their_own(results: CollectedResults) -> None:
    with pytest.raises(ProgramError, match="exists already"):
        CollectedResults(results.name)


# -- printing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [
        (None, 1, "x\ny\n"),
        ("", 1, "x\ny\n"),
        (None, 4, "3> x\n3> y\n"),
        ("id", 1, "id> x\nid> y\n"),
        ("id", 4, "id:3> x\nid:3> y\n"),
    ],
)
def test_prefixes(
    capsys: pytest.CaptureFixture[str], identifier: str | None, parallelism: int, expected: str
) -> None:
    sink = PrintSink(identifier)
    job = str(hash((identifier, parallelism)))
    committables = write(sink, ["x", "y"], subtask=2, parallelism=parallelism)
    sink.create_committer().commit(committables, replace(at(1), job_id=job))
    assert capsys.readouterr().out == expected


def test_printing_goes_by_epoch_and_subtask_and_never_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = PrintSink(to_stderr=True)
    committables = write(sink, [3], 2) + write(sink, [2], 1, subtask=1) + write(sink, [1], 1)
    sink.create_committer().commit(committables, at(2, "c"))
    sink.create_committer().commit(committables + write(sink, [4], 3), at(3, "c"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "1\n2\n3\n4\n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Row("a", 1), "+I[a,1]"),
        (Row.of_kind(RowKind.DELETE, None), "-D[None]"),
        ("text", "text"),
    ],
)
def test_rows_are_printed_as_pyflink_does(value: Any, expected: str) -> None:
    assert format_row(value) == expected


@pytest.mark.parametrize("value", [None, (1, "a"), {"k": 1.5}, "é", 7])
def test_values_are_printed_with_str(capsys: pytest.CaptureFixture[str], value: Any) -> None:
    sink = PrintSink()
    context = replace(at(1), job_id=f"print {value}")
    sink.create_committer().commit(write(sink, [value]), context)
    assert capsys.readouterr().out == f"{value}\n"


# -- the user's own -------------------------------------------------------------------------------


class Noting(PythonSink):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, context: WriterContext) -> None:
        self.calls.append(("open", context.epoch))

    def write(self, value: Any, context: Any) -> None:
        times = (context.timestamp(), context.current_watermark())
        self.calls.append((value, *times, context.current_processing_time()))

    def prepare_commit(self) -> list[Any]:
        return ["staged"]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        self.calls.append(("commit", committables, context.epoch))

    def close(self) -> None:
        self.calls.append("close")


def test_own_sink() -> None:
    sink = Noting()
    writer = sink.create_writer(CONTEXT)
    writer.write(["a"], [5], 4)
    writer.write(["b"], None, 6)
    assert writer.prepare_commit() == ["staged"]
    writer.close()
    writer.close()
    assert sink.calls == [("open", 1), ("a", 5, 4, 77), ("b", None, 6, 77), "close"]
    committer = sink.create_committer()
    committer.commit([], at(1))
    committer.commit(["staged"], at(2))
    assert sink.calls[4:] == [("commit", ["staged"], 2)]


def test_each_epoch_has_a_copy() -> None:
    class Buffering(PythonSink):
        def open(self, context: WriterContext) -> None:
            self.buffer: list[Any] = []

        def write(self, value: Any, context: Any) -> None:
            self.buffer.append(value)

        def prepare_commit(self) -> list[Any]:
            return self.buffer

    sink = Buffering()
    assert write(sink, [1]) == [1]
    assert write(sink, [2]) == [2]
    assert not hasattr(sink, "buffer")


def test_own_sink_mistakes_are_named() -> None:
    class Nothing(PythonSink):
        def prepare_commit(self) -> Any:
            return "staged"

    writer = Nothing().create_writer(CONTEXT)
    with pytest.raises(ProgramError, match="neither write nor write_batch"):
        writer.write([1], None, 0)
    with pytest.raises(ProgramError, match="must be a list of committables"):
        writer.prepare_commit()


class Calls(SinkFunction):
    """The older form, noting every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, context: WriterContext) -> None:
        self.calls.append("open")

    def invoke(self, value: Any, context: Any) -> None:
        self.calls.append((value, context.timestamp()))

    def finish_epoch(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


def test_sink_functions_are_opened_once() -> None:
    function = Calls()
    sink = FunctionSink(function)
    assert sink.default_name() == "Sink: Calls"
    assert write(sink, [1], 1) == []
    assert write(sink, [2], 2) == []
    sink.close()
    sink.close()
    assert function.calls == ["open", (1, None), "flush", (2, None), "flush", "close"]
    sink.create_committer().commit([], at(2))


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
        self.read = self.write = self
        self.calls: list[Any] = []

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
    sink.create_committer().commit(committables, at(5, spark=spark))
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
    monkeypatch.setattr("penstock.connectors.spark_sink._TABLE_ROWS_LIMIT", limit)
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
    with pytest.raises(ProgramError, match="a stream can only append"):
        SparkSink(output_format="parquet", mode="overwrite")
    sink = SparkSink(output_format="parquet")
    committables = write(sink, [1], scratch_dir=str(tmp_path))
    with pytest.raises(EnvironmentError_, match="runs without it"):
        sink.create_committer().commit(committables, at(1))
    Path(committables[0]["path"]).unlink()
    with pytest.raises(JobExecutionError, match="is lost"):
        sink.create_committer().commit(committables, at(1, spark=FakeSpark()))


class FakeFrame:
    """A bounded DataFrame that can write itself to Parquet."""

    isStreaming = False
    columns = ["n", "s"]

    def __init__(self, rows: int = 5) -> None:
        self.write = self
        self.schema = self
        self.rows = rows

    def json(self) -> str:
        return "{}"

    def mode(self, name: str) -> FakeFrame:
        assert name == "overwrite"
        return self

    def parquet(self, path: str) -> None:
        Path(path).mkdir(exist_ok=True)
        (Path(path) / "_SUCCESS").touch()
        table = arrow.table({"n": list(range(self.rows)), "s": ["x"] * self.rows})
        parquet.write_table(table, Path(path) / "part-0.parquet")


def test_a_data_frame_becomes_files(tmp_path: Path) -> None:
    source = materialise(FakeFrame(), str(tmp_path), "uid")
    (split,) = source.discover(None, 0).splits
    reader = source.create_reader()
    rows = reader.read(split, split.start, Budget(99, 1 << 20, 0)).values
    reader.close()
    assert [row.as_dict() for row in rows] == [{"n": n, "s": "x"} for n in range(5)]


def test_data_frames_that_do_not_fit(tmp_path: Path) -> None:
    assert not SparkSource(FakeFrame()).is_streaming
    with pytest.raises(ProgramError, match="needs a DataFrame, not list"):
        SparkSource([])
    streaming, twice = FakeFrame(), FakeFrame()
    streaming.isStreaming = True
    twice.columns = ["n", "n"]
    with pytest.raises(UnsupportedError, match=r"made by spark\.read"):
        materialise(streaming, str(tmp_path))
    with pytest.raises(ProgramError, match="two columns named 'n'"):
        materialise(twice, str(tmp_path))
