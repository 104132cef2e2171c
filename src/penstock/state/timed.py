"""Entries with a time to live are stored as (value, last access); this turns TTL on and off.

A state may gain or lose its TTL between two runs. What was stored without one counts as accessed
when it is first seen with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.state.tables import Columns, Conversion


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
        return convert_value("value", value, to_timed=to_timed, now_ms=now_ms)

    return _changed(kind, columns, lambda values: list(map(one, values)))


def converted_columns(
    kind: str, columns: Columns, conversion: Conversion, *, timed: bool
) -> Columns:
    """Returns the columns of a table with values of another type."""
    return _changed(kind, columns, lambda values: converted_values(values, conversion, timed=timed))


def converted_values(values: list[Any], conversion: Conversion, *, timed: bool) -> list[Any]:
    """Returns values of another type; those with a last access keep it."""
    if not timed:
        return conversion(values)
    plain = conversion([value for value, _ in values])
    return [(one, accessed) for one, (_, accessed) in zip(plain, values, strict=True)]


def _changed(kind: str, columns: Columns, change: Callable[[list[Any]], list[Any]]) -> Columns:
    """Returns columns with their values changed; what says that something is gone stays."""
    if kind == "value":
        changed: Columns = []
        for ns, keys, values in columns:
            found = iter(change([value for value in values if value is not None]))
            changed.append((ns, keys, [None if value is None else next(found) for value in values]))
        return changed
    if kind == "list":
        return [
            (ns, keys, starts, [None if part is None else change(part) for part in items])
            for ns, keys, starts, items in columns
        ]
    return [
        (ns, keys, cleared, map_keys, list(map(change, values)), removed)
        for ns, keys, cleared, map_keys, values, removed in columns
    ]
