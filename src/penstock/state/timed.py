"""Entries with a time to live are stored as (value, last access); this turns TTL on and off.

A state may gain or lose its TTL between two runs. What was stored without one counts as accessed
when it is first seen with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.state.tables import Columns


def convert_value(kind: str, value: Any, *, to_timed: bool, now_ms: int) -> Any:
    """Converts the content of one row: a value, a chunk of a list, or a map entry."""
    if kind == "map":
        return value[0], convert_value("value", value[1], to_timed=to_timed, now_ms=now_ms)
    if kind == "list":
        if to_timed:
            return [(element, now_ms) for element in value]
        return [element for element, _ in value]
    return (value, now_ms) if to_timed else value[0]


def convert_columns(kind: str, columns: Columns, *, to_timed: bool, now_ms: int) -> Columns:
    """Converts the columns of a table."""

    def one(value: Any) -> Any:
        if value is None and kind == "value":
            return None
        return convert_value("value", value, to_timed=to_timed, now_ms=now_ms)

    if kind == "value":
        return [(ns, keys, list(map(one, values))) for ns, keys, values in columns]
    if kind == "list":
        return [
            (ns, keys, starts, [None if part is None else list(map(one, part)) for part in items])
            for ns, keys, starts, items in columns
        ]
    return [
        (ns, keys, cleared, map_keys, [list(map(one, part)) for part in values], removed)
        for ns, keys, cleared, map_keys, values, removed in columns
    ]
