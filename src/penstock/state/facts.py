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
    """

    name: str
    kind: str
    schema: str = ""
    ttl: str = ""

    @property
    def codec(self) -> str:
        """How values are written."""
        return codec_name(self.schema)

    @property
    def table_kind(self) -> str:
        """The kind of the table that holds it."""
        return {"reducing": "value", "aggregating": "value"}.get(self.kind, self.kind)


def codec_name(schema: str) -> str:
    """Returns how values of a type are written."""
    return DATA if schema == PLAIN or is_data(schema) else PICKLE


def descriptor_facts(descriptor: StateDescriptor) -> StateFacts:
    """Returns the facts of a state as the program describes it."""
    ttl = descriptor.ttl
    text = "" if ttl is None else format_millis(milliseconds_of(ttl.get_ttl()))
    return StateFacts(descriptor.name, descriptor.kind, descriptor.schema, text)


def state_facts(table: Table, descriptor: StateDescriptor | None) -> StateFacts:
    """Returns the facts of a table; without a descriptor it is an operator's own, or unclaimed."""
    if descriptor is not None:
        return descriptor_facts(descriptor)
    return StateFacts(table.name, table.kind, table.schema, "unknown" if table.timed else "")
