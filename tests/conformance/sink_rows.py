"""Every sink, with a way to see what readers of its output see."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from pyarrow import parquet

from penstock.connectors.collect import CollectedResults, CollectSink, PrintSink
from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder
from penstock.connectors.file_sink.rolling import BucketAssigner, RollingPolicy
from penstock.connectors.file_sink.sink import FileSink
from penstock.connectors.formats.avro_rows import AvroSchema
from penstock.connectors.jdbc.client import JdbcConnectionOptions
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.spark import SparkSink
from penstock.connectors.user_sink import PythonSink
from penstock.core.types import Types
from penstock.testing.connectors import SinkTarget

if TYPE_CHECKING:
    import pytest

    from penstock.connectors.sink import CommitContext, Sink, WriterContext


@dataclass
class Target(SinkTarget):
    """A sink, and where its files are."""

    files: Path | None = None
    counts_dead_files: bool = True


class Staging(PythonSink):
    """Stages text in files, and links them on commit."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, context: WriterContext) -> None:
        self.path = Path(self.folder, f".{context.attempt_id}-{context.subtask}")
        self.lines: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        self.lines.append(str(value))

    def prepare_commit(self) -> list[Any]:
        self.path.write_text("\n".join(self.lines))
        return [str(self.path)]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for name in committables:
            path = Path(name)
            if path.exists():
                path.rename(path.with_name(path.name[1:]))

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for name in committables:
            Path(name).unlink(missing_ok=True)


class FakeSpark:
    """As much of a Spark session as the sink uses."""

    def __init__(self) -> None:
        self.read = self.sparkContext = self
        self.rows: list[str] = []

    def addJobTag(self, tag: str) -> None:
        """Tags serve to cancel jobs of Spark, of which there are none here."""

    removeJobTag = addJobTag

    def parquet(self, *paths: str) -> Any:
        return [parquet.read_table(path) for path in paths]

    def function(self, df: Any, epoch_id: int) -> None:
        self.rows += [row["value"] for table in df for row in table.to_pylist()]


def visible_lines(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            found += path.read_text().splitlines()
    return found


def visible_rows(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            found += [row["value"] for row in parquet.read_table(path).to_pylist()]
    return found


def collect_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    name = str(folder)
    results = CollectedResults(name)
    seen: list[str] = []

    def visible() -> list[str]:
        while results._chunks:
            seen.extend(results._chunks.popleft())
        return seen

    return Target(CollectSink(name), visible)


def print_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    seen: list[str] = []

    def visible() -> list[str]:
        lines = capsys.readouterr().out.splitlines()
        seen.extend(line.split("> ", 1)[1] for line in lines)
        return seen

    return Target(PrintSink("out"), visible)


def row_file_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return Target(builder.build(), lambda: visible_lines(folder), files=folder)


def parquet_file_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    builder = FileSink.for_bulk_format(str(folder), BulkWriterFactory.parquet())
    return Target(builder.build(), lambda: visible_rows(folder), files=folder)


def avro_file_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    schema = AvroSchema.parse_string('"string"')
    builder = FileSink.for_bulk_format(str(folder), BulkWriterFactory.avro(schema))

    def visible() -> list[str]:
        found: list[str] = []
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith((".", "_")):
                with path.open("rb") as file:
                    found += fastavro.reader(file)
        return found

    return Target(builder.build(), visible, files=folder)


def own_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    # What an attempt that never reported left is the user's own to clean up.
    return Target(
        Staging(str(folder)), lambda: visible_lines(folder), files=folder, counts_dead_files=False
    )


def spark_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    spark = FakeSpark()
    # Dead attempts' files lie in the job's scratch directory, which goes with the job.
    return Target(SparkSink(spark.function), lambda: spark.rows, spark)


def sqlite_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> Target:
    path = folder / "out.db"

    def rows(sql: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return database.execute(sql).fetchall()

    rows("CREATE TABLE t (value TEXT)")
    options = JdbcConnectionOptions(f"jdbc:sqlite:{path}")
    sink = JdbcSink.exactly_once_sink(
        "INSERT INTO t VALUES (?)", Types.ROW([Types.STRING()]), options
    )
    return Target(
        Rows(sink), lambda: [value for (value,) in rows("SELECT value FROM t ORDER BY rowid")]
    )


class Rows(PythonSink):
    """Hands text as rows to another sink."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def create_writer(self, context: WriterContext) -> Any:
        writer = self.sink.create_writer(context)
        write = writer.write
        writer.write = lambda values, *more: write([(each,) for each in values], *more)
        return writer

    def create_committer(self) -> Any:
        return self.sink.create_committer()


SINKS = {
    "SQLite": sqlite_target,
    "collect": collect_target,
    "print": print_target,
    "files, rows": row_file_target,
    "files, Avro": avro_file_target,
    "files, Parquet": parquet_file_target,
    "own": own_target,
    "Spark": spark_target,
}
