"""The bytes of a payload: msgpack, format 2. Format 1 was one pickle, and is still read.

    ["PS2", tables, event timers, processing timers, covers], pickles, length of the array (8 bytes)

    table       [name, kind, timed, schema, parts], a part for each namespace
    value       [namespaces, keys, values, last accesses, removed keys]
    list        [namespaces, keys, starts, lengths (-1: removed), elements, last accesses]
    map         [namespaces, keys, cleared, lengths, map keys, values, last accesses,
                 numbers of removed map keys, removed map keys]
    timers      [times, namespaces, numbers of added keys, added keys, numbers of removed, removed]

Pickled values are behind the array, where nothing copies them; in it {"count": their number,
"size": the length of their pickle} stands for them. Columns are flat: one look at each says how to
write it. Keys, namespaces and map keys are columns of `plain_values`; values are those of the type
that the schema names, or one pickle.
"""

from __future__ import annotations

import struct
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import StateError
from penstock.state import codec
from penstock.state.pickles import Pickles, refusal
from penstock.state.plain_values import (
    COUNT,
    PICKLE,
    decode_body,
    decode_column,
    encode_body,
    encode_column,
)
from penstock.state.value_codec import MismatchError, value_refused
from penstock.state.value_codecs import table_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.state.timers import TimerColumns

_NAME: Final = "PS"
_FORMAT: Final = "2"
_COUNT: Final = "count"
_SIZE: Final = "size"
_LENGTH: Final = struct.Struct(">Q")

_MALFORMED: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error),
)

Table = tuple[str, str, bool, str, list[tuple[Any, ...]]]
"""Name, kind, whether it is timed, schema, columns."""


def encode(
    tables: Iterable[Table],
    timers: tuple[TimerColumns, TimerColumns],
    covers: tuple[str, ...],
    pickles: Pickles,
    uid: str,
) -> bytes:
    """Returns the bytes of a payload.

    Raises:
        StateError: A value is not of its declared type, cannot be written, or would be pickled
            where no pickles are allowed.
    """
    what = f"keyed state of operator {uid!r}"
    blobs: list[bytes] = []
    body = [
        _NAME + _FORMAT,
        [_TableWriter(table, pickles, uid, blobs).parts() for table in tables],
        *(_encode_timers(columns, pickles, f"timers of operator {uid!r}") for columns in timers),
        covers,
    ]
    array = encode_body(body, what)
    return b"".join((array, *blobs, _LENGTH.pack(len(array))))


def format_of(data: bytes) -> str | None:
    """Returns the format of a payload; None for a pickle, which format 1 was."""
    # Behind the byte that says how long the array is comes the text and its length.
    is_ours = data[1:4] == b"\xa3" + _NAME.encode()
    return data[4:5].decode("latin-1") if is_ours else None


def is_known(number: str) -> bool:
    """Returns whether this release reads a format."""
    return number == _FORMAT


def decode(
    data: bytes, pickles: Pickles, what: str
) -> tuple[list[Table], TimerColumns, TimerColumns, tuple[str, ...]]:
    """Reads what `encode` wrote.

    Raises:
        StateError: It is malformed, or holds pickles that must not be read.
    """
    try:
        (length,) = _LENGTH.unpack(data[-_LENGTH.size :])
        body = decode_body(memoryview(data)[:length])
        blobs = _Blobs(memoryview(data)[length : -_LENGTH.size])
        _, tables, event_timers, processing_timers, covers = body
        return (
            [_decode_table(table, pickles, blobs) for table in tables],
            _decode_timers(event_timers, pickles, what),
            _decode_timers(processing_timers, pickles, what),
            tuple(covers),
        )
    except _MALFORMED as error:
        raise StateError(f"{what} is malformed: {error}. Choose another checkpoint.") from error


class _TableWriter:
    def __init__(self, table: Table, pickles: Pickles, uid: str, blobs: list[bytes]) -> None:
        self._blobs = blobs
        self._name, self._kind, self._timed, self._schema, self._columns = table
        self._codec = table_codec(self._kind, self._schema)
        self._pickles = pickles
        self._what = f"state {self._name!r} of operator {uid!r}"

    def parts(self) -> list[Any]:
        write: Callable[..., list[Any]] = getattr(self, f"_{self._kind}")
        parts = [
            [self._plain([ns]), *write(keys, *columns)] for ns, keys, *columns in self._columns
        ]
        return [self._name, self._kind, self._timed, self._schema, parts]

    def _plain(self, values: list[Any]) -> Any:
        return encode_column(values, self._pickles, f"a key, map key or namespace of {self._what}")

    def _values(self, values: list[Any]) -> tuple[Any, list[int] | None]:
        """Returns the wire form of values and of their last accesses."""
        times: list[int] | None = None
        if self._timed:
            times = [value[1] for value in values]
            values = [value[0] for value in values]
        if self._codec is None:
            if self._pickles is not Pickles.ALLOW:
                raise refusal(f"{self._what} would be pickled")
            self._blobs.append(codec.dumps(values, self._what))
            return {_COUNT: len(values), _SIZE: len(self._blobs[-1])}, times
        try:
            return self._codec.to_wire(values), times
        except MismatchError as error:
            raise value_refused(self._what, error) from None

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


def _decode_table(data: Any, pickles: Pickles, blobs: _Blobs) -> Table:
    name, kind, timed, schema, parts = data
    what = f"state {name!r}"
    reader = table_codec(kind, schema)

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
    return name, kind, timed, schema, columns


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
