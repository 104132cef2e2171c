"""Merging of deltas: many small files become one, without rewriting a large base.

A merged payload brings any version that it covers to its end, since columns say what an entry is,
or from where a list is new, and not what to do. Timers and removed entries stay as marks, because
a covered version may have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.state.payload import Payload, TableColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.handles import FileHandle
    from penstock.state.tables import Columns
    from penstock.state.timers import TimerColumns


def first_to_merge(deltas: Sequence[FileHandle]) -> int:
    """Returns where the newest run of deltas of like size begins; it is merged.

    A delta joins the run unless it outweighs all newer ones twice, so sizes in a chain fall at
    least geometrically and each byte is rewritten a logarithmic number of times.
    """
    first = len(deltas) - 2
    newer = deltas[-1].size_bytes
    while first >= 0 and (deltas[first].size_bytes <= 2 * newer or first == len(deltas) - 2):
        newer += deltas[first].size_bytes
        first -= 1
    return first + 1


def merge(payloads: Sequence[Payload], ids: Sequence[str], max_covered: int) -> Payload:
    """Returns one payload that does what `payloads` do in order.

    Args:
        payloads: Oldest first.
        ids: The versions that they reach.
        max_covered: How many of them the payload still leads on from.
    """
    tables: dict[str, list[TableColumns]] = {}
    for payload in payloads:
        for table in payload.tables:
            tables.setdefault(table.name, []).append(table)
    covers = [version for payload in payloads for version in payload.covers]
    return Payload(
        [_merge_tables(versions) for versions in tables.values()],
        _merge_timers([payload.event_timers for payload in payloads]),
        _merge_timers([payload.processing_timers for payload in payloads]),
        (*covers, *ids[:-1])[-max_covered:],
    )


def _merge_tables(tables: list[TableColumns]) -> TableColumns:
    newest = tables[-1]
    merged: dict[Any, dict[Any, Any]] = {}
    combine = {"value": _add_values, "list": _add_lists, "map": _add_maps}[newest.kind]
    for table in tables:
        for ns, *columns in table.columns:
            combine(merged.setdefault(ns, {}), columns)
    result: Columns = []
    for ns, found in merged.items():
        if newest.kind == "value":
            result.append((ns, list(found), list(found.values())))
        else:
            rows = zip(*found.values(), strict=True)
            result.append((ns, list(found), *map(list, rows)))
    return TableColumns(newest.name, newest.kind, newest.timed, result, newest.schema)


def _add_values(found: dict[Any, Any], columns: list[Any]) -> None:
    found.update(zip(*columns, strict=True))


def _add_lists(found: dict[Any, Any], columns: list[Any]) -> None:
    for key, start, items in zip(*columns, strict=True):
        older = found.get(key)
        if older is None or items is None or start < 0:
            found[key] = (start, items)
        elif older[0] < 0:
            # Whatever is below stays hidden, if the list is empty in between too.
            found[key] = (-1, (older[1] or [])[:start] + items)
        elif start <= older[0]:
            found[key] = (start, items)
        else:
            # The list is there, so the older change did not remove it.
            found[key] = (older[0], older[1][: start - older[0]] + items)


def _add_maps(found: dict[Any, Any], columns: list[Any]) -> None:
    for key, cleared, map_keys, values, removed in zip(*columns, strict=True):
        older = found.get(key)
        if older is None or cleared:
            found[key] = (cleared, map_keys, values, removed)
            continue
        entries = dict(zip(older[1], older[2], strict=True))
        gone = dict.fromkeys(older[3])
        for map_key in removed:
            entries.pop(map_key, None)
            gone[map_key] = None
        for map_key, value in zip(map_keys, values, strict=True):
            entries[map_key] = value
            gone.pop(map_key, None)
        found[key] = (older[0], list(entries), list(entries.values()), list(gone))


def _merge_timers(columns: Sequence[TimerColumns]) -> TimerColumns:
    merged: dict[tuple[int, Any], dict[Any, bool]] = {}
    for timers in columns:
        for time, ns, added, removed in timers:
            log = merged.setdefault((time, ns), {})
            log.update(dict.fromkeys(removed, False))
            log.update(dict.fromkeys(added, True))
    return [
        (
            time,
            ns,
            [key for key, is_added in log.items() if is_added],
            [key for key, is_added in log.items() if not is_added],
        )
        for (time, ns), log in merged.items()
    ]
