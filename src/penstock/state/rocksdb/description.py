"""The last file of a `rocksdb` base: what the others are, and what their rows mean.

mark      C1 'R' 1
[names of the files for RocksDB, tables, folds, whether it has event timers, processing timers]
table     [name, kind, timed, read by key, timed since, schema, schemas that rows may have]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core.errors import StateError
from penstock.state.plain_serializer import decode_body, encode_body, newer_format
from penstock.state.rocksdb.row_values import renumbered_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.state.rocksdb.table import RocksTable

_MARK: Final = b"\xc1R\x01"


class TableDescription(NamedTuple):
    """A table, as a base remembers it; the fields are those of the table."""

    kind: str
    timed: bool
    is_read_by_key: bool
    timed_since_ms: int
    schema: str = ""
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaseDescription:
    """What a base holds.

    Attributes:
        files: Their names for RocksDB, in the order of the handles.
        tables: By name.
        folds: Number of folds that made the base.
        event_timers: Whether there are any; if so, they may be gone since.
        processing_timers: The same for processing time.
    """

    files: list[str]
    tables: dict[str, TableDescription]
    folds: int
    event_timers: bool
    processing_timers: bool


def encode_description(description: BaseDescription) -> bytes:
    """Returns the bytes of the file."""
    body = [
        description.files,
        [[name, *table] for name, table in description.tables.items()],
        description.folds,
        description.event_timers,
        description.processing_timers,
    ]
    return _MARK + encode_body(body, "the description of a base")


def decode_description(data: bytes, name: str) -> BaseDescription:
    """Reads what `encode_description` wrote.

    Raises:
        StateError: A newer release wrote it, or it is malformed.
    """
    what = f"state file {name!r}"
    if not data.startswith(_MARK[:2]):
        raise StateError(f"{what} describes no base. Choose another checkpoint.")
    if not data.startswith(_MARK):
        raise newer_format(what, data[2], _MARK[2])
    files, tables, *counts = decode_body(data[len(_MARK) :])
    made = {}
    fields: Any
    for table_name, *fields, schemas in tables:
        made[table_name] = TableDescription._make([*fields, tuple(schemas)])
    return BaseDescription(files, made, *counts)


def become(table: RocksTable, described: TableDescription) -> None:
    """Makes a new table what the base says of it."""
    table.timed, table.timed_since_ms = described.timed, described.timed_since_ms
    table.values.schemas = list(described.schemas)
    table.values.use(described.schema)


def describe(table: RocksTable) -> TableDescription:
    """Returns what a base remembers of a table."""
    return TableDescription(
        table.kind,
        table.timed,
        table.is_read_by_key,
        table.timed_since_ms,
        table.schema,
        tuple(table.values.schemas),
    )


def renumbering(
    after: Mapping[str, TableDescription],
    before: Mapping[str, TableDescription],
    tables: Iterable[RocksTable],
) -> dict[str, list[bytes]]:
    """Returns by table the new flags of its rows, where they change.

    Subtasks that become one may have seen the types of a state in different order.

    Args:
        after: The tables of the base that rows go into.
        before: The tables of the base that they come from.
        tables: Those of them that are in memory, and may know more types since.
    """
    schemas = {name: described.schemas for name, described in before.items()}
    schemas.update({table.name: tuple(table.values.schemas) for table in tables})
    return {
        name: renumbered_flags(known, after[name].schemas)
        for name, known in schemas.items()
        if after[name].schemas[: len(known)] != known
    }
