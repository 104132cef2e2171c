"""Keys, namespaces and map keys as data: they need no declared type, since they say what they are.

    encode_column   a list of values -> what msgpack can hold
    decode_column   and back

Texts, numbers and bytes are msgpack's own. Tuples, large integers, dates, decimals, rows, UUIDs and
windows travel as extension types, so that what comes back is equal and of the same type. Anything
else (enums, dataclasses, classes of a user) has no such form: then the whole column is pickled, and
says so.

    ext 1 to 6   as in `core.codec`
    ext 10 Decimal · 11 date · 12 time · 13 datetime · 14 timedelta · 15 UUID · 16 Row · 17 Instant
    ext 20 and up   classes of other packages, see `register`
    a pickled column is {"count": the number of its values, "pickle": the bytes}
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import io
import pickle
import uuid
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core import codec
from penstock.core.codec import read_extension, to_stored
from penstock.core.errors import ProgramError, StateError
from penstock.core.row import Row, RowKind
from penstock.core.times import Instant

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG: Final = 64
_DEPTH: Final = 7


class Pickles(Enum):
    """What to do about pickled state.

    Attributes:
        ALLOW: Write and read it, as a running job does.
        REFUSE: Neither; `penstock.state.allow-pickle: false`.
        OPAQUE: Read what is made of built-in values, dates and decimals, and show of the rest
            that it is there, as offline readers do.
    """

    ALLOW = "allow"
    REFUSE = "refuse"
    OPAQUE = "opaque"


class Opaque:
    """Stands for a pickled value that was not read, because reading it may run code.

    Attributes:
        size_bytes: Length of the pickle that holds the value.
        shared_by: How many values that pickle holds.
        digest: Names the value: equal digests are equal bytes at the same place of equal pickles.
    """

    __slots__ = ("digest", "shared_by", "size_bytes")

    def __init__(self, size_bytes: int, digest: str, shared_by: int = 1) -> None:
        self.size_bytes = size_bytes
        self.digest = digest
        self.shared_by = shared_by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        if self.shared_by == 1:
            return f"<pickle, {self.size_bytes} bytes>"
        return f"<one of {self.shared_by} values in a pickle, {self.size_bytes} bytes>"


def is_hidden(value: object) -> bool:
    """Returns whether a value, or a part of a list or tuple, was not read."""
    if isinstance(value, list | tuple):
        return any(map(is_hidden, value))
    return isinstance(value, Opaque)


def opaque_value(data: bytes | memoryview) -> Opaque:
    """Returns what stands for one pickle."""
    return Opaque(len(data), hashlib.sha256(data).hexdigest()[:16])


def opaque_values(data: bytes, count: int) -> list[Opaque]:
    """Returns what stands for the values of a pickle that holds several."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    return [Opaque(len(data), f"{digest}-{number}", count) for number in range(count)]


def refusal(what: str) -> StateError:
    """Returns the error for a pickle where none is allowed."""
    return StateError(
        f"{what}, and penstock.state.allow-pickle is false. Declare the type of the state in its "
        "descriptor, such as ValueStateDescriptor('count', Types.LONG()), with types other than "
        "PICKLED_BYTE_ARRAY, or allow pickles."
    )


def pickle_bytes(value: Any, what: str) -> bytes:
    """Returns the bytes of `value`.

    Raises:
        StateError: It cannot be pickled; the text names `what`.
    """
    try:
        return codec.dumps(_packed(value, _DEPTH))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StateError(
            f"{what} holds a value that cannot be pickled: {error}. Keep plain data in state, and "
            "open connections, locks and files in the function's open()."
        ) from error


class _Packed:
    """A long list of small values, pickled without a memo; comes back as the list itself."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self._data,)


def _packed(value: Any, depth: int) -> Any:
    """Returns the same structure with long lists of small values packed."""
    kind = type(value)
    if depth == 0 or kind not in (list, tuple):
        return value
    if kind is list and len(value) >= _LONG:
        return _pack(value) if codec.are_small(value) else value
    return kind([_packed(part, depth - 1) for part in value])


def _pack(values: list[Any]) -> Any:
    try:
        return _Packed(codec.dumps_without_memo(values))
    except Exception:
        # Not all are like those that were looked at.
        return values


def unpickled_plain(data: bytes | memoryview) -> Any:
    """Reads what `pickle_bytes` wrote of built-in values, dates and decimals; runs no code of it.

    Raises:
        Exception: It names anything else, or is malformed.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


