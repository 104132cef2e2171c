"""Rows and tuples as data: an array of their fields, column by column.

A value that is of another form than its type says (a tuple where a row is declared, a row with
other names or of another kind) is kept in the form that it has, as extension 7.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.row import Row, RowKind
from penstock.core.types import RowTypeInfo
from penstock.state.plain_values import encode_body, register_reader
from penstock.state.value_codec import Column, ValueCodec, mismatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.types import TupleTypeInfo

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


class FieldsCodec(ValueCodec):
    """Rows or tuples."""

    def __init__(self, declared: RowTypeInfo | TupleTypeInfo, fields: Sequence[ValueCodec]) -> None:
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
        wrong = self.declared.mismatch(value)
        if wrong is not None:
            raise mismatched(self.declared, value, wrong)
        if self._are_usual([value]):
            return self.to_wire([value])[0]
        names, kind = None, 0
        if isinstance(value, Row):
            form, names, kind = _ROW, value._fields, value._row_kind.value
            fields = value._values
            if names is not None and self._names is not None and set(names) == set(self._names):
                # Names decide over positions, so each value meets the codec of its own field.
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
