"""Windows: finite parts of a stream of records, and the namespaces of window state and timers.

Windows are dictionary keys on every hot path, so they are tuples: hashing and comparing run in C.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.core.type_variables import W
from penstock.state.plain_serializer import register

if TYPE_CHECKING:
    from penstock.state.tables import ValueTable


class Window(ABC):
    """A group of records; `max_timestamp` is the last instant that belongs to it."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Returns the largest timestamp that still belongs to the window."""


class _Interval(NamedTuple):
    start: int
    end: int


class TimeWindow(_Interval, Window):
    """The interval from `start` (inclusive) to `end` (exclusive), in milliseconds."""

    __slots__ = ()

    def max_timestamp(self) -> int:
        return self[1] - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Returns whether the windows overlap or touch."""
        return self[0] <= other[1] and self[1] >= other[0]

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Returns the smallest window that covers both."""
        return TimeWindow(min(self[0], other[0]), max(self[1], other[1]))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the window of that size that holds the timestamp.

        Python's `%` rounds toward minus infinity, so timestamps before 1970 need nothing special.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Calls `callback.merge(windows, result)` for each set of windows that meet."""
        ordered = sorted(set(windows))
        position = 0
        while position < len(ordered):
            group = [ordered[position]]
            result = group[0]
            position += 1
            while position < len(ordered) and result.intersects(ordered[position]):
                group.append(ordered[position])
                result = result.cover(ordered[position])
                position += 1
            if len(group) > 1:
                callback.merge(set(group), result)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self[0]}, end={self[1]})"


class MergeCallback(ABC, Generic[W]):
    """What a merging assigner calls for each set of windows that become one."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[W], merge_result: W) -> None:
        """Reports that these windows become `merge_result`."""


class _Id(NamedTuple):
    id: int


class CountWindow(_Id, Window):
    """The window number `id` of a key, counted in records."""

    __slots__ = ()

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __repr__(self) -> str:
        return f"CountWindow(id={self[0]})"


class GlobalWindow(Window):
    """The one window that holds everything; all instances are the same object."""

    __slots__ = ()
    _instance: GlobalWindow | None = None

    def __new__(cls) -> GlobalWindow:
        if GlobalWindow._instance is None:
            GlobalWindow._instance = super().__new__(cls)
        return GlobalWindow._instance

    @staticmethod
    def get() -> GlobalWindow:
        return GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __reduce__(self) -> tuple[type[GlobalWindow], tuple[()]]:
        return GlobalWindow, ()

    def __repr__(self) -> str:
        return "GlobalWindow"


GLOBAL_WINDOW: Final = GlobalWindow()

# Windows are the namespaces of state and timers, so snapshots hold them; as data, not as pickles.
register(TimeWindow, 20, list, lambda bounds: TimeWindow(*bounds))
register(CountWindow, 21, list, lambda parts: CountWindow(*parts))
register(GlobalWindow, 22, lambda _: None, lambda _: GLOBAL_WINDOW)


def time_window(start: int, size: int) -> TimeWindow:
    """Returns `[start, start + size)`, with both ends clamped to the int64 range.

    `start` is an unclamped sum: the end is computed from it, so that windows still tile there.
    """
    return TimeWindow(max(start, MIN_TIMESTAMP), min(start + size, MAX_TIMESTAMP))


# Which windows of a key are in flight, and under which namespace each keeps its contents.
#
# When windows merge, one of their *state windows* stays the home of the contents and only the
# others are moved, so a window that grows is never rewritten. The home is that of the earliest
# window, which keeps contents in order of their windows.

MERGING_TABLE: Final = "merging-window-set"

MergeWindows = Callable[[list[Any], MergeCallback[Any]], None]
"""`merge_windows` of an assigner."""

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""(result, replaced windows, home, other state windows)"""


class MergingWindowSet:
    """The windows of one key at a time; `load` them first, `persist` when done.

    Args:
        merge_windows: What says which windows merge; None for time windows that meet.
        table: Where the windows of all keys are.
    """

    def __init__(self, merge_windows: MergeWindows | None, table: ValueTable) -> None:
        self._merge_windows = merge_windows
        self._table = table
        self._key: Any = None
        self._stored: tuple[tuple[Any, Any], ...] = ()
        self.mapping: dict[Any, Any] = {}

    def load(self, key: Any) -> None:
        """Makes a key current."""
        self._key = key
        self._stored = self._table.get(key, None) or ()
        self.mapping = dict(self._stored)

    def persist(self) -> None:
        """Writes the windows of the current key back if they changed."""
        items = self.mapping.items()
        # Sorted, so that equal states are equal bytes; other windows may have no order.
        windows = tuple(sorted(items)) if self._merge_windows is None else tuple(items)
        if windows != self._stored:
            self._stored = windows
            # None removes: a key without windows leaves nothing behind.
            self._table.put(self._key, None, windows or None)

    def home_of(self, key: Any, window: Any) -> Any | None:
        """Returns `state_window` of a key that is not current."""
        for found, home in self._table.get(key, None) or ():
            if found == window:
                return home
        return None

    def forget(self, key: Any, window: Any) -> None:
        """Retires a window of a key that is not current."""
        stored = self._table.get(key, None) or ()
        left = tuple([item for item in stored if item[0] != window])
        self._table.put(key, None, left or None)

    def add_window(self, new: Any, on_merge: OnMerge) -> Any:
        """Adds a window and merges what meets; returns the window that now covers it."""
        if self._merge_windows is None:
            start, end = new
            met = sorted([w for w in self.mapping if w[0] <= end and w[1] >= start])
            if not met:
                self.mapping[new] = new
                return new
            # Windows in flight never meet each other, so what the result covers is all of `met`.
            result = TimeWindow(min(met[0][0], start), max(met[-1][1], end))
            self._replace(result, met, on_merge)
            return result
        return self._add_by_callback(new, self._merge_windows, on_merge)

    def _replace(self, result: Any, met: list[Any], on_merge: OnMerge) -> None:
        mapping = self.mapping
        if len(met) == 1 and met[0] == result:
            return
        homes = [mapping.pop(window) for window in met]
        mapping[result] = homes[0]
        replaced = [window for window in met if window != result]
        on_merge(result, replaced, homes[0], homes[1:])

    def _add_by_callback(self, new: Any, merge_windows: MergeWindows, on_merge: OnMerge) -> Any:
        """Merges windows as an assigner of the program says."""
        found = _Merges()
        present = list(self.mapping)
        merge_windows([*present, new], found)
        covering = new
        for merged, result in found.merges:
            members = set(merged)
            if new in members:
                covering = result
            met = [window for window in present if window in members]
            met.sort(key=lambda window: window.max_timestamp())
            if met:
                self._replace(result, met, on_merge)
        if covering not in self.mapping:
            self.mapping[covering] = covering
        return covering

    def state_window(self, window: Any) -> Any | None:
        """Returns the namespace of a window's contents, or None if it is not in flight."""
        return self.mapping.get(window)

    def retire(self, window: Any) -> None:
        """Forgets a window."""
        del self.mapping[window]


class _Merges(MergeCallback):
    """Collects the merges that an assigner reports."""

    def __init__(self) -> None:
        self.merges: list[tuple[Collection[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merges.append((list(to_be_merged), merge_result))
