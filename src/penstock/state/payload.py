"""A payload: the content of one file of a keyed state version, a base or a delta.

It holds the columns of every table and of both timer domains, as msgpack:

    ["PS1", tables, event timers, processing timers, covers], pickles, length of the array (8 bytes)

    table       [name, kind, timed, schema, parts], a part for each namespace
    value       [namespaces, keys, values, last accesses, removed keys]
    list        [namespaces, keys, starts, lengths (-1: removed), elements, last accesses]
    map         [namespaces, keys, cleared, lengths, map keys, values, last accesses,
                 numbers of removed map keys, removed map keys]
    timers      [times, namespaces, numbers of added keys, added keys, numbers of removed, removed]

Pickled values are behind the array, where nothing copies them; in it {"count": their number,
"size": the length of their pickle} stands for them. Columns are flat: one look at each says how to
write it. Keys, namespaces and map keys are columns of `plain_serializer`; values are those of the
type that the schema names, or one pickle.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import StateError
from penstock.state.plain_serializer import (
    COUNT,
    PICKLE,
    Pickles,
    check_head,
    decode_body,
    decode_column,
    encode_body,
    encode_column,
    pickle_bytes,
    refusal,
)
from penstock.state.serializers import table_serializer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.state.tables import Columns
    from penstock.state.timers import TimerColumns

_HEAD: Final = "PS1"
_COUNT: Final = "count"
_SIZE: Final = "size"
_LENGTH: Final = struct.Struct(">Q")

_MALFORMED: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error),
)


@dataclass(slots=True)
class TableColumns:
    """Changes, or the whole, of one table."""

    name: str
    kind: str
    timed: bool
    columns: Columns
    schema: str = ""


@dataclass(slots=True)
class Payload:
    """Changes, or the whole, of one operator's keyed state in one subtask.

    Attributes:
        tables: By table.
        event_timers: Timers in event time.
        processing_timers: Timers in processing time.
        covers: Versions on top of which the payload applies besides the one before it, because
            it was merged from the deltas between them.
    """

    tables: list[TableColumns] = field(default_factory=list)
    event_timers: TimerColumns = field(default_factory=list)
    processing_timers: TimerColumns = field(default_factory=list)
    covers: tuple[str, ...] = ()

    def count_changes(self) -> tuple[int, int]:
        """Returns the number of values, and of list elements, map entries and timers."""
        values = others = 0
        for table in self.tables:
            for _, keys, *rest in table.columns:
                if table.kind == "value":
                    values += len(keys)
                elif table.kind == "list":
                    others += sum(len(items or ()) for items in rest[1])
                else:
                    others += sum(map(len, rest[1])) + sum(map(len, rest[3]))
        timers = (*self.event_timers, *self.processing_timers)
        return values, others + sum(len(added) + len(removed) for _, _, added, removed in timers)

    def encode(self, uid: str, pickles: Pickles = Pickles.ALLOW) -> bytes:
        """Returns the bytes of a file.

        Raises:
            StateError: A value is not of its declared type, cannot be written, or would be pickled
                where no pickles are allowed.
        """
        blobs: list[bytes] = []
        timers = f"timers of operator {uid!r}"
        body = [
            _HEAD,
            [_TableWriter(table, pickles, uid, blobs).parts() for table in self.tables],
            _encode_timers(self.event_timers, pickles, timers),
            _encode_timers(self.processing_timers, pickles, timers),
            self.covers,
        ]
        array = encode_body(body, f"keyed state of operator {uid!r}")
        return b"".join((array, *blobs, _LENGTH.pack(len(array))))


def decode_payload(data: bytes, name: str, pickles: Pickles = Pickles.ALLOW) -> Payload:
    """Reads what `Payload.encode` wrote.

    Raises:
        StateError: A newer release wrote it, it is malformed, or holds pickles that must not be
            read.
    """
    what = f"state file {name!r}"
    check_head(data, _HEAD, what)
    try:
        (length,) = _LENGTH.unpack(data[-_LENGTH.size :])
        body = decode_body(memoryview(data)[:length])
        blobs = _Blobs(memoryview(data)[length : -_LENGTH.size])
        _, tables, event_timers, processing_timers, covers = body
        return Payload(
            [_decode_table(table, pickles, blobs) for table in tables],
            _decode_timers(event_timers, pickles, what),
            _decode_timers(processing_timers, pickles, what),
            tuple(covers),
        )
    except _MALFORMED as error:
        raise StateError(f"{what} is malformed: {error}. Choose another checkpoint.") from error


class _TableWriter:
    def __init__(self, table: TableColumns, pickles: Pickles, uid: str, blobs: list[bytes]) -> None:
        self._blobs = blobs
        self._table = table
        self._serializer = table_serializer(table.kind, table.schema)
        self._pickles = pickles
        self._what = f"state {table.name!r} of operator {uid!r}"

    def parts(self) -> list[Any]:
        table = self._table
        # Not a name that is made here: CPython's cache of attributes would keep each.
        kinds: dict[str, Callable[..., list[Any]]] = {
            "value": self._value,
            "list": self._list,
            "map": self._map,
        }
        write = kinds[table.kind]
        parts = [
            [self._plain([ns]), *write(keys, *columns)] for ns, keys, *columns in table.columns
        ]
        return [table.name, table.kind, table.timed, table.schema, parts]

    def _plain(self, values: list[Any]) -> Any:
        return encode_column(values, self._pickles, f"a key, map key or namespace of {self._what}")

    def _values(self, values: list[Any]) -> tuple[Any, list[int] | None]:
        """Returns the wire form of values and of their last accesses."""
        times: list[int] | None = None
        if self._table.timed:
            times = [value[1] for value in values]
            values = [value[0] for value in values]
        if self._serializer is None:
            if self._pickles is not Pickles.ALLOW:
                raise refusal(f"{self._what} would be pickled")
            self._blobs.append(pickle_bytes(values, self._what))
            return {_COUNT: len(values), _SIZE: len(self._blobs[-1])}, times
        return self._serializer.written(values, self._what), times

    def _value(self, keys: list[Any], values: list[Any]) -> list[Any]:
        removed: list[Any] = []
        # A quarter of the time of looking at pairs, and mostly nothing is removed.
        if [None for value in values if value is None]:
            removed = [key for key, value in zip(keys, values, strict=True) if value is None]
            keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        return [self._plain(keys), *self._values(values), self._plain(removed)]

    def _list(self, keys: list[Any], starts: list[int], items: list[Any]) -> list[Any]:
        lengths = [-1 if part is None else len(part) for part in items]
        flat = list(chain.from_iterable(part for part in items if part is not None))
        return [self._plain(keys), starts, lengths, *self._values(flat)]

    def _map(
        self,
        keys: list[Any],
        cleared: list[bool],
        map_keys: list[Any],
        values: list[Any],
        removed: list[Any],
    ) -> list[Any]:
        return [
            self._plain(keys),
            cleared,
            list(map(len, map_keys)),
            self._plain(list(chain.from_iterable(map_keys))),
            *self._values(list(chain.from_iterable(values))),
            list(map(len, removed)),
            self._plain(list(chain.from_iterable(removed))),
        ]


class _Blobs:
    """The pickles of a payload, taken one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = bytes(self._data[self._at : self._at + size])
        self._at += size
        return taken


