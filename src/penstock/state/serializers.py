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
from abc import ABC, abstractmethod
from itertools import chain, islice, repeat
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.basic_types import BasicType
from penstock.core.composite_types import (
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.core.errors import ProgramError, StateError
from penstock.core.row import Row, RowKind
from penstock.core.times import Instant
from penstock.core.types import (
    DateTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.state.plain_serializer import encode_body, plain_wire, register_reader
from penstock.state.schema import LISTS, PLAIN, basic_type_of, is_data, parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NONE: Final = type(None)
Column = list[Any]
"""Values, or their wire form, in order; None is no value."""


class Serializer(ABC):
    """Writes and reads the values of one declared type.

    Attributes:
        declared: The type.
    """

    def __init__(self, declared: TypeInformation) -> None:
        self.declared = declared

    @abstractmethod
    def to_wire(self, values: Column) -> Column:
        """Returns what msgpack can hold; the same list where nothing is to be done.

        Raises:
            MismatchError: A value is not of the type.
        """

    def written(self, values: Column, what: str) -> Column:
        """Returns `to_wire`.

        Raises:
            StateError: A value is not of the type; the text names `what`.
        """
        try:
            return self.to_wire(values)
        except MismatchError as error:
            raise StateError(
                f"{what}: {error}. Store a value of that type, or declare another one."
            ) from None

    def from_wire(self, items: Column) -> Column:
        """Returns the values of what `to_wire` returned."""
        return items

    def _check(self, value: Any) -> None:
        if (wrong := self.declared.mismatch(value)) is not None:
            raise mismatched(self.declared, value, wrong)


class MismatchError(StateError):
    """A value is not of the declared type."""


def mismatched(declared: TypeInformation, value: Any, why: str | None = None) -> MismatchError:
    """Returns the error for a value that is not of the declared type."""
    text = why or declared.mismatch(value) or f"declared {declared!r}, got {value!r:.60}"
    return MismatchError(text)


class _AtomSerializer(Serializer):
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
        self._check(value)
        return self._convert(value)


class _PlainSerializer(Serializer):
    """Values of no declared type that say themselves what they are, see `plain_serializer`.

    State that operators keep for themselves is written so where pickles are not allowed.
    """

    def to_wire(self, values: Column) -> Column:
        try:
            return plain_wire(values, "a value")
        except ProgramError as error:
            raise MismatchError(str(error)) from None


class _TextSerializer(Serializer):
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
        self._check(value)
        return self._write(value)

    def from_wire(self, items: Column) -> Column:
        read = self._read
        return [None if item is None else read(item) for item in items]


class _BytesSerializer(Serializer):
    """An array of bytes, which may be a list of numbers too."""

    def to_wire(self, values: Column) -> Column:
        return [
            value if value is None or type(value) is bytes else self._one(value) for value in values
        ]

    def _one(self, value: Any) -> Any:
        self._check(value)
        return bytes(value) if isinstance(value, bytes | bytearray) else [*map(int, value)]


class _ListSerializer(Serializer):
    """Lists; a tuple becomes one."""

    def __init__(self, declared: TypeInformation, element: Serializer) -> None:
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


class _MapSerializer(Serializer):
    """Dicts."""

    def __init__(self, declared: TypeInformation, key: Serializer, value: Serializer) -> None:
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


FORM: Final = 7
_ROW, _TUPLE, _LIST, _DICT = range(4)
_FIELDS_OF: Final = attrgetter("_fields")
_KIND_OF: Final = attrgetter("_row_kind")
_VALUES_OF: Final = attrgetter("_values")
_INSERT: Final = RowKind.INSERT


class Form:
    """A value of unusual form, as it comes from the wire."""

    __slots__ = ("form", "kind", "names", "values")

    def __init__(self, parts: list[Any]) -> None:
        self.form, self.kind, self.names, self.values = parts


register_reader(FORM, Form)


class _FieldsSerializer(Serializer):
    """Rows or tuples."""

    def __init__(self, declared: RowTypeInfo | TupleTypeInfo, fields: Sequence[Serializer]) -> None:
        super().__init__(declared)
        self._fields = fields
        self._count = len(fields)
        self._names: tuple[str, ...] | None = None
        if isinstance(declared, RowTypeInfo):
            self._names = tuple(declared.get_field_names())

    def to_wire(self, values: Column) -> Column:
        if self._are_usual(values):
            if self._names is not None:
                values = list(map(_VALUES_OF, values))
            return self._fields_to_wire(values)
        return [None if value is None else self._one(value) for value in values]

    def _are_usual(self, values: Column) -> bool:
        if self._names is None:
            is_usual = set(map(type, values)) <= {tuple}
        else:
            is_usual = (
                set(map(type, values)) <= {Row}
                and all(map(eq, map(_FIELDS_OF, values), repeat(self._names)))
                and set(map(_KIND_OF, values)) <= {_INSERT}
            )
        return is_usual and set(map(len, values)) <= {self._count}

    def _fields_to_wire(self, values: Column) -> Column:
        if not values or not self._count:
            return values
        columns = [list(column) for column in zip(*values, strict=True)]
        wire = [field.to_wire(column) for field, column in zip(self._fields, columns, strict=True)]
        if all(one is column for one, column in zip(wire, columns, strict=True)):
            return values
        return list(zip(*wire, strict=True))

    def _one(self, value: Any) -> Any:
        self._check(value)
        if self._are_usual([value]):
            return self.to_wire([value])[0]
        names, kind = None, 0
        if isinstance(value, Row):
            form, names, kind = _ROW, value._fields, value._row_kind.value
            fields = value._values
            if names is not None and self._names is not None and set(names) == set(self._names):
                # Names decide over positions, so each value meets the serializer of its own field.
                fields, names = value.get_fields_by_names(self._names), self._names
        elif isinstance(value, dict):
            assert self._names is not None
            form, fields = _DICT, [value[name] for name in self._names]
        else:
            form, fields = (_TUPLE if isinstance(value, tuple) else _LIST), list(value)
        (wire,) = self._fields_to_wire([tuple(fields)])
        return msgspec.msgpack.Ext(FORM, encode_body([form, kind, names, wire], "a value"))

    def from_wire(self, items: Column) -> Column:
        raw = [item.values if type(item) is Form else item for item in items]
        fields = iter(self._fields_from_wire([item for item in raw if item is not None]))
        return [None if item is None else self._value(next(fields), item) for item in items]

    def _fields_from_wire(self, items: Column) -> Column:
        if not items or not self._count:
            return items
        columns = [list(column) for column in zip(*items, strict=True)]
        read = [
            field.from_wire(column) for field, column in zip(self._fields, columns, strict=True)
        ]
        if all(one is column for one, column in zip(read, columns, strict=True)):
            return items
        return list(zip(*read, strict=True))

    def _value(self, fields: Sequence[Any], item: Any) -> Any:
        if type(item) is not Form:
            return tuple(fields) if self._names is None else Row.of_names(self._names, fields)
        if item.form == _TUPLE:
            return tuple(fields)
        if item.form == _LIST:
            return list(fields)
        if item.form == _DICT:
            assert self._names is not None
            return dict(zip(self._names, fields, strict=True))
        row = Row(*fields)
        if item.names is not None:
            row.set_field_names(item.names)
        row.set_row_kind(RowKind(item.kind))
        return row


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


@functools.lru_cache(256)
def serializer_of(schema: str) -> Serializer:
    """Returns the serializer of a type by its text, which holds no PICKLED.

    Raises:
        StateError: It is not known.
    """
    if schema == PLAIN:
        return _PlainSerializer(Types.PICKLED_BYTE_ARRAY())
    return _made(parse_schema(schema))


@functools.lru_cache(256)
def table_serializer(kind: str, schema: str) -> Serializer | None:
    """Returns what writes the values, list elements or map values of a table; None for pickle.

    Args:
        kind: Of the table: `value`, `list` or `map`.
        schema: Type of the whole state as text, such as `LIST(LONG)`.

    Raises:
        StateError: The type is not known, or does not belong to such a table.
    """
    if schema == PLAIN:
        return serializer_of(PLAIN)
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


def _made(declared: TypeInformation) -> Serializer:  # noqa: PLR0911 - one branch per family
    basic = basic_type_of(declared)
    if basic in _ATOMS:
        usual, convert = _ATOMS[basic]
        return _AtomSerializer(declared, usual, convert)
    if basic is BasicType.BIG_DEC:
        return _TextSerializer(declared, str, decimal.Decimal)
    if basic is BasicType.INSTANT:
        return _TextSerializer(declared, _write_instant, _read_instant)
    if type(declared) in _TEXTS:
        return _TextSerializer(declared, *_TEXTS[type(declared)])
    if isinstance(declared, PrimitiveArrayTypeInfo) and declared._is_bytes:
        return _BytesSerializer(declared)
    if isinstance(declared, LISTS):
        return _ListSerializer(declared, _made(declared.element_type))
    if isinstance(declared, MapTypeInfo):
        return _MapSerializer(declared, _made(declared.key_type), _made(declared.value_type))
    assert isinstance(declared, RowTypeInfo | TupleTypeInfo), declared
    return _FieldsSerializer(declared, [_made(field) for field in declared.get_field_types()])
