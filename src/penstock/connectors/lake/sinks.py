"""Delta and Iceberg tables as sinks: written once for each checkpoint, exactly once, without a JVM.

    DeltaSink("s3://lake/clicks", schema, storage_options={...}, partition_by=["day"])
    IcebergSink({"type": "sql", "uri": "sqlite:////lake/catalog.db",
                 "warehouse": "file:///lake"}, "shop.clicks", schema)

1. Subtasks keep the records of an epoch as Arrow in pending files, which checkpoints hold.
2. When a checkpoint has completed, the driver appends them in one commit of the table; to a Delta
   table it may merge them by a key: the last row of each key replaces the one that is there. The
   commit carries a marker: up to which output the sink is in the table.
3. What is repeated after a failure reads the marker, and writes only what lies behind it. Of two
   processes that append the same at once, Delta lets one through; so does Iceberg's catalog, since
   a commit names the snapshot that it follows.

The marker of Delta is two transactions of its own, with the name of the sink and a version: the
process of the job, and attempt and epoch in it. That of Iceberg is a property of the table and not
only part of a snapshot's summary, because snapshots expire.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.connectors.lake.rows import (
    ArrowWriter,
    LakeCommitter,
    arrow,
    batches_of,
    checked_columns,
    checked_place,
    last_of_each_key,
    library,
    opened_catalog,
)
from penstock.connectors.pending_files import Item, covers
from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.fault_points import fault_span
from penstock.core.redaction import one_line, without_secrets

_EPOCH_BITS: Final = 32
_DELTA_COMMIT: Final = fault_span("delta.commit")
_MARKER: Final = "penstock.commit."
_ICEBERG_COMMIT: Final = fault_span("iceberg.commit")


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

    _default_name = "Delta Sink"

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
        return _DeltaCommitter(self)


class _DeltaCommitter(LakeCommitter):
    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        if not sink.merge_by:
            # What is appended comes piece by piece; what is merged is held.
            self.most_bytes = sys.maxsize

    def written(
        self, name: str, items: list[Item], context: CommitContext, *, may_fail: bool
    ) -> bool:
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
            with _DELTA_COMMIT:
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


def _versions(item: Item) -> tuple[int, int]:
    """Returns where an item is: numbers that only rise, the same for all subtasks of an epoch."""
    process, attempt, epoch, _ = item["place"]
    return process, attempt << _EPOCH_BITS | epoch


class IcebergSink(Sink):
    """Appends to an Iceberg table, exactly once; the table is created if it does not exist.

    Args:
        catalog: Settings of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        table: `namespace.table`. To partition it, create it yourself.
        schema: A `pyarrow.Schema`; records are rows, dicts or tuples with its fields.
    """

    _default_name = "Iceberg Sink"

    def __init__(self, catalog: Mapping[str, str], table: str, schema: Any) -> None:
        checked_columns(schema, "an IcebergSink")
        checked_place(catalog, table, "an IcebergSink")
        self.catalog = dict(catalog)
        self.table = table
        self.schema = schema

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return ArrowWriter(self.schema, context)

    def create_committer(self) -> Committer:
        return _IcebergCommitter(self)


class _IcebergCommitter(LakeCommitter):
    def __init__(self, sink: IcebergSink) -> None:
        self._sink = sink
        self._catalog: Any = None

    def written(
        self, name: str, items: list[Item], context: CommitContext, *, may_fail: bool
    ) -> bool:
        errors = library("pyiceberg.exceptions", "iceberg")
        assert context.area is not None
        try:
            table = self._table(errors)
            # pyiceberg would repeat a commit behind that of another process, which may have
            # written the same; this is about the object in memory, not about the table.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            marker = _MARKER + name
            *place, known = json.loads(table.properties.get(marker, '[0, 0, 0, 0, ""]'))
            new = [item for item in items if not covers(tuple(place), known, item)]
            if not new:
                return True
            rows = arrow().Table.from_batches(batches_of(new, context.area), self._sink.schema)
            last = json.dumps([*new[-1]["place"], new[-1]["name"]])
            summary = {"penstock.sink": name, "penstock.checkpoint": str(context.checkpoint_id)}
            with _ICEBERG_COMMIT, table.transaction() as transaction:
                transaction.append(rows, snapshot_properties=summary)
                transaction.set_properties({marker: last})
        except errors.CommitFailedException as error:
            if may_fail:
                return False
            raise JobExecutionError(self._failed(error)) from error
        except (ValueError, TypeError, errors.ValidationError) as error:
            # Columns that do not fit; what is wrong with storage comes as an OSError.
            raise InputError(self._failed(error)) from error
        except Exception as error:
            self._catalog = None
            raise JobExecutionError(self._failed(error)) from error
        return True

    def _table(self, errors: Any) -> Any:
        sink = self._sink
        if self._catalog is None:
            self._catalog = opened_catalog(sink.catalog)
        try:
            return self._catalog.load_table(sink.table)
        except errors.NoSuchTableError:
            # Another process may be creating it, too.
            self._catalog.create_namespace_if_not_exists(sink.table.rpartition(".")[0])
            return self._catalog.create_table_if_not_exists(sink.table, sink.schema)

    def _failed(self, error: Exception) -> str:
        text = one_line(f"{type(error).__name__}: {error}")
        return f"the Iceberg table '{self._sink.table}' was not appended to: {text}"
