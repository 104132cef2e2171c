"""What a state is: as a snapshot describes it, and as the program declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.duration import format_millis, to_millis
from penstock.core.errors import StateError
from penstock.state.evolution import checked_evolution
from penstock.state.pickles import Pickles, refusal
from penstock.state.schema import PLAIN, is_data
from penstock.state.ttl import convert_columns, converted_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.state.descriptors import StateDescriptor
    from penstock.state.payload import TableColumns
    from penstock.state.tables import Columns, Conversion, Table


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

    def adapted(self, part: TableColumns, table: Table, now_ms: int) -> Columns:
        """Returns stored columns in the form that the program declares."""
        columns = part.columns
        if part.schema != table.schema:
            conversion = self.conversion(part.name, part.kind, part.schema, table.schema)
            columns = converted_columns(part.kind, columns, conversion, timed=part.timed)
        if part.timed is table.timed:
            return columns
        return convert_columns(part.kind, columns, to_timed=table.timed, now_ms=now_ms)

    def facts_of(self, name: str, kind: str, schema: str) -> StateFacts:
        """Describes a state that is in no table."""
        descriptor = self._descriptors.get(name)
        migrates = descriptor is not None and descriptor.migration is not None
        return StateFacts(
            name, kind, schema, is_described=descriptor is not None, migrates=migrates
        )

    def facts(self, tables: Iterable[Table]) -> tuple[StateFacts, ...]:
        """Describes each table."""
        return tuple(map(self._facts_of_table, tables))

    def _facts_of_table(self, table: Table) -> StateFacts:
        descriptor = self._descriptors.get(table.name)
        if descriptor is None:
            # The operator's own, or of a snapshot and in no use.
            ttl = "unknown" if table.timed else ""
            return StateFacts(table.name, table.kind, table.schema, ttl, is_described=False)
        ttl = "" if descriptor.ttl is None else format_millis(to_millis(descriptor.ttl.get_ttl()))
        migrates = descriptor.migration is not None
        kind, schema = descriptor.kind, descriptor.schema
        return StateFacts(table.name, kind, schema, ttl, migrates=migrates)
