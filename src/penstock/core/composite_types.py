"""Types of values that hold other values: rows, tuples, lists, maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, eq
from typing import Any, ClassVar, Final

from penstock.core.basic_types import BasicType, BasicTypeInfo, Converter, TypeInformation
from penstock.core.errors import ProgramError
from penstock.core.row import Row


class _ElementsTypeInfo(TypeInformation):
    """Base of lists and arrays."""

    name: ClassVar[str] = ""
    accepted: ClassVar[tuple[Any, ...]] = (list, tuple)

    def __init__(self, element_type: TypeInformation) -> None:
        self.element_type = checked_type(element_type, self.name)

    def mismatch(self, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, self.accepted):
            return self._wrong(value)
        return self.element_type.mismatch(value[0]) if len(value) else None

    def adopted(self, value: Any) -> Any:
        if not isinstance(value, self.accepted) or isinstance(value, bytes):
            return value
        return [self.element_type.adopted(item) for item in value]

    def converter(self) -> Converter | None:
        convert = self.element_type.converter()
        if convert is None:
            return _to_list

        def convert_all(value: Any) -> Any:
            return value if value is None else [convert(item) for item in value]

        return convert_all

    def _parts(self) -> tuple[Any, ...]:
        return (self.element_type,)

    def __repr__(self) -> str:
        return f"{self.name}({self.element_type!r})"

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.element_type}>"


def _to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class PrimitiveArrayTypeInfo(_ElementsTypeInfo):
    """An array of numbers or booleans; of bytes it is a `bytes`."""

    name = "PRIMITIVE_ARRAY"

    def mismatch(self, value: Any) -> str | None:
        if self._is_bytes and isinstance(value, bytes | bytearray):
            return None
        return super().mismatch(value)

    def converter(self) -> Converter | None:
        return None if self._is_bytes else super().converter()

    @property
    def _is_bytes(self) -> bool:
        return self.element_type == BasicTypeInfo(BasicType.BYTE)


class BasicArrayTypeInfo(_ElementsTypeInfo):
    """An array of basic values, each of which may be None."""

    name = "BASIC_ARRAY"


class ObjectArrayTypeInfo(_ElementsTypeInfo):
    """An array of anything."""

    name = "OBJECT_ARRAY"


class ListTypeInfo(_ElementsTypeInfo):
    """A list."""

    name = "LIST"


class MapTypeInfo(TypeInformation):
    """A dict."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type = checked_type(key_type_info, "MAP")
        self.value_type = checked_type(value_type_info, "MAP")

    def mismatch(self, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            return self._wrong(value)
        for key, item in value.items():
            return self.key_type.mismatch(key) or self.value_type.mismatch(item)
        return None

    def adopted(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        key, item = self.key_type.adopted, self.value_type.adopted
        return {key(each): item(content) for each, content in value.items()}

    def converter(self) -> Converter | None:
        of_key, of_value = self.key_type.converter(), self.value_type.converter()
        if of_key is None and of_value is None:
            return None

        def convert(value: Any) -> Any:
            if value is None:
                return None
            return {
                of_key(key) if of_key else key: of_value(item) if of_value else item
                for key, item in value.items()
            }

        return convert

    def _parts(self) -> tuple[Any, ...]:
        return self.key_type, self.value_type

    def __repr__(self) -> str:
        return f"MAP({self.key_type!r}, {self.value_type!r})"

    def __str__(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"


class _FieldsTypeInfo(TypeInformation):
    """Base of rows and tuples."""

    name: ClassVar[str] = ""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = [checked_type(field, self.name) for field in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def mismatch(self, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, Row | tuple | list):
            return self._wrong(value)
        if len(value) != len(self._field_types):
            return self._wrong(value, f", which has {len(value)} fields")
        for position, (field, item) in enumerate(zip(self._field_types, value, strict=True)):
            wrong = field.mismatch(item)
            if wrong:
                return f"field {self._field_label(position)}: {wrong}"
        return None

    def convert_all(self, values: list[Any]) -> list[Any]:
        count = len(self._field_types)
        sized = values if set(map(type, values)) <= _SIZED else [v for v in values if is_sized(v)]
        # Lengths are checked for all records, since a row with a field too few or too many would
        # only be found far downstream.
        if {len(value) for value in sized} - {count}:
            wrong = next(v for v in sized if len(v) != count)
            raise ProgramError(self._wrong(wrong, f", which has {len(wrong)} fields"))
        return super().convert_all(values)

    def adopted(self, value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(self._field_types):
            return value
        pairs = zip(self._field_types, value, strict=True)
        return tuple(field.adopted(item) for field, item in pairs)

    def _field_label(self, position: int) -> str:
        return str(position)

    def _field_converter(self) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
        """Returns what converts the fields; None when no field needs it."""
        converters = [field.converter() for field in self._field_types]
        if not any(converters):
            return None

        def convert(values: Sequence[Any]) -> Sequence[Any]:
            return [
                item if function is None else function(item)
                for function, item in zip(converters, values, strict=True)
            ]

        return convert

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        return f"{self.name}({self._field_types!r})"

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._field_types))})"


class RowTypeInfo(_FieldsTypeInfo):
    """A `Row`; fields without names are called f0, f1 and so on."""

    name = "ROW"

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        super().__init__(field_types)
        if field_names is None:
            field_names = [f"f{position}" for position in range(len(self._field_types))]
            self.is_named = False
        else:
            self.is_named = True
        if len(field_names) != len(self._field_types) or len(set(field_names)) != len(field_names):
            raise ProgramError(
                f"ROW_NAMED got the names {list(field_names)} for {len(self._field_types)} types; "
                "each field needs one name of its own."
            )
        self._field_names = tuple(field_names)

    def get_field_names(self) -> list[str]:
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of a field, or -1."""
        names = self._field_names
        return names.index(field_name) if field_name in names else -1

    def mismatch(self, value: Any) -> str | None:
        if isinstance(value, dict):
            missing = [name for name in self._field_names if name not in value]
            if missing:
                return self._wrong(value, f", which lacks {', '.join(missing)}")
            value = [value[name] for name in self._field_names]
        if isinstance(value, Row) and value._fields and value._fields != self._field_names:
            missing = [name for name in self._field_names if name not in value._fields]
            if missing and self.is_named:
                return self._wrong(value, f", which lacks {', '.join(missing)}")
            if not missing:
                value = value.get_fields_by_names(self._field_names)
        elif _is_object(value):
            missing = [name for name in self._field_names if not hasattr(value, name)]
            if missing:
                return self._wrong(value, f", which lacks {', '.join(missing)}")
            value = [getattr(value, name) for name in self._field_names]
        return super().mismatch(value)

    def adopted(self, value: Any) -> Any:
        names = self._field_names
        fields: Any = value
        if isinstance(value, Row):
            is_named = value._fields is not None and set(names).issuperset(value._fields)
            fields = list(value.get_fields_by_names(names) if is_named else value)
        elif isinstance(value, dict) and set(names) <= set(value):
            fields = [value[name] for name in names]
        elif _is_object(value) and all(hasattr(value, name) for name in names):
            fields = [getattr(value, name) for name in names]
        adopted = super().adopted(fields)
        if adopted is fields or not isinstance(value, Row):
            return value if adopted is fields else adopted
        row = Row.of_names(names, adopted)
        row.set_row_kind(value.get_row_kind())
        return row

    def convert_all(self, values: list[Any]) -> list[Any]:
        if (
            set(map(type, values)) == {Row}
            and all(map(eq, map(_NAMES_OF, values), repeat(self._field_names)))
            and self._field_converter() is None
        ):
            return values
        return super().convert_all(values)

    def converter(self) -> Converter | None:
        names = self._field_names
        of_fields = self._field_converter()
        of_names = Row.of_names
        known = frozenset(names)

        def convert(value: Any) -> Any:
            if value.__class__ is Row:
                given = value._fields
                if given == names and of_fields is None:
                    return value
                # Names decide over positions, unless they are other names altogether.
                values = value._values
                if given is not None and given != names and known.issuperset(given):
                    values = value.get_fields_by_names(names)
                row = of_names(names, values if of_fields is None else of_fields(values))
                row._row_kind = value._row_kind
                return row
            if value is None:
                return None
            values = value
            if isinstance(value, dict):
                values = [value[name] for name in names]
            elif not isinstance(value, tuple | list | Row):
                values = [getattr(value, name) for name in names]
            return of_names(names, values if of_fields is None else of_fields(values))

        return convert

    def _field_label(self, position: int) -> str:
        return f"'{self._field_names[position]}'"

    def _parts(self) -> tuple[Any, ...]:
        return (*self._field_types, *self._field_names)

    def __repr__(self) -> str:
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"ROW({', '.join(f'{name} {field!r}' for name, field in pairs)})"

    def __str__(self) -> str:
        if not self.is_named:
            return super().__str__()
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field}' for name, field in pairs)})"


class TupleTypeInfo(_FieldsTypeInfo):
    """A tuple."""

    name = "TUPLE"

    @property
    def is_immutable(self) -> bool:
        return all(field.is_immutable for field in self._field_types)

    def convert_all(self, values: list[Any]) -> list[Any]:
        if self._field_converter() is None and set(map(type, values)) == {tuple}:
            return values
        return super().convert_all(values)

    def converter(self) -> Converter | None:
        of_fields = self._field_converter()

        def convert(value: Any) -> Any:
            if of_fields is None:
                return value if value is None or value.__class__ is tuple else tuple(value)
            return value if value is None else tuple(of_fields(value))

        return convert


_NAMES_OF: Final = attrgetter("_fields")
_SIZED: Final = frozenset((tuple, list, Row, dict))


def is_sized(value: Any) -> bool:
    """Whether a record's fields are its items, and not its attributes."""
    return isinstance(value, tuple | list | Row | dict)


def _is_object(value: Any) -> bool:
    """Whether a record's fields are its attributes, as those of an object of a class are."""
    return hasattr(value, "__dict__") or dataclasses.is_dataclass(value)


def checked_type(given: Any, where: str) -> TypeInformation:
    """Returns a declared type; a list of types stands for a row, as in PyFlink.

    Raises:
        ProgramError: It is no type.
    """
    if isinstance(given, TypeInformation):
        return given
    if isinstance(given, list | tuple):
        return RowTypeInfo(given)
    hint = ""
    if callable(given) and getattr(given, "__qualname__", "").startswith("Types."):
        hint = f" The brackets are missing: write {given.__qualname__}()."
    raise ProgramError(
        f"{where} takes a TypeInformation such as Types.STRING(), but got {given!r}.{hint}"
    )