def _decode_table(data: Any, pickles: Pickles, blobs: _Blobs) -> TableColumns:
    name, kind, timed, schema, parts = data
    what = f"state {name!r}"
    reader = table_serializer(kind, schema)

    def plain(column: Any) -> list[Any]:
        return decode_column(column, pickles, f"a key, map key or namespace of {what}")

    def values_of(column: Any, times: list[int] | None) -> list[Any]:
        if reader is None:
            blob = {COUNT: column[_COUNT], PICKLE: blobs.take(column[_SIZE])}
            values = decode_column(blob, pickles, what)
        else:
            values = reader.from_wire(column)
        return values if times is None else list(zip(values, times, strict=True))

    columns: list[tuple[Any, ...]] = []
    for namespace, key_column, *rest in parts:
        (ns,), keys = plain(namespace), plain(key_column)
        if kind == "value":
            values, gone = values_of(*rest[:2]), plain(rest[2])
            if gone:
                # Each key comes once, so their order is free.
                keys, values = [*keys, *gone], [*values, *repeat(None, len(gone))]
            columns.append((ns, keys, values))
        elif kind == "list":
            starts, lengths, *content = rest
            columns.append((ns, keys, starts, _cut(values_of(*content), lengths)))
        else:
            cleared, lengths, map_keys, found, times, gone_lengths, gone = rest
            columns.append(
                (
                    ns,
                    keys,
                    cleared,
                    _cut(plain(map_keys), lengths),
                    _cut(values_of(found, times), lengths),
                    _cut(plain(gone), gone_lengths),
                )
            )
    return TableColumns(name, kind, timed, columns, schema)


def _cut(flat: list[Any], lengths: list[int]) -> list[Any]:
    source = iter(flat)
    return [None if length < 0 else list(islice(source, length)) for length in lengths]


def _encode_timers(columns: TimerColumns, pickles: Pickles, what: str) -> list[Any]:
    if not columns:
        return []
    times, namespaces, added, removed = zip(*columns, strict=True)
    return [
        times,
        encode_column(list(namespaces), pickles, what),
        list(map(len, added)),
        encode_column(list(chain.from_iterable(added)), pickles, what),
        list(map(len, removed)),
        encode_column(list(chain.from_iterable(removed)), pickles, what),
    ]


def _decode_timers(data: list[Any], pickles: Pickles, what: str) -> TimerColumns:
    if not data:
        return []
    times, namespaces, *rest = data
    found = decode_column(namespaces, pickles, what)
    added = _cut(decode_column(rest[1], pickles, what), rest[0])
    removed = _cut(decode_column(rest[3], pickles, what), rest[2])
    return list(zip(times, found, added, removed, strict=True))
