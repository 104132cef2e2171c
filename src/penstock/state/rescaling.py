"""Copies state between key group ranges and between backends, entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.state.tables import ListTable, MapTable, ValueTable
from penstock.state.timed import convert_value

if TYPE_CHECKING:
    from penstock.state.keyed import KeyedState
    from penstock.state.tables import Row


def import_entries(target: KeyedState, other: KeyedState) -> None:
    """Adds the entries of `other` whose keys lie in the range of `target`."""
    owned: dict[Any, bool] = {}
    for row in other.entries():
        key = row[2]
        is_owned = owned.get(key)
        if is_owned is None:
            is_owned = owned[key] = target.context.owns(key)
        if is_owned:
            _import_row(target, row, timed=other.is_timed(row[0]))


def _import_row(target: KeyedState, row: Row, *, timed: bool) -> None:
    name, kind, key, ns, value = row
    if kind == "event_timer":
        target.event_timers.add(value, key, ns)
        return
    if kind == "processing_timer":
        target.processing_timers.add(value, key, ns)
        return
    table = target.table_for(name, kind, timed=timed)
    if table.timed is not timed:
        value = convert_value(kind, value, to_timed=table.timed, now_ms=target.clock.now_ms)
    if isinstance(table, MapTable):
        table.put(key, ns, *value)
    elif isinstance(table, ListTable):
        table.extend(key, ns, value)
    elif isinstance(table, ValueTable):
        table.put(key, ns, value)
