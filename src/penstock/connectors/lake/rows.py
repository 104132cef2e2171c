"""Rows of lake tables while they wait for a checkpoint: Arrow in pending files."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from penstock.connectors.file_sink.encoders import to_table
from penstock.connectors.pending_files import Item, PendingFiles, frames_of
from penstock.connectors.sink import SinkWriter, WriterContext
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


def patiently(commit: Callable[[bool], bool]) -> None:
    """Calls a commit again while other writers come first; it is told whether it may fail."""
    for tried in range(1, TRIES):
        if commit(True):
            return
        time.sleep(0.05 * 2**tried)
    commit(False)


def parts_of(items: list[Item]) -> Iterator[list[Item]]:
    """Yields what belongs into one commit each; output of one epoch stays together."""
    part: list[Item] = []
    for _, group in itertools.groupby(items, key=lambda item: item["place"][:3]):
        epoch = list(group)
        if part and sum(item["size"] for item in (*part, *epoch)) > _PART_BYTES:
            yield part
            part = []
        part += epoch
    yield part


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
