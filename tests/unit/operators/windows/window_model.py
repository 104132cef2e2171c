"""A second, naive window operator, to test the real one against.

It knows no operators, state tables or timers: it keeps plain lists and searches them. Times are
found by trying every candidate instead of by formula, so it is slow and for small numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MIN, MAX = -(2**63), 2**63 - 1

Step = tuple[str, Any]
"""("records", [(key, value, time)]), ("watermark", time)"""


def aligned(size: int, slide: int, offset: int) -> Callable[[int], list[tuple[int, int]]]:
    """Tries every start that could hold the instant, latest first."""

    def windows(time: int) -> list[tuple[int, int]]:
        return [
            (start, start + size)
            for start in range(time, time - size, -1)
            if (start - offset) % slide == 0
        ]

    return windows


@dataclass
class Pane:
    """What one key has in one window."""

    key: Any
    start: int
    end: int
    values: list[Any] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.end - 1

    def cleanup(self, lateness: int) -> int:
        return min(MAX, self.last + lateness)


@dataclass
class EventTimeModel:
    """Windows in event time under the default trigger, with or without purging.

    Attributes:
        windows: Windows of an instant, or None for sessions.
        gap: Gap after a record's value, for sessions.
        lateness: Allowed lateness.
        purging: Whether a firing drops the contents.
    """

    windows: Callable[[int], list[tuple[int, int]]] | None
    gap: Callable[[Any], int] | None = None
    lateness: int = 0
    purging: bool = False

    def run(self, steps: list[Step]) -> list[list[Any]]:
        """Returns what each step emits: (key, start, end, values), or ("late", value, time)."""
        self.panes: list[Pane] = []
        self.watermark = MIN
        emitted: list[list[Any]] = []
        for kind, payload in steps:
            self.out: list[Any] = []
            if kind == "records":
                for key, value, time in payload:
                    self.record(key, value, time)
            else:
                self.advance(payload)
            emitted.append(self.out)
        return emitted

    def record(self, key: Any, value: Any, time: int) -> None:
        if self.windows is None:
            assert self.gap is not None
            panes = [self.merge(key, time, time + self.gap(value))]
        else:
            panes = [self.pane(key, start, end) for start, end in self.windows(time)]
        open_panes = [pane for pane in panes if pane.cleanup(self.lateness) > self.watermark]
        for pane in panes:
            if pane not in open_panes:
                self.panes = [other for other in self.panes if other is not pane]
        for pane in open_panes:
            pane.values.append(value)
            if pane.last <= self.watermark:
                self.fire(pane)
        if not open_panes and time + self.lateness <= self.watermark:
            self.out.append(("late", value, time))

    def pane(self, key: Any, start: int, end: int) -> Pane:
        for pane in self.panes:
            if (pane.key, pane.start, pane.end) == (key, start, end):
                return pane
        pane = Pane(key, start, end)
        self.panes.append(pane)
        return pane

    def merge(self, key: Any, start: int, end: int) -> Pane:
        met = [
            pane
            for pane in self.panes
            if pane.key == key and pane.start <= end and pane.end >= start
        ]
        met.sort(key=lambda pane: pane.start)
        merged = Pane(
            key,
            min([start] + [pane.start for pane in met]),
            max([end] + [pane.end for pane in met]),
            [value for pane in met for value in pane.values],
        )
        self.panes = [pane for pane in self.panes if not any(pane is other for other in met)]
        self.panes.append(merged)
        return merged

    def fire(self, pane: Pane) -> None:
        if pane.values:
            self.out.append((pane.key, pane.start, pane.end, list(pane.values)))
        if self.purging:
            pane.values.clear()

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        firing = [pane for pane in self.panes if before < pane.last <= watermark]
        for pane in sorted(firing, key=lambda pane: pane.last):
            self.fire(pane)
        self.panes = [pane for pane in self.panes if pane.cleanup(self.lateness) > watermark]


def count_windows(
    records: list[tuple[Any, Any]], size: int, slide: int
) -> list[tuple[Any, int, list[Any]]]:
    """Returns (key, window, values) of each window that fills up, in order of its last record."""
    seen: dict[Any, list[Any]] = {}
    out = []
    for key, value in records:
        values = seen.setdefault(key, [])
        values.append(value)
        for number in range(len(values)):
            if number * slide + size == len(values):
                out.append((key, number, values[number * slide : number * slide + size]))
    return out
