"""What a state is, in words: for the description of a snapshot and for checks before a restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.duration import format_millis
from penstock.state.schema import PLAIN, is_data
from penstock.state.ttl_config import milliseconds_of

if TYPE_CHECKING:
    from penstock.state.descriptors import StateDescriptor
    from penstock.state.tables import Table

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
            themselves, and for state of a snapshot that nobody has asked for.
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


def descriptor_facts(descriptor: StateDescriptor) -> StateFacts:
    """Returns the facts of a state as the program describes it."""
    ttl = descriptor.ttl
    text = "" if ttl is None else format_millis(milliseconds_of(ttl.get_ttl()))
    return StateFacts(
        descriptor.name,
        descriptor.kind,
        descriptor.schema,
        text,
        migrates=descriptor.migration is not None,
    )


def state_facts(table: Table, descriptor: StateDescriptor | None) -> StateFacts:
    """Returns the facts of a table; without a descriptor it is an operator's own, or unclaimed."""
    if descriptor is not None:
        return descriptor_facts(descriptor)
    ttl = "unknown" if table.timed else ""
    return StateFacts(table.name, table.kind, table.schema, ttl, is_described=False)
