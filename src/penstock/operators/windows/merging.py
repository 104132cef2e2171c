"""Which windows of a key are in flight, and under which namespace each keeps its contents.

When windows merge, one of their *state windows* stays the home of the contents and only the others
are moved, so a window that grows is never rewritten. The home is that
of the earliest window, which keeps contents in order of their windows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.operators.windows.assigners import MergingWindowAssigner
from penstock.operators.windows.windows import MergeCallback, TimeWindow

if TYPE_CHECKING:
    from penstock.state.tables import ValueTable

MERGING_TABLE: Final = "merging-window-set"

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""(result, replaced windows, home, other state windows)"""


class MergingWindowSet:
    """The windows of one key at a time; `load` them first, `persist` when done."""

    def __init__(self, assigner: MergingWindowAssigner, table: ValueTable) -> None:
        self._assigner = assigner
        self._table = table
        self._key: Any = None
        self._stored: tuple[tuple[Any, Any], ...] = ()
        self.mapping: dict[Any, Any] = {}
        kind = type(assigner)
        self._meets_in_time = kind.merge_windows is MergingWindowAssigner.merge_windows

    def load(self, key: Any) -> None:
        """Makes a key current."""
        self._key = key
        self._stored = self._table.get(key, None) or ()
        self.mapping = dict(self._stored)

    def persist(self) -> None:
        """Writes the windows of the current key back if they changed."""
        items = self.mapping.items()
        # Sorted, so that equal states are equal bytes; other windows may have no order.
        windows = tuple(sorted(items)) if self._meets_in_time else tuple(items)
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
        if self._meets_in_time:
            start, end = new
            met = sorted([w for w in self.mapping if w[0] <= end and w[1] >= start])
            if not met:
                self.mapping[new] = new
                return new
            # Windows in flight never meet each other, so what the result covers is all of `met`.
            result = TimeWindow(min(met[0][0], start), max(met[-1][1], end))
            self._replace(result, met, on_merge)
            return result
        return self._add_by_callback(new, on_merge)

    def _replace(self, result: Any, met: list[Any], on_merge: OnMerge) -> None:
        mapping = self.mapping
        if len(met) == 1 and met[0] == result:
            return
        homes = [mapping.pop(window) for window in met]
        mapping[result] = homes[0]
        replaced = [window for window in met if window != result]
        on_merge(result, replaced, homes[0], homes[1:])

    def _add_by_callback(self, new: Any, on_merge: OnMerge) -> Any:
        """Merges windows as an assigner of the program says."""
        found = _Merges()
        present = list(self.mapping)
        self._assigner.merge_windows([*present, new], found)
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
