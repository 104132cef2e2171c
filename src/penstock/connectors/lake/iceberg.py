"""Iceberg tables as a sink: appended once for each checkpoint, exactly once, without a JVM.

    IcebergSink({"type": "sql", "uri": "sqlite:////lake/catalog.db",
                 "warehouse": "file:///lake"}, "shop.clicks", schema)

1. Subtasks keep the records of an epoch as Arrow in pending files, which checkpoints hold.
2. When a checkpoint has completed, the driver appends them in one commit of the table. The commit
   also sets a property of the table, the marker: up to which output the sink is in the table.
3. What is repeated after a failure reads the marker, and appends only what lies behind it. Of two
   processes that append the same at once, the catalog lets one through: a commit names the
   snapshot that it follows.

The marker is a property and not only part of a snapshot's summary, because snapshots expire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.lake.rows import (
    ArrowWriter,
    arrow,
    batches_of,
    checked_columns,
    library,
    parts_of,
    patiently,
)
from penstock.connectors.pending_files import Item, by_sink, covers, files_of
from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.core.fault_points import fault_span
from penstock.core.redaction import one_line

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle

_MARKER: Final = "penstock.commit."
_COMMIT: Final = fault_span("iceberg.commit")


def opened_catalog(settings: Mapping[str, str]) -> Any:
    """Returns the catalog that pyiceberg's settings describe."""
    return library("pyiceberg.catalog", "iceberg").load_catalog("penstock", **dict(settings))


def checked_place(settings: Any, table: str, who: str) -> None:
    """Refuses what is no catalog or no name of a table."""
    if not isinstance(settings, Mapping) or not settings:
        raise ProgramError(
            f"{who} takes the settings of a catalog as pyiceberg has them, such as "
            '{"type": "sql", "uri": ..., "warehouse": ...}, not ' + f"{settings!r:.80}."
        )
    if not isinstance(table, str) or "." not in table:
        raise ProgramError(f"{who} takes 'namespace.table', not {table!r:.80}.")
    library("pyiceberg.catalog", "iceberg")


class IcebergSink(Sink):
    """Appends to an Iceberg table, exactly once; the table is created if it does not exist.

    Args:
        catalog: Settings of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        table: `namespace.table`. To partition it, create it yourself.
        schema: A `pyarrow.Schema`; records are rows, dicts or tuples with its fields.
    """

    def __init__(self, catalog: Mapping[str, str], table: str, schema: Any) -> None:
        checked_columns(schema, "an IcebergSink")
        checked_place(catalog, table, "an IcebergSink")
        self.catalog = dict(catalog)
        self.table = table
        self.schema = schema

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return ArrowWriter(self.schema, context)

    def create_committer(self) -> Committer:
        return _Committer(self)

    def default_name(self) -> str:
        return "Iceberg Sink"


class _Committer(Committer):
    def __init__(self, sink: IcebergSink) -> None:
        self._sink = sink
        self._catalog: Any = None

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for name, items in by_sink(committables).items():
            for part in parts_of(items):
                patiently(partial(self._append, name, part, context))

    def _append(self, name: str, items: list[Item], context: CommitContext, may_fail: bool) -> bool:
        """Appends what is new; False if another writer has committed meanwhile."""
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
            with _COMMIT, table.transaction() as transaction:
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

    def files(self, committable: Any) -> list[FileHandle]:
        return files_of(committable)
