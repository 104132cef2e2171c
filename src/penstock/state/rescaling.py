"""Copies state between key group ranges and between backends, entry by entry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.core.errors import StateError
from penstock.state.plain_serializer import Pickles, is_hidden
from penstock.state.tables import ListTable, MapTable, Row, ValueTable
from penstock.state.ttl import changed_content, keeping_times, retimed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.core.handles import KeyedStateVersion
    from penstock.state.keyed import KeyedState


def import_versions(target: KeyedState, versions: Iterable[KeyedStateVersion]) -> None:
    """Adds what of versions of any range and backend lies in the range of `target`."""
    for version in versions:
        other = target.context.open_version(version, target.context)
        import_entries(target, other)
        other.close()


def import_version(
    target: KeyedState, version: KeyedStateVersion, *, unpickle: bool, without: Collection[str]
) -> None:
    """Adds what a version of any number of key groups holds, except some states.

    Raises:
        StateError: Part of it is pickled, and `unpickle` does not allow to read it.
    """
    pickles = Pickles.ALLOW if unpickle else Pickles.OPAQUE
    context = replace(target.context, pickles=pickles)
    other = context.open_version(version, context)
    import_entries(target, other, without)
    other.close()


def import_entries(target: KeyedState, other: KeyedState, without: Collection[str] = ()) -> None:
    """Adds the entries of `other` whose keys lie in the range of `target`."""
    hidden = other.context.pickles is Pickles.OPAQUE
    owned: dict[Any, bool] = {}
    for row in other.entries():
        if without and row[0] in without:
            continue
        key = row[2]
        if hidden and is_hidden(row[2:]):
            what = f"state {row[0]!r}" if row[0] else "a timer"
            raise StateError(f"{what} is pickled.")
        is_owned = owned.get(key)
        if is_owned is None:
            is_owned = owned[key] = target.context.owns(key)
        if is_owned:
            name = row[0]
            _import_row(target, row, timed=other.is_timed(name), schema=other.schema_of(name))


def _import_row(target: KeyedState, row: Row, *, timed: bool, schema: str) -> None:
    name, kind, key, ns, value = row
    if kind == "event_timer":
        target.event_timers.add(value, key, ns)
        return
    if kind == "processing_timer":
        target.processing_timers.add(value, key, ns)
        return
    table = target.table_for(name, kind, timed=timed, schema=schema)
    if table.schema != schema:
        change = keeping_times(target.conversion(name, kind, schema, table.schema), timed=timed)
        value = changed_content(kind, value, change)
    if table.timed is not timed:
        change = retimed(to_timed=table.timed, now_ms=target.clock.now_ms)
        value = changed_content(kind, value, change)
    if isinstance(table, MapTable):
        table.put(key, ns, *value)
    elif isinstance(table, ListTable):
        table.extend(key, ns, value)
    elif isinstance(table, ValueTable):
        table.put(key, ns, value)
