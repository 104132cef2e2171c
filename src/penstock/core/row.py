"""Row: a record with fields by position and, if it wants, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final

from penstock.core.errors import ProgramError


class RowKind(Enum):
    """What a row means in a stream of changes."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class Row:
    """Fields by position (`Row("Alice", 11)`) or by name (`Row(name="Alice", age=11)`).

    A row of names is a maker of rows: `Person = Row("name", "age")`, then `Person("Alice", 11)`.
    Rows are equal when their kind is and the same names hold the same values, in whatever order
    the names come.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ProgramError(
                    f"Row got {len(args)} values by position and {len(kwargs)} by name; a row has "
                    "either the one or the other."
                )
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Makes a row of a kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    @staticmethod
    def of_names(field_names: tuple[str, ...], values: Iterable[Any]) -> Row:
        """Makes a row of names and values; many rows may share one tuple of names."""
        row = _new(Row)
        row._values = list(values)
        row._fields = field_names
        row._row_kind = _INSERT
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Returns values by name, those of rows inside as well if `recursive`."""
        if self._fields is None:
            raise ProgramError(
                f"{self!r} has no field names, so it has no dict. Make it with names, for example "
                'Row(name="Alice"), or give them with set_field_names([...]).'
            )
        values = [_plain(value) for value in self._values] if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        if not isinstance(row_kind, RowKind):
            raise ProgramError(f"a row kind is a RowKind such as RowKind.INSERT, not {row_kind!r}.")
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Names the fields; as many names as values."""
        if len(field_names) != len(self._values):
            raise ProgramError(
                f"{len(field_names)} names {list(field_names)} were given to a row of "
                f"{len(self._values)} fields; each field needs exactly one."
            )
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Returns values in the order of `names`; all of them when the row has no names."""
        if self._fields is None or self._fields == tuple(names):
            return self._values
        return [self[name] for name in names]

    def _position(self, name: Any) -> int:
        if self._fields is not None and name in self._fields:
            return self._fields.index(name)
        names = "no names" if self._fields is None else f"the fields {', '.join(self._fields)}"
        raise KeyError(f"{name!r}: the row has {names}")

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int | slice):
            return self._values[item]
        return self._values[self._position(item)]

    def __setitem__(self, item: Any, value: Any) -> None:
        if isinstance(item, int | slice):
            self._values[item] = value
        else:
            self._values[self._position(item)] = value

    def __getattr__(self, name: str) -> Any:
        # Only called when there is no such attribute. Names with an underscore are never fields
        # here, so that copy and pickle can probe for their hooks on a half-made row.
        if not name.startswith("_"):
            try:
                return self._values[self._position(name)]
            except KeyError as error:
                raise AttributeError(str(error.args[0])) from None
        raise AttributeError(name)

    def __call__(self, *args: Any) -> Row:
        """Makes a row whose field names are this row's values."""
        if len(args) > len(self):
            raise ProgramError(f"{self!r} names {len(self)} fields, but got {len(args)} values.")
        return _restore_row(args, tuple(self._values[: len(args)]), self._row_kind.value)

    def __key_parts__(self) -> tuple[Any, ...]:
        """Returns what decides equality, for hashing of keys."""
        if self._fields is None:
            return self._row_kind.value, True, *self._values
        return self._row_kind.value, False, *sorted_fields(self._fields, self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        if self._fields is None or other._fields is None:
            return False
        return sorted_fields(self._fields, self._values) == sorted_fields(
            other._fields, other._values
        )

    def __hash__(self) -> int:
        return hash(self.__key_parts__())

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Frames hold many rows: what is usual is left out, and a tuple of names that rows share is
        # written once a frame.
        if self._row_kind is not RowKind.INSERT:
            return _restore_row, (tuple(self._values), self._fields, self._row_kind.value)
        if self._fields is not None:
            return _restore_row, (tuple(self._values), self._fields)
        return Row, tuple(self._values)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _restore_row(values: Iterable[Any], fields: tuple[str, ...] | None, kind: int = 0) -> Row:
    row = _new(Row)
    row._values = list(values)
    row._fields = fields
    row._row_kind = RowKind(kind) if kind else _INSERT
    return row


def rows_of(field_names: tuple[str, ...], values: Iterable[list[Any]]) -> list[Row]:
    """Makes rows of the same names; each keeps its list of values."""
    rows: list[Row] = []
    append = rows.append
    for each in values:
        row = _new(Row)
        row._values = each
        row._fields = field_names
        row._row_kind = _INSERT
        append(row)
    return rows


def copied_row(row: Row, copied: Callable[[list[Any]], list[Any]]) -> Row:
    """Returns a row like `row`, with its values as `copied` gives them."""
    made = _new(Row)
    made._values = copied(row._values)
    made._fields = row._fields
    made._row_kind = row._row_kind
    return made


_new: Final = Row.__new__
_INSERT: Final = RowKind.INSERT


def sorted_fields(fields: tuple[str, ...], values: list[Any]) -> tuple[tuple[str, Any], ...]:
    """Returns pairs of name and value by name; names are unique, so values are never compared."""
    return tuple((name, values[fields.index(name)]) for name in sorted(fields))


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
