"""Rows of lake tables while they wait for a checkpoint: Arrow in pending files."""

from __future__ import annotations

import importlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.connectors.file_sink.encoders import to_table
from penstock.connectors.pending_files import (
    Item,
    PendingCommitter,
    PendingFiles,
    by_sink,
    frames_of,
    parts_of,
)
from penstock.connectors.sink import CommitContext, SinkWriter, WriterContext
from penstock.core.errors import InputError, ProgramError, module_of_extra

TRIES: Final = 5
"""How often a commit is tried when other writers come first."""
_PART_BYTES: Final = 256 << 20
"""About so much is one commit, where the driver holds what it commits."""


def library(name: str, extra: str) -> Any:
    """Returns a module of a table format's package.

    Raises:
        EnvironmentError_: It is not installed.
    """
    return module_of_extra(name, f"{extra.title()} tables need", name.partition(".")[0], extra)


def arrow() -> Any:
    """Returns pyarrow."""
    return importlib.import_module("pyarrow")


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


def checked_columns(
    schema: Any, who: str, *, partition_by: Sequence[str] = (), merge_by: Sequence[str] = ()
) -> None:
    """Refuses what is no schema, columns that it does not have, and types that no table has."""
    types = arrow().types
    if not isinstance(schema, arrow().Schema):
        raise ProgramError(f"{who} takes a pyarrow.Schema, not {schema!r:.80}.")
    for text, names in (("partitioned by", partition_by), ("merged by", merge_by)):
        if unknown := [name for name in names if name not in schema.names]:
            raise ProgramError(f"{who} is {text} {unknown}, but its columns are {schema.names}.")
    for field in schema:
        for kind in _kinds(field.type):
            if _is_unknown(kind):
                raise ProgramError(
                    f"{who} has the column {field.name!r} of the type {kind}, which the tables do "
                    "not have. Numbers are signed, times have microseconds and the zone UTC or "
                    "none; convert others in a map()."
                )
    for name in merge_by:
        kind = schema.field(name).type
        if types.is_nested(kind) or types.is_floating(kind):
            raise ProgramError(
                f"{who} is merged by {name!r} of the type {kind}, of which it is not clear when "
                "two are equal; keys are texts, whole numbers, decimals and times."
            )


def _kinds(kind: Any) -> Iterator[Any]:
    """Yields a type and those inside of it."""
    yield kind
    if arrow().types.is_nested(kind):
        for number in range(kind.num_fields):
            yield from _kinds(kind.field(number).type)


def _is_unknown(kind: Any) -> bool:
    types = arrow().types
    if types.is_timestamp(kind):
        return kind.unit == "ns" or kind.tz not in (None, "UTC", "Etc/UTC", "+00:00")
    is_number = types.is_unsigned_integer(kind) or types.is_float16(kind)
    return bool(is_number or types.is_duration(kind))


class ArrowWriter(SinkWriter):
    """Keeps the records of one subtask and epoch as Arrow."""

    def __init__(self, schema: Any, context: WriterContext) -> None:
        self._schema = schema
        self._pending = PendingFiles(context)

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        buffer = arrow().BufferOutputStream()
        with arrow().ipc.new_stream(buffer, self._schema) as stream:
            stream.write_table(to_table(values, self._schema))
        self._pending.add(buffer.getvalue().to_pybytes(), len(values))

    def prepare_commit(self) -> list[Any]:
        return list(self._pending.committables())


class LakeCommitter(PendingCommitter):
    """Base of committers of tables: tries again while other writers come first."""

    kind = "table"
    most_bytes = _PART_BYTES

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for name, items in by_sink(committables).items():
            for part in parts_of(items, self.most_bytes, whole_epochs=True):
                for tried in range(1, TRIES):
                    if self.written(name, part, context, may_fail=True):
                        break
                    time.sleep(0.05 * 2**tried)
                else:
                    self.written(name, part, context, may_fail=False)

    @abstractmethod
    def written(
        self, name: str, items: list[Item], context: CommitContext, *, may_fail: bool
    ) -> bool:
        """Writes what is new of a sink; False if another writer has committed meanwhile."""


def batches_of(items: list[Item], area: Any) -> Iterator[Any]:
    """Yields the record batches of committables, in their order."""
    for item in items:
        for frame in frames_of(item, area):
            yield from arrow().ipc.open_stream(frame)


def last_of_each_key(table: Any, keys: Sequence[str], shown: str) -> Any:
    """Returns the last row of each key; rows of a table come in the order of their writing."""
    columns = [table.column(name).to_pylist() for name in keys]
    places: dict[tuple[Any, ...], int] = {}
    for place, key in enumerate(zip(*columns, strict=True)):
        places[key] = place
    if any(None in key for key in places):
        raise InputError(
            f"a row for {shown} has no value in the key {list(keys)}, by which rows are merged."
        )
    return table.take(sorted(places.values()))
