"""Delta tables as a sink: written once for each checkpoint, exactly once, without Spark.

    DeltaSink("s3://lake/clicks", schema, storage_options={...}, partition_by=["day"])

1. Subtasks keep the records of an epoch as Arrow in pending files, which checkpoints hold.
2. When a checkpoint has completed, the driver appends them in one commit of the table, or merges
   them by a key: the last row of each key replaces the one that is there. The commit carries two
   transactions of Delta's own, with the name of the sink and a version: the process of the job, and
   attempt and epoch in it.
3. What is repeated after a failure reads the versions in the table, and writes only what lies
   behind them. Of two processes that append the same at once, Delta lets one through.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.lake.rows import (
    ArrowWriter,
    arrow,
    batches_of,
    checked_columns,
    last_of_each_key,
    library,
    parts_of,
    patiently,
)
from penstock.connectors.pending_files import Item, by_sink, files_of
from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.fault_points import fault_span
from penstock.core.redaction import one_line, without_secrets

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle

_EPOCH_BITS: Final = 32
_COMMIT: Final = fault_span("delta.commit")


class DeltaSink(Sink):
    """Writes to a Delta table, exactly once; the table is created if it does not exist.

    Args:
        table: Path or address of the table.
        schema: A `pyarrow.Schema`; records are rows, dicts or tuples with its fields.
        storage_options: Settings of the storage, as the package deltalake takes them.
        partition_by: Columns by which a table that is created is partitioned.
        merge_by: Columns that are the key of a row; rows are then merged instead of appended. Rows
            of one key must come to one subtask, as behind `key_by`.
    """

    def __init__(
        self,
        table: str,
        schema: Any,
        *,
        storage_options: dict[str, str] | None = None,
        partition_by: Sequence[str] = (),
        merge_by: Sequence[str] = (),
    ) -> None:
        checked_columns(schema, "a DeltaSink", partition_by=partition_by, merge_by=merge_by)
        deltalake = library("deltalake", "delta")
        try:
            deltalake.Schema.from_arrow(schema)
        except Exception as error:
            text = str(error).partition("\n")[0]
            raise ProgramError(
                f"a DeltaSink has a column that Delta does not have: {text}"
            ) from None
        if merge_by and any("`" in name for name in schema.names):
            raise ProgramError(
                f"a DeltaSink with merge_by has the columns {schema.names}, and deltalake takes no "
                "names with ` there; choose others."
            )
        self.table = str(table)
        self.schema = schema
        self.storage_options = storage_options
        self.partition_by = list(partition_by)
        self.merge_by = list(merge_by)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return ArrowWriter(self.schema, context)

    def create_committer(self) -> Committer:
        return _Committer(self)

    def default_name(self) -> str:
        return "Delta Sink"


class _Committer(Committer):
    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for name, items in by_sink(committables).items():
            # What is appended comes piece by piece; what is merged is held.
            for part in parts_of(items) if self._sink.merge_by else [items]:
                patiently(partial(self._written, name, part, context))

    def _written(
        self, name: str, items: list[Item], context: CommitContext, may_fail: bool
    ) -> bool:
        """Writes what is new; False if another process has committed meanwhile."""
        delta = library("deltalake", "delta")
        errors = library("deltalake.exceptions", "delta")
        assert context.area is not None
        try:
            table = self._table(delta, errors)
            names = (f"{name}#process", name)
            known = tuple(table.transaction_version(each) or 0 for each in names)
            new = [item for item in items if _versions(item) > known]
            if not new:
                return True
            columns = {field.name for field in table.schema().fields}
            for column in self._sink.schema.names:
                if column not in columns:
                    raise InputError(f"{self._shown()} has no column {column!r}, which rows have.")
            marker = list(map(delta.Transaction, names, _versions(new[-1])))
            properties = delta.CommitProperties(app_transactions=marker)
            rows = arrow().RecordBatchReader.from_batches(
                self._sink.schema, batches_of(new, context.area)
            )
            if self._sink.merge_by:
                rows = last_of_each_key(rows.read_all(), self._sink.merge_by, self._shown())
            with _COMMIT:
                self._commit(delta, table, rows, properties)
        except errors.CommitFailedError as error:
            if may_fail:
                return False
            raise JobExecutionError(self._failed(error)) from error
        except errors.SchemaMismatchError as error:
            raise InputError(self._failed(error)) from error
        except (errors.DeltaError, OSError) as error:
            raise JobExecutionError(self._failed(error)) from error
        return True

    def _commit(self, delta: Any, table: Any, rows: Any, properties: Any) -> None:
        keys = self._sink.merge_by
        if not keys:
            # Columns that the table has besides are empty in these rows.
            delta.write_deltalake(
                table, rows, mode="append", schema_mode="merge", commit_properties=properties
            )
            return
        merge = table.merge(
            rows,
            " AND ".join(f"target.`{key}` = source.`{key}`" for key in keys),
            source_alias="source",
            target_alias="target",
            commit_properties=properties,
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _table(self, delta: Any, errors: Any) -> Any:
        sink = self._sink
        options = {"storage_options": sink.storage_options}
        try:
            return delta.DeltaTable(sink.table, **options)
        except errors.TableNotFoundError:
            # Another process may be creating it, too.
            delta.DeltaTable.create(
                sink.table,
                sink.schema,
                mode="ignore",
                partition_by=sink.partition_by,
                **options,
            )
            return delta.DeltaTable(sink.table, **options)

    def _failed(self, error: Exception) -> str:
        return f"{self._shown()} was not written to: {one_line(error)}"

    def _shown(self) -> str:
        return f"the Delta table {without_secrets(self._sink.table)}"

    def files(self, committable: Any) -> list[FileHandle]:
        return files_of(committable)


def _versions(item: Item) -> tuple[int, int]:
    """Returns where an item is: numbers that only rise, the same for all subtasks of an epoch."""
    process, attempt, epoch, _ = item["place"]
    return process, attempt << _EPOCH_BITS | epoch
