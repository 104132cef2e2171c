"""Changes the type of stored state when the program declares another type for it.

    as is         the types are equal, or one of them is undeclared
    migrated      a number became wider (BYTE < SHORT < INT < LONG < BIG_INT, FLOAT < DOUBLE, whole
                  numbers up to INT into DOUBLE, any whole number into BIG_DEC), CHAR became STRING,
                  a named row gained fields (None) or lost some, in any order
    incompatible  anything else

A row that loses one field and gains another of the same type looks like a renaming, which would
lose data in silence: it is refused. `StateDescriptor.set_migration` takes a function for changes
that these rules cannot know. Keys, also those of maps, never change their type.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.core.basic_types import BasicType
from penstock.core.errors import StateError
from penstock.core.row import Row
from penstock.core.times import format_millis, to_millis
from penstock.core.types import (
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.state.plain_serializer import Pickles, refusal
from penstock.state.schema import LISTS, PLAIN, basic_type_of, is_data, parse_schema, schema_text
from penstock.state.tables import keeping_times, retimed

if TYPE_CHECKING:
    from penstock.state.descriptors import StateDescriptor
    from penstock.state.payload import TableColumns
    from penstock.state.tables import Conversion, Table

_Change = Callable[[Any], Any]


class Verdict(Enum):
    """Whether one state can have another type."""

    AS_IS = "as is"
    MIGRATED = "migrated"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Evolution:
    """The way from one type of a state to another.

    Attributes:
        verdict: Whether the type can change.
        text: What changes, or why it cannot; "" if nothing does.
        convert: Turns values (list elements, map values) into the new ones.
    """

    verdict: Verdict
    text: str
    convert: Conversion


class _Incompatible(Exception):
    """Why two types do not fit."""


def _unchanged(values: list[Any]) -> list[Any]:
    return values


def evolve(
    kind: str, before: str, after: str, migration: Callable[[Any], Any] | None = None
) -> Evolution:
    """Returns how state of the type `before` changes when a program declares `after`.

    Args:
        kind: Kind of the table: `value`, `list` or `map`.
        before: Type in the snapshot; "" when it was not declared.
        after: Type in the program; "" when it is not declared.
        migration: A function of the user for one value, list element or map value.
    """
    if before == after:
        return Evolution(Verdict.AS_IS, "", _unchanged)
    if migration is not None:
        said = "by the function given to set_migration()"
        return Evolution(Verdict.MIGRATED, said, _of_each(migration))
    if PLAIN in {before, after} or not (is_data(before) and is_data(after)):
        return Evolution(Verdict.AS_IS, _undeclared(before, after), _unchanged)
    try:
        notes: list[str] = []
        change = _top_change(kind, parse_schema(before), parse_schema(after), notes)
    except _Incompatible as reason:
        return Evolution(Verdict.INCOMPATIBLE, str(reason), _unchanged)
    convert = _unchanged if change is None else _of_each(change)
    return Evolution(Verdict.MIGRATED, "; ".join(notes), convert)


def _of_each(change: _Change) -> Conversion:
    return lambda values: [None if value is None else change(value) for value in values]


def checked_evolution(  # noqa: PLR0913 - who, what, and both types
    kind: str,
    before: str,
    after: str,
    migration: Callable[[Any], Any] | None,
    *,
    name: str,
    uid: str,
) -> Evolution:
    """Returns `evolve`.

    Raises:
        StateError: The types are incompatible.
    """
    evolution = evolve(kind, before, after, migration)
    if evolution.verdict is Verdict.INCOMPATIBLE:
        raise StateError(incompatible_text(name, uid, before, after, evolution.text))
    return evolution


def incompatible_text(name: str, uid: str, before: str, after: str, why: str) -> str:
    """Returns the sentence about a state that cannot be restored."""
    return (
        f"state {name!r} of operator {uid!r} is {before} in the snapshot and {after} in the "
        f"program: {why}. Declare the old type again, give the state another name, or give its "
        "descriptor a function with set_migration()."
    )


def _undeclared(before: str, after: str) -> str:
    where = "program" if before and not after else "snapshot"
    return f"the type is not declared in the {where}: values are taken as they are"


def _top_change(
    kind: str, before: TypeInformation, after: TypeInformation, notes: list[str]
) -> _Change | None:
    """Compares the elements of list state and the values of map state, without their container."""
    if kind == "list" and isinstance(before, ListTypeInfo) and isinstance(after, ListTypeInfo):
        return _change(before.element_type, after.element_type, "an element", notes)
    if kind == "map" and isinstance(before, MapTypeInfo) and isinstance(after, MapTypeInfo):
        _check_map_keys(before, after)
        return _change(before.value_type, after.value_type, "a map value", notes)
    return _change(before, after, "the value", notes)


def _check_map_keys(before: MapTypeInfo, after: MapTypeInfo) -> None:
    if before.key_type != after.key_type:
        raise _Incompatible(
            f"map keys were {schema_text(before.key_type)} and would be "
            f"{schema_text(after.key_type)}; types of keys cannot change"
        )


def _change(  # noqa: PLR0911 - one branch per family
    before: TypeInformation, after: TypeInformation, where: str, notes: list[str]
) -> _Change | None:
    """Returns what turns a value into one of the new type; None if it is one already."""
    if schema_text(before) == schema_text(after):
        return None
    if isinstance(before, RowTypeInfo) and isinstance(after, RowTypeInfo):
        return _row_change(before, after, where, notes)
    if isinstance(before, TupleTypeInfo) and isinstance(after, TupleTypeInfo):
        return _tuple_change(before, after, where, notes)
    if isinstance(before, MapTypeInfo) and isinstance(after, MapTypeInfo):
        _check_map_keys(before, after)
        inner = _change(before.value_type, after.value_type, f"a map value in {where}", notes)
        if inner is None:
            return None
        return lambda value: {key: _if_there(inner, item) for key, item in value.items()}
    if isinstance(before, LISTS) and isinstance(after, LISTS):
        inner = _change(before.element_type, after.element_type, f"an element of {where}", notes)
        if inner is None:
            return None
        return lambda value: [_if_there(inner, item) for item in value]
    return _basic_change(before, after, where, notes)


_WHOLE: Final = (
    BasicType.BYTE,
    BasicType.SHORT,
    BasicType.INT,
    BasicType.LONG,
    BasicType.BIG_INT,
)
_SAME_IN_PYTHON: Final = {
    (BasicType.FLOAT, BasicType.DOUBLE),
    (BasicType.CHAR, BasicType.STRING),
}


def _if_there(change: _Change | None, value: Any) -> Any:
    return value if value is None or change is None else change(value)


def _basic_change(
    before: TypeInformation, after: TypeInformation, where: str, notes: list[str]
) -> _Change | None:
    old, new = basic_type_of(before), basic_type_of(after)
    change: _Change | None = None
    if (old, new) in _SAME_IN_PYTHON or (
        old in _WHOLE and new in _WHOLE and _WHOLE.index(old) < _WHOLE.index(new)
    ):
        pass
    elif (new is BasicType.DOUBLE and old in _WHOLE[:3]) or (
        new is BasicType.FLOAT and old in _WHOLE[:2]
    ):
        change = float
    elif new is BasicType.BIG_DEC and old in _WHOLE:
        change = decimal.Decimal
    else:
        raise _Incompatible(
            f"{where} cannot be turned from {schema_text(before)} into {schema_text(after)} "
            "without loss"
        )
    notes.append(f"{where} is widened from {schema_text(before)} to {schema_text(after)}")
    return change


def _tuple_change(
    before: TupleTypeInfo, after: TupleTypeInfo, where: str, notes: list[str]
) -> _Change | None:
    olds, news = before.get_field_types(), after.get_field_types()
    if len(olds) != len(news):
        raise _Incompatible(
            f"{where} is a tuple of {len(olds)} fields and would be one of {len(news)}; tuples "
            "have no names by which fields could be matched"
        )
    changes = [
        _change(old, new, f"field {position} of {where}", notes)
        for position, (old, new) in enumerate(zip(olds, news, strict=True))
    ]
    if not any(changes):
        return None
    return lambda value: type(value)(
        [_if_there(change, item) for change, item in zip(changes, value, strict=True)]
    )


def _row_change(
    before: RowTypeInfo, after: RowTypeInfo, where: str, notes: list[str]
) -> _Change | None:
    olds = dict(zip(before.get_field_names(), before.get_field_types(), strict=True))
    news = dict(zip(after.get_field_names(), after.get_field_types(), strict=True))
    added = [name for name in news if name not in olds]
    removed = [name for name in olds if name not in news]
    _refuse_renaming(olds, news, added, removed, where)
    changes = {
        name: _change(olds[name], new, f"field '{name}' of {where}", notes)
        for name, new in news.items()
        if name in olds
    }
    notes += [f"field '{name}' of {where} is new, and None" for name in added]
    notes += [f"field '{name}' of {where} is dropped" for name in removed]
    if list(olds) == list(news) and not any(changes.values()):
        return None
    return _RowChange(tuple(olds), tuple(news), changes)


def _refuse_renaming(
    olds: dict[str, Any], news: dict[str, Any], added: list[str], removed: list[str], where: str
) -> None:
    for old in removed:
        for new in added:
            if schema_text(olds[old]) == schema_text(news[new]):
                raise _Incompatible(
                    f"in {where} the field '{old}' is gone and '{new}' of the same type is new; "
                    "if it was renamed, its values would be lost"
                )


class _RowChange:
    """Makes rows of the new fields; a tuple, list or dict stays what it is."""

    def __init__(
        self, olds: tuple[str, ...], news: tuple[str, ...], changes: dict[str, _Change | None]
    ) -> None:
        self._olds = olds
        self._news = news
        self._changes = changes

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            by_name = value
        elif isinstance(value, Row) and value._fields is not None:
            by_name = value.as_dict()
        else:
            by_name = dict(zip(self._olds, value, strict=True))
        fields = [self._field(name, by_name) for name in self._news]
        if isinstance(value, dict):
            return dict(zip(self._news, fields, strict=True))
        if not isinstance(value, Row):
            return type(value)(fields)
        row = Row(*fields)
        if value._fields is not None:
            row.set_field_names(self._news)
        row.set_row_kind(value.get_row_kind())
        return row

    def _field(self, name: str, by_name: dict[str, Any]) -> Any:
        return _if_there(self._changes.get(name), by_name.get(name))


_TABLE_KINDS: Final = {
    "reducing": "value",
    "aggregating": "value",
    "operator-list": "list",
    "operator-union": "list",
    "operator-broadcast": "map",
}
DATA: Final = "msgpack"
PICKLE: Final = "pickle"


@dataclass(frozen=True, slots=True)
class StateFacts:
    """One state of an operator.

    Attributes:
        name: As in its descriptor.
        kind: `value`, `list`, `map`, `reducing`, `aggregating`, `operator-list`, `operator-union`
            or `operator-broadcast`.
        schema: Type as text, "" when none is declared.
        ttl: Time to live as text, "" without one.
        is_described: The program has a descriptor for it; False for what operators keep for
            themselves, and for state of a snapshot that the program does not use.
        migrates: Its descriptor has a function for values of another type.
    """

    name: str
    kind: str
    schema: str = ""
    ttl: str = ""
    is_described: bool = True
    migrates: bool = False

    @property
    def codec(self) -> str:
        """How values are written."""
        return codec_name(self.schema)

    @property
    def table_kind(self) -> str:
        """The kind of the table that holds it."""
        return table_kind(self.kind)


def table_kind(kind: str) -> str:
    """Returns `value`, `list` or `map` for a kind of state."""
    return _TABLE_KINDS.get(kind, kind)


def codec_name(schema: str) -> str:
    """Returns how values of a type are written."""
    return DATA if schema == PLAIN or is_data(schema) else PICKLE


class DeclaredTypes:
    """Descriptors by name of the state."""

    def __init__(self, uid: str, pickles: Pickles) -> None:
        self._uid = uid
        self._pickles = pickles
        self._descriptors: dict[str, StateDescriptor] = {}

    def add(self, name: str, descriptor: StateDescriptor) -> None:
        """Adds a descriptor.

        Raises:
            StateError: It declares no type where nothing may be pickled.
        """
        if self._pickles is Pickles.REFUSE and not is_data(descriptor.schema):
            raise refusal(f"state {name!r} of operator {self._uid!r} has no declared type")
        self._descriptors[name] = descriptor

    def is_known(self, name: str) -> bool:
        """Returns whether the program has described a state."""
        return name in self._descriptors

    def settle(self, table: Table) -> None:
        """Gives a new table the type of what operators keep for themselves, without descriptors."""
        if self._pickles is Pickles.REFUSE and not table.schema:
            table.schema = PLAIN

    def conversion(self, name: str, kind: str, before: str, after: str) -> Conversion:
        """Returns what turns stored values of a state into those of another type.

        Raises:
            StateError: The types are incompatible.
        """
        descriptor = self._descriptors.get(name)
        migration = None if descriptor is None else descriptor.migration
        evolution = checked_evolution(kind, before, after, migration, name=name, uid=self._uid)
        return evolution.convert

    def check_kind(self, name: str, in_program: str, in_snapshot: str) -> None:
        """Checks that a stored state is of the kind that the program says.

        Raises:
            StateError: It is not.
        """
        if in_program != in_snapshot:
            raise StateError(
                f"state {name!r} of operator {self._uid!r} is {in_program} state in the program "
                f"and {in_snapshot} state in the snapshot. Give it another name in the program, or "
                "change it back."
            )

    def adaptation(
        self, stored: Table | TableColumns, table: Table, now_ms: int
    ) -> Conversion | None:
        """Returns what brings stored values into the form of a table; None if they have it."""
        changes: list[Conversion] = []
        if stored.schema != table.schema:
            change = self.conversion(stored.name, stored.kind, stored.schema, table.schema)
            changes.append(keeping_times(change, timed=stored.timed))
        if stored.timed is not table.timed:
            changes.append(retimed(to_timed=table.timed, now_ms=now_ms))
        if not changes:
            return None
        return lambda values: functools.reduce(lambda each, change: change(each), changes, values)

    def facts_of(self, name: str, kind: str, schema: str) -> StateFacts:
        """Describes a state that is in no table."""
        descriptor = self._descriptors.get(name)
        migrates = descriptor is not None and descriptor.migration is not None
        return StateFacts(
            name, kind, schema, is_described=descriptor is not None, migrates=migrates
        )

    def facts_of_table(self, table: Table) -> StateFacts:
        """Describes a table."""
        descriptor = self._descriptors.get(table.name)
        if descriptor is None:
            # The operator's own, or of a snapshot and in no use.
            ttl = "unknown" if table.timed else ""
            return StateFacts(table.name, table.kind, table.schema, ttl, is_described=False)
        ttl = "" if descriptor.ttl is None else format_millis(to_millis(descriptor.ttl.get_ttl()))
        migrates = descriptor.migration is not None
        kind, schema = descriptor.kind, descriptor.schema
        return StateFacts(table.name, kind, schema, ttl, migrates=migrates)