_PLAIN: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    # What `_Packed` says of itself.
    ("_pickle", "loads"): unpickled_plain,
    ("builtins", "complex"): complex,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): decimal.Decimal,
}
"""All that such data may call; no class written in Python, because a pickle can change it."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        return _PLAIN[module, name]


COUNT: Final = "count"
PICKLE: Final = "pickle"

_ATOMS: Final = frozenset({int, str, float, bool, bytes, type(None)})
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMEDELTA, _UUID, _ROW, _INSTANT = range(10, 18)

_encoder = msgspec.msgpack.Encoder()

_writers: dict[type, Callable[[Any], msgspec.msgpack.Ext]] = {}
_readers: dict[int, Callable[[Any], Any]] = {}


def register(
    kind: type, code: int, parts: Callable[[Any], Any], make: Callable[[Any], Any]
) -> None:
    """Registers a class whose values are written as data.

    Args:
        kind: The class itself; subclasses are others.
        code: From 20 to 99; the same in every release.
        parts: Returns plain data.
        make: Makes a value of that data.
    """
    assert _readers.get(code) is None or _writers.get(kind) is not None, (kind, code)
    _writers[kind] = lambda value: msgspec.msgpack.Ext(
        code, _encoder.encode(to_stored(parts(value), kind.__name__, _more))
    )
    _readers[code] = make


def register_reader(code: int, make: Callable[[Any], Any]) -> None:
    """Reads an extension that is written elsewhere."""
    _readers[code] = make


def encode_column(values: list[Any], pickles: Pickles, what: str) -> Any:
    """Returns a column in a form that `encode_body` writes.

    Raises:
        StateError: It needs a pickle and none is allowed, or cannot be pickled either.
    """
    try:
        return plain_wire(values, what)
    except ProgramError as error:
        if pickles is not Pickles.ALLOW:
            raise refusal(f"{what} cannot be written as data: {error}") from None
        return pickled_column(values, what)


def plain_wire(values: list[Any], what: str) -> list[Any]:
    """Returns values as msgpack holds them.

    Raises:
        ProgramError: One of them has no such form.
    """
    if _ATOMS.issuperset(map(type, values)):
        return values
    return [to_stored(value, what, _more) for value in values]


def pickled_column(values: list[Any], what: str) -> dict[str, Any]:
    """Returns a column as one pickle."""
    return {COUNT: len(values), PICKLE: pickle_bytes(values, what)}


def is_pickled(column: Any) -> bool:
    """Returns whether a column is a pickle."""
    return type(column) is dict


def decode_column(column: Any, pickles: Pickles, what: str) -> list[Any]:
    """Reads what `encode_column` or `pickled_column` gave.

    Raises:
        StateError: It is a pickle, and none may be read.
    """
    if not is_pickled(column):
        found: list[Any] = column
        return found
    if pickles is Pickles.OPAQUE:
        with contextlib.suppress(Exception):
            plain: list[Any] = unpickled_plain(column[PICKLE])
            return plain
        return opaque_values(column[PICKLE], column[COUNT])
    if pickles is Pickles.REFUSE:
        raise refusal(f"{what} is pickled in the snapshot")
    unpickled: list[Any] = pickle.loads(column[PICKLE])
    return unpickled


def encode_body(body: Any, what: str) -> bytes:
    """Returns the bytes of columns and what is around them.

    Integers beyond 64 bits and texts that are not Unicode need a second try, which is slower.
    """
    try:
        return _encoder.encode(body)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_as_lists(body, what))


def decode_body(data: Any) -> Any:
    """Reads what `encode_body` wrote; runs no code of the data.

    Raises:
        StateError: It is malformed.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError, TypeError, ArithmeticError) as error:
        raise StateError(f"state is malformed: {error}. Choose another checkpoint.") from error


def check_head(data: bytes, head: str, what: str) -> None:
    """Checks the name and number of a format, the first item of an array.

    Raises:
        StateError: A newer release wrote the data, or it is malformed.
    """
    found = data[2 : 2 + len(head)].decode("latin-1")
    if found[:-1] != head[:-1]:
        raise StateError(f"{what} is malformed: it is no {head}. Choose another checkpoint.")
    if found != head:
        raise newer_format(what, found[-1], head[-1])


def newer_format(what: str, number: object, known: object) -> StateError:
    """Returns the error for a format of a later release."""
    return StateError(
        f"{what} has format {number}, this release reads up to {known}. Restore it with the "
        "release that wrote it, or a newer one."
    )


def _as_lists(value: Any, what: str) -> Any:
    """Returns the same with large integers and such as extensions; tuples stay arrays."""
    if type(value) in (list, tuple):
        return [_as_lists(part, what) for part in value]
    if type(value) is dict:
        return {_as_lists(key, what): _as_lists(part, what) for key, part in value.items()}
    return to_stored(value, what, _more) if type(value) in (int, str) else value


def _more(value: Any) -> msgspec.msgpack.Ext | None:
    if type(value) is msgspec.msgpack.Ext:
        return value
    write = _writers.get(type(value))
    return None if write is None else write(value)


def _text_of(code: int, text: Callable[[Any], str]) -> Callable[[Any], msgspec.msgpack.Ext]:
    return lambda value: msgspec.msgpack.Ext(code, text(value).encode())


def _row_parts(row: Row) -> Any:
    return [row._fields, row.get_row_kind().value, list(row)]


def _make_row(parts: Any) -> Row:
    fields, kind, values = parts
    row = Row(*values)
    row.set_row_kind(RowKind(kind))
    if fields is not None:
        row.set_field_names(fields)
    return row


_TEXTS: Final = {
    decimal.Decimal: (_DECIMAL, str, decimal.Decimal),
    datetime.date: (_DATE, datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: (_TIME, datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.datetime: (_DATETIME, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    uuid.UUID: (_UUID, str, uuid.UUID),
}
_PARTS: Final = {
    datetime.timedelta: (
        _TIMEDELTA,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
    Row: (_ROW, _row_parts, _make_row),
    Instant: (_INSTANT, lambda at: [at.seconds, at.nanos], lambda parts: Instant(*parts)),
}
for _kind, (_code, _write, _read) in _TEXTS.items():
    _writers[_kind] = _text_of(_code, _write)  # type: ignore[arg-type]
_read_text: Final[dict[int, Callable[[str], Any]]] = {
    code: read  # type: ignore[misc]
    for code, _, read in _TEXTS.values()
}
for _kind, (_code, _parts_of, _make) in _PARTS.items():
    register(_kind, _code, _parts_of, _make)


def _hook(code: int, data: memoryview) -> Any:
    if code in _read_text:
        return _read_text[code](bytes(data).decode())
    if code in _readers:
        return _readers[code](_decoder.decode(data))
    return read_extension(code, data, _decoder)


_decoder = msgspec.msgpack.Decoder(ext_hook=_hook)
