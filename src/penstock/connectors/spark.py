"""DataFrames: one as a source, and Spark's writers as a sink."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.file_sink.encoders import Schema, checked_schema, to_table
from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.source import Boundedness
from penstock.core.errors import EnvironmentError_, JobExecutionError, ProgramError
from penstock.files.private import make_durable, replace_file

if TYPE_CHECKING:
    from penstock.core.records import ColumnName


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource:
    """A DataFrame of the user's."""

    df: Any  # The DataFrame, batch or streaming; never pickled.

    def __post_init__(self) -> None:
        if not (hasattr(self.df, "isStreaming") and hasattr(self.df, "schema")):
            raise ProgramError(f"from_spark needs a DataFrame, not {type(self.df).__name__}.")

    @property
    def boundedness(self) -> Boundedness:
        """Whether it ends; as of any source."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.is_streaming else Boundedness.BOUNDED

    @property
    def is_streaming(self) -> bool:
        """Whether it never ends."""
        return bool(self.df.isStreaming)

    def with_columns(self, columns: tuple[ColumnName, ...]) -> SparkSource:
        """Returns this source: the files that take its place have all columns."""
        return self


# Records as DataFrames: whatever Spark can write, or a function of the user's.
#
# 1. Each subtask writes an epoch's records to one Parquet file under the scratch directory.
# 2. The committer makes one DataFrame of all files of a commit and hands it to the user's function,
#    with the epoch as its id, or appends it through Spark's writer.
# 3. A marker beside the files remembers what was committed. A crash between Spark's commit and the
#    marker makes the commit happen again: at least once. With checkpointing it is exactly once
#    where the target knows the id: Delta tables do (`txnVersion`), and a function can.

_REMEMBERED = 10_000
"""Committed files that the marker names; snapshots from which a job starts again owe fewer."""
_TABLE_ROWS_LIMIT = 1_000_000
"""Up to so many rows go to Spark through the driver's memory, when files differ in their types."""


