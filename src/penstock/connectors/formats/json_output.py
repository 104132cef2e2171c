"""Rows written as JSON objects: plain columns as they are, others by a function of their type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec

from penstock.connectors.formats.fields import (
    Convert,
    RowSerializationSchema,
    bits_of,
    element_of,
    kind_of,
    row_type,
    shortest_single,
    single,
)
from penstock.connectors.formats.json_rows import encode, message_shape
from penstock.core.basic_types import (
    BasicType,
    DateTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.core.composite_types import MapTypeInfo, RowTypeInfo


class JsonRowSerializationSchema(RowSerializationSchema):
    """Makes JSON objects of rows; made by `JsonRowSerializationSchema.builder()`."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        names = type_info.get_field_names()
        self._columns = list(map(_column_writer, type_info.get_field_types()))
        self._shape = message_shape([(f"f{at}", Any) for at in range(len(names))], names)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self._type_info,)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begins a schema.

        Example:
            >>> names_and_ages = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
            >>> builder = JsonRowSerializationSchema.builder().with_type_info(names_and_ages)
            >>> builder.build().serialize(Row("Ann", 31))
            b'{"name":"Ann","age":31}'
        """
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds a `JsonRowSerializationSchema`; the type of the rows is needed."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> Self:
            """Sets the rows; their names are those of the JSON object."""
            self._type_info = row_type(type_info, "JsonRowSerializationSchema")
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Returns the schema."""
            return JsonRowSerializationSchema(
                row_type(self._type_info, "JsonRowSerializationSchema")
            )

    def serialize_all(self, elements: list[Any]) -> list[Any]:
        return super().serialize_all(elements) if self._columns else [b"{}"] * len(elements)

    def encoded(self, columns: list[list[Any]]) -> list[bytes]:
        # No rows are no columns.
        written = [write(each) for write, each in zip(self._columns, columns, strict=False)]
        return list(map(encode, map(self._shape, *written))) if written else []


_NONE: Final = type(None)


def _column_writer(type_info: TypeInformation) -> Callable[[list[Any]], list[Any]]:
    """Returns what makes plain values of a column; one that has only such is left as it is."""
    kind, write = kind_of(type_info), _writer(type_info)
    plain: frozenset[type] = frozenset()
    if kind in (BasicType.STRING, BasicType.CHAR):
        plain = frozenset((str, _NONE))
    elif kind is BasicType.BOOLEAN:
        plain = frozenset((bool, _NONE))
    elif bits_of(type_info) is not None:
        plain = frozenset((int, _NONE))
    elif kind is BasicType.DOUBLE:
        return lambda values: (
            values
            if set(map(type, values)) == {float} and math.isfinite(sum(values))
            else list(map(write, values))
        )
    return lambda values: (
        values if plain.issuperset(map(type, values)) else list(map(write, values))
    )


def _writer(type_info: TypeInformation) -> Convert:
    write = _written_value(type_info)

    def nullable(value: Any) -> Any:
        if value is None:
            return None
        wrong = type_info.mismatch(value)
        if wrong:
            raise ValueError(wrong)
        return write(value)

    return nullable


def _written_value(type_info: TypeInformation) -> Convert:
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        writers = list(map(_writer, type_info.get_field_types()))
        convert = type_info.converter()
        assert convert is not None
        return lambda value: {
            name: write(field)
            for name, write, field in zip(names, writers, convert(value), strict=True)
        }
    if isinstance(type_info, MapTypeInfo):
        of_value = _writer(type_info.value_type)
        return lambda value: {str(key): of_value(each) for key, each in value.items()}
    element = element_of(type_info)
    if element is not None:
        of_element = _writer(element)
        return lambda value: [of_element(each) for each in value]
    if isinstance(type_info, TimestampTypeInfo | TimeTypeInfo):
        return lambda value: f"{value.replace(tzinfo=None).isoformat()}Z"
    if isinstance(type_info, DateTypeInfo):
        return lambda value: value.strftime("%Y-%m-%d")
    return _WRITERS.get(kind_of(type_info), lambda value: value)


def _finite(number: float) -> Any:
    """Returns a number; as text what is none in JSON, as Jackson does."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


_WRITERS: Final[dict[BasicType | None, Convert]] = {
    BasicType.FLOAT: lambda value: _finite(
        shortest_single(single(value)) if math.isfinite(value) else value
    ),
    BasicType.DOUBLE: lambda value: _finite(float(value)),
    BasicType.BOOLEAN: bool,
    BasicType.STRING: str,
    BasicType.BIG_INT: lambda value: msgspec.Raw(str(int(value)).encode()),
    **dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG), int),
}
