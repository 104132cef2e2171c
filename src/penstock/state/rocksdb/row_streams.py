"""Streams of rows in order of their keys, without the whole of any in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.state.rocksdb.rows import TIMER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def overlaid(
    rows: Iterable[tuple[bytes, bytes]], changes: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields rows with changes applied; both are in order, None deletes."""
    position = 0
    for row, data in rows:
        while position < len(changes) and changes[position][0] < row:
            changed, new = changes[position]
            position += 1
            if new is not None:
                yield changed, new
        if position < len(changes) and changes[position][0] == row:
            new = changes[position][1]
            position += 1
            if new is not None:
                yield row, new
        else:
            yield row, data
    for changed, new in changes[position:]:
        if new is not None:
            yield changed, new


def noted_timers(
    rows: Iterable[tuple[bytes, bytes]], domains: set[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Notes the domains of timers that pass."""
    place = len(TIMER_PREFIX)
    for row in rows:
        if row[0].startswith(TIMER_PREFIX):
            domains.add(row[0][place : place + 1])
        yield row