class SparkSink(Sink):
    """Writes through Spark; give either a function or a format.

    Args:
        function: Called in the driver as `function(df, epoch_id)` for each commit with records. An
            id may come again after a failure, with the same records.
        output_format: A format of `DataFrameWriter`, such as `parquet` or `delta`.
        path: Where the format writes; None for formats that take a table or an address by option.
        options: Options of the format.
        partition_by: Columns by which the format partitions.
        schema: A `pyarrow.Schema`, a `StructType` of PySpark, or names of columns; None = inferred
            from the records.
    """

    _default_name = "Spark Sink"

    def __init__(  # noqa: PLR0913 - one argument per part of a DataFrameWriter call
        self,
        function: Callable[[Any, int], None] | None = None,
        *,
        output_format: str | None = None,
        path: str | None = None,
        options: Mapping[str, Any] | None = None,
        partition_by: tuple[str, ...] = (),
        schema: Schema = None,
    ) -> None:
        if (function is None) == (output_format is None):
            raise ProgramError(
                "to_spark needs either a function(df, epoch_id) or a format such as 'parquet'."
            )
        self._function = function
        self._format = output_format
        self._path = path
        self._options = dict(options or {})
        self._partition_by = tuple(partition_by)
        self._schema = checked_schema(schema)
        if type(schema).__module__.startswith("pyspark."):
            from pyspark.sql.pandas.types import to_arrow_schema

            self._schema = to_arrow_schema(schema, timezone="UTC")

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _SparkWriter(context, self._schema)

    def create_committer(self) -> Committer:
        return _SparkCommitter(self)

    def save(self, df: Any, epoch: int, context: CommitContext) -> None:
        """Hands one DataFrame on."""
        if self._function is not None:
            self._function(df, epoch)
            return
        options = dict(self._options)
        # Without checkpointing a job starts over after a failure, and its epochs come again.
        if self._format == "delta" and context.checkpoint_id is not None:
            options.setdefault("txnAppId", f"{context.job_id}-{context.uid}")
            options.setdefault("txnVersion", epoch)
        writer = df.write.format(self._format).mode("append").options(**options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        if self._path is None:
            writer.save()
        else:
            writer.save(self._path)


def _folder(scratch_dir: str, job_id: str, uid: str) -> Path:
    digest = hashlib.sha256(f"{job_id}/{uid}".encode()).hexdigest()[:16]
    return Path(scratch_dir, f"sink-{digest}")


class _SparkWriter(SinkWriter):
    def __init__(self, context: WriterContext, schema: Schema) -> None:
        self._context = context
        self._schema = schema
        self._tables: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        if values:
            self._tables.append(to_table(values, self._schema))

    def prepare_commit(self) -> list[Any]:
        if not self._tables:
            return []
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        context = self._context
        folder = _folder(context.scratch_dir, context.job_id, context.uid)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{context.attempt_id}-{context.subtask}.parquet"
        try:
            table = arrow.concat_tables(self._tables, promote_options="permissive")
        except arrow.ArrowException as error:
            raise _mixed_types(error) from error
        parquet.write_table(table, path)
        make_durable(path)
        make_durable(folder)
        self._tables = []
        return [{"path": str(path), "epoch": context.epoch, "subtask": context.subtask}]


def commit_tag(job_id: str) -> str:
    """Returns the tag of the Spark jobs that commit output of a job."""
    return f"penstock-commit-{job_id}"


class _SparkCommitter(Committer):
    kind = "spark"

    def __init__(self, sink: SparkSink) -> None:
        self._sink = sink

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        if not committables:
            return
        if context.spark is None:
            raise EnvironmentError_(
                f"the sink {context.uid} writes through Spark, but the job runs without it. Run it "
                "on Spark, or collect the records in a test."
            )
        ordered = sorted(committables, key=lambda item: (item["epoch"], item["subtask"]))
        paths = [item["path"] for item in ordered]
        marker = Path(paths[0]).parent / "committed"
        # Names of files are never used again; epochs come again when a job starts from nothing.
        done = _committed(marker)
        paths = [path for path in paths if Path(path).name not in done]
        if paths:
            missing = [path for path in paths if not Path(path).exists()]
            if missing:
                raise JobExecutionError(
                    f"the output of sink {context.uid} in {missing[0]} is lost; the scratch "
                    "directory must stay until the job has ended."
                )
            epoch = ordered[-1]["epoch"]
            session, tag = context.spark.sparkContext, commit_tag(context.job_id)
            session.addJobTag(tag)
            try:
                self._sink.save(_data_frame(paths, context.spark), epoch, context)
            finally:
                # A JVM that has gone is in the error that is under way.
                with suppress(Exception):
                    session.removeJobTag(tag)
            _remember(marker, [*done, *(Path(path).name for path in paths)])
        self.abort(committables, context)

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for item in committables:
            path = Path(item["path"])
            path.unlink(missing_ok=True)
            path.with_suffix(".unified.parquet").unlink(missing_ok=True)


def _committed(marker: Path) -> dict[str, None]:
    """Returns names of files that were committed, oldest first."""
    return dict.fromkeys(marker.read_text().split()) if marker.exists() else {}


def _remember(marker: Path, names: list[str]) -> None:
    """Replaces the marker at once, so that it is never half written."""
    replace_file(marker, "\n".join(names[-_REMEMBERED:]).encode(), durable=True)


def _data_frame(paths: list[str], spark: Any) -> Any:
    """Returns one DataFrame of all files; inferred types may differ from file to file."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    schemas = [parquet.read_schema(path) for path in paths]
    if all(schema.equals(schemas[0]) for schema in schemas):
        return spark.read.parquet(*paths)
    tables = [parquet.read_table(path) for path in paths]
    try:
        table = arrow.concat_tables(tables, promote_options="permissive")
    except arrow.ArrowException as error:
        raise _mixed_types(error) from error
    if len(table) <= _TABLE_ROWS_LIMIT:
        return spark.createDataFrame(table)
    # One file of the common types takes the place of the first; the rest is in it.
    unified = Path(paths[0]).with_suffix(".unified.parquet")
    parquet.write_table(table, unified)
    return spark.read.parquet(str(unified))


def _mixed_types(error: Exception) -> JobExecutionError:
    return JobExecutionError(
        f"the records have columns of types that do not fit together: {error}. Give to_spark a "
        "schema=pyarrow.schema([...])."
    )
