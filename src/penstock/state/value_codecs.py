"""Values of declared types as data: `to_wire` gives what msgpack holds, `from_wire` takes it back.

Columns, not values, are the unit of work: a column whose values are msgpack's own already is looked
at once, at the speed of C, and handed on untouched. Every function takes and returns lists, in
which None stands for no value.

    numbers, texts, booleans, bytes   themselves (what is beyond 64 bits: an extension)
    decimals, dates, times            their text
    INSTANT                           [seconds, nanoseconds], or the text of a datetime
    LIST, arrays                      an array
    MAP                               [keys, values]
    ROW, TUPLE                        an array of the fields; extension 7 for what is not usual:
                                      a tuple where a row is declared, other names, a row kind
"""

from __future__ import annotations

import datetime
import decimal
import functools
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from penstock.core.basic_types import BasicType
from penstock.core.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.core.duration import Instant
from penstock.core.errors import ProgramError, StateError
from penstock.core.types import (
    DateTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.state.field_codecs import FieldsCodec
from penstock.state.plain_values import plain_wire
from penstock.state.schema import PLAIN, basic_type_of, is_data, parse_schema
from penstock.state.value_codec import Column, MismatchError, ValueCodec, mismatched

if TYPE_CHECKING:
    from collections.abc import Callable

_NONE: Final = type(None)


class _AtomCodec(ValueCodec):
    """Values that msgpack writes itself."""

    def __init__(
        self, declared: TypeInformation, usual: set[type], convert: Callable[[Any], Any]
    ) -> None:
        super().__init__(declared)
        self._usual = frozenset(usual | {_NONE})
        self._convert = convert

    def to_wire(self, values: Column) -> Column:
        if self._usual.issuperset(map(type, values)):
            return values
        return [self._one(value) for value in values]

    def _one(self, value: Any) -> Any:
        if type(value) in self._usual:
            return value
        if self.declared.mismatch(value) is not None:
            raise mismatched(self.declared, value)
        return self._convert(value)

    def from_wire(self, items: Column) -> Column:
        return items


class _PlainCodec(ValueCodec):
    """Values of no declared type that say themselves what they are: `penstock.state.plain_values`.

    State that operators keep for themselves is written so where pickles are not allowed.
    """

    def to_wire(self, values: Column) -> Column:
        try:
            return plain_wire(values, "a value")
        except ProgramError as error:
            raise MismatchError(str(error)) from None

    def from_wire(self, items: Column) -> Column:
        return items


class _TextCodec(ValueCodec):
    """Values that travel as a text or as a pair."""

    def __init__(
        self,
        declared: TypeInformation,
        write: Callable[[Any], Any],
        read: Callable[[Any], Any],
    ) -> None:
        super().__init__(declared)
        self._write = write
        self._read = read

    def to_wire(self, values: Column) -> Column:
        return [None if value is None else self._one(value) for value in values]

    def _one(self, value: Any) -> Any:
        if self.declared.mismatch(value) is not None:
            raise mismatched(self.declared, value)
        return self._write(value)

    def from_wire(self, items: Column) -> Column:
        read = self._read
        return [None if item is None else read(item) for item in items]


class _BytesCodec(ValueCodec):
    """An array of bytes, which may be a list of numbers too."""

    def to_wire(self, values: Column) -> Column:
        return [
            value if value is None or type(value) is bytes else self._one(value) for value in values
        ]

    def _one(self, value: Any) -> Any:
        if self.declared.mismatch(value) is not None:
            raise mismatched(self.declared, value)
        return bytes(value) if isinstance(value, bytes | bytearray) else [*map(int, value)]

    def from_wire(self, items: Column) -> Column:
        return items


class _ListCodec(ValueCodec):
    """Lists; a tuple becomes one."""

    def __init__(self, declared: TypeInformation, element: ValueCodec) -> None:
        super().__init__(declared)
        self._element = element

    def to_wire(self, values: Column) -> Column:
        if not set(map(type, values)) <= {list, tuple, _NONE}:
            for value in values:
                if not isinstance(value, list | tuple | None):
                    raise mismatched(self.declared, value)
        flat = list(chain.from_iterable(value for value in values if value is not None))
        wire = self._element.to_wire(flat)
        return values if wire is flat else _cut(wire, values)

    def from_wire(self, items: Column) -> Column:
        flat = list(chain.from_iterable(item for item in items if item is not None))
        values = self._element.from_wire(flat)
        return items if values is flat else _cut(values, items)


class _MapCodec(ValueCodec):
    """Dicts."""

    def __init__(self, declared: TypeInformation, key: ValueCodec, value: ValueCodec) -> None:
        super().__init__(declared)
        self._key = key
        self._value = value

    def to_wire(self, values: Column) -> Column:
        for value in values:
            if not isinstance(value, dict | None):
                raise mismatched(self.declared, value)
        dicts = [value or {} for value in values]
        keys = _cut(self._key.to_wire(list(chain.from_iterable(dicts))), dicts)
        flat = list(chain.from_iterable(each.values() for each in dicts))
        parts = _cut(self._value.to_wire(flat), dicts)
        wire = zip(keys, parts, strict=True)
        return [None if value is None else pair for value, pair in zip(values, wire, strict=True)]

    def from_wire(self, items: Column) -> Column:
        pairs = [((), ()) if item is None else item for item in items]
        key_parts, value_parts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        keys = _cut(self._key.from_wire(list(chain.from_iterable(key_parts))), key_parts)
        flat = list(chain.from_iterable(value_parts))
        values = _cut(self._value.from_wire(flat), value_parts)
        made = map(dict, map(functools.partial(zip, strict=True), keys, values))
        return [None if item is None else one for item, one in zip(items, made, strict=True)]


def _cut(flat: Column, like: Column) -> Column:
    """Returns the flat values as lists of the lengths of `like`; None stays None."""
    source = iter(flat)
    return [None if each is None else list(islice(source, len(each))) for each in like]


def _write_instant(value: Any) -> Any:
    return [value.seconds, value.nanos] if isinstance(value, Instant) else value.isoformat()


def _read_instant(item: Any) -> Any:
    if isinstance(item, str):
        return datetime.datetime.fromisoformat(item)
    return Instant(*item)


_WHOLE: Final = {
    kind: ({int, bool}, int)
    for kind in (
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.BIG_INT,
    )
}
_ATOMS: Final[dict[BasicType, tuple[set[type], Callable[[Any], Any]]]] = {
    **_WHOLE,
    BasicType.FLOAT: ({float}, float),
    BasicType.DOUBLE: ({float}, float),
    BasicType.STRING: ({str}, str),
    BasicType.CHAR: ({str}, str),
    BasicType.BOOLEAN: ({bool}, bool),
}
_TEXTS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    DateTypeInfo: (datetime.date.isoformat, datetime.date.fromisoformat),
    TimeTypeInfo: (datetime.time.isoformat, datetime.time.fromisoformat),
    TimestampTypeInfo: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
}
_LISTS: Final = (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


@functools.lru_cache(256)
def codec_of(schema: str) -> ValueCodec:
    """Returns the codec of a type by its text, which holds no PICKLED.

    Raises:
        StateError: It is not known.
    """
    if schema == PLAIN:
        return _PlainCodec(Types.PICKLED_BYTE_ARRAY())
    return _made(parse_schema(schema))


@functools.lru_cache(256)
def table_codec(kind: str, schema: str) -> ValueCodec | None:
    """Returns what writes the values, list elements or map values of a table; None for pickle.

    Args:
        kind: Of the table: `value`, `list` or `map`.
        schema: Type of the whole state as text, such as `LIST(LONG)`.

    Raises:
        StateError: The type is not known, or does not belong to such a table.
    """
    if schema == PLAIN:
        return codec_of(PLAIN)
    if not is_data(schema):
        return None
    whole = parse_schema(schema)
    if kind == "list" and isinstance(whole, ListTypeInfo):
        return _made(whole.element_type)
    if kind == "map" and isinstance(whole, MapTypeInfo):
        return _made(whole.value_type)
    if kind == "value":
        return _made(whole)
    raise StateError(f"a snapshot names the type {schema} for {kind} state, which cannot have it.")


def _made(declared: TypeInformation) -> ValueCodec:  # noqa: PLR0911 - one branch per family
    basic = basic_type_of(declared)
    if basic in _ATOMS:
        usual, convert = _ATOMS[basic]
        return _AtomCodec(declared, usual, convert)
    if basic is BasicType.BIG_DEC:
        return _TextCodec(declared, str, decimal.Decimal)
    if basic is BasicType.INSTANT:
        return _TextCodec(declared, _write_instant, _read_instant)
    if type(declared) in _TEXTS:
        return _TextCodec(declared, *_TEXTS[type(declared)])
    if isinstance(declared, PrimitiveArrayTypeInfo) and declared._is_bytes:
        return _BytesCodec(declared)
    if isinstance(declared, _LISTS):
        return _ListCodec(declared, _made(declared.element_type))
    if isinstance(declared, MapTypeInfo):
        return _MapCodec(declared, _made(declared.key_type), _made(declared.value_type))
    assert isinstance(declared, RowTypeInfo | TupleTypeInfo), declared
    return FieldsCodec(declared, [_made(field) for field in declared.get_field_types()])
