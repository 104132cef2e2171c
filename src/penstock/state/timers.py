"""Timers of one time domain: a set of (time, key, namespace), ordered by time.

Buckets by time and namespace keep windows cheap: all keys of a window share one time, so adding a
timer is one dict write. A heap orders the times only. What changed since the last commit is kept
net: a timer that came and went in between leaves no trace.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.state.tables import Row

TimerColumns = list[tuple[int, Any, list[Any], list[Any]]]
"""[(time, namespace, added keys, removed keys)]"""

_FEW_TIMES: Final = 64


class TimerTable:
    """Timers of one domain, in memory."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Any, dict[Any, None]]] = {}
        self._times: list[int] = []
        self._changes: dict[tuple[int, Any], dict[Any, bool]] = {}
        self._last_time: int | None = None
        self._last_ns: Any = None
        self._last: dict[Any, None] = {}
        self._log: dict[Any, bool] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no timers; a false "no" costs a look at the base, and is possible."""
        return not self._buckets

    def add(self, time: int, key: Any, ns: Any) -> None:
        """Registers a timer; twice is once."""
        if time != self._last_time or ns is not self._last_ns:
            self._select(time, ns)
        bucket = self._last
        if key not in bucket:
            bucket[key] = None
            if self._log.pop(key, True):
                self._log[key] = True

    def remove(self, time: int, key: Any, ns: Any) -> bool:
        """Deletes a timer; returns whether it was there."""
        if time != self._last_time or ns is not self._last_ns:
            if ns not in self._buckets.get(time, ()):
                return False
            self._select(time, ns)
        bucket = self._last
        if key not in bucket:
            return False
        del bucket[key]
        if not self._log.pop(key, False):
            self._log[key] = False
        if not bucket:
            self._prune(time, ns)
        return True

    def next_time(self) -> int | None:
        """Returns the earliest time that has a timer."""
        times = self._times
        while times:
            if times[0] in self._buckets:
                return times[0]
            heappop(times)
        return None

    def due(self, time: int, most: int | None = None) -> list[tuple[Any, Any]]:
        """Returns (key, namespace) of the timers of exactly that time, of the first so many."""
        found = ((key, ns) for ns, keys in self._buckets.get(time, {}).items() for key in keys)
        return list(islice(found, most))

    def _select(self, time: int, ns: Any) -> None:
        """Makes a bucket the current one; a key appears in it right after."""
        spaces = self._buckets.get(time)
        if spaces is None:
            spaces = self._buckets[time] = {}
            self._push(time)
        self._last = spaces.setdefault(ns, {})
        self._log = self._changes.setdefault((time, ns), {})
        self._last_time = time
        self._last_ns = ns

    def _insert(self, time: int, key: Any, ns: Any) -> None:
        """Puts a timer into memory that is not new."""
        spaces = self._buckets.get(time)
        if spaces is None:
            spaces = self._buckets[time] = {}
            self._push(time)
        spaces.setdefault(ns, {})[key] = None

    def _push(self, time: int) -> None:
        if len(self._times) > 2 * len(self._buckets) + _FEW_TIMES:
            # Times whose timers were deleted are dropped when they come, which may be never.
            self._times = sorted(self._buckets)
        else:
            heappush(self._times, time)

    def _prune(self, time: int, ns: Any) -> None:
        spaces = self._buckets[time]
        del spaces[ns]
        if not spaces:
            del self._buckets[time]
        self._forget()

    def _forget(self) -> None:
        self._last_time = None
        self._last_ns = None
        self._last = {}
        self._log = {}

    # -- versions -----------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether timers changed since the last commit."""
        return any(self._changes.values())

    def collect(self) -> TimerColumns:
        """Returns what changed since the last commit, which is now."""
        columns: TimerColumns = []
        for (time, ns), log in self._changes.items():
            if log:
                added = [key for key, is_added in log.items() if is_added]
                removed = [key for key, is_added in log.items() if not is_added]
                columns.append((time, ns, added, removed))
        self.mark_clean()
        return columns

    def image(self) -> TimerColumns:
        """Returns all timers as columns."""
        return [
            (time, ns, list(keys), [])
            for time, spaces in self._buckets.items()
            for ns, keys in spaces.items()
        ]

    def mark_clean(self) -> None:
        self._changes.clear()
        self._forget()

    def apply(self, columns: TimerColumns, *, is_net: bool = True) -> None:
        """Applies changes that were committed elsewhere.

        Args:
            columns: The changes.
            is_net: What is added was not there before, and what is removed was. So it is with the
                changes of one commit, and not with those of several in one file, which say too what
                came and went between them.
        """
        buckets = self._buckets
        times: list[int] = []
        for time, ns, added, removed in columns:
            spaces = buckets.get(time)
            if spaces is None:
                spaces = buckets[time] = {}
                times.append(time)
            bucket = spaces.setdefault(ns, {})
            bucket.update(dict.fromkeys(added))
            for key in removed:
                bucket.pop(key, None)
            if not bucket:
                self._prune(time, ns)
        # A time may be in the heap twice; `next_time` skips what has no bucket.
        self._times.extend(times)
        heapify(self._times)
        self._forget()

    def reset(self) -> None:
        """Drops all timers without a trace, before a restore."""
        self._buckets.clear()
        self._times.clear()
        self.mark_clean()

    def all(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields (time, key, namespace)."""
        for time, spaces in self._buckets.items():
            for ns, keys in spaces.items():
                for key in keys:
                    yield time, key, ns


def timer_entries(event: TimerTable, processing: TimerTable) -> Iterator[Row]:
    """Yields timers of both domains as rows of a state; see `KeyedState.entries`."""
    for kind, timers in (("event_timer", event), ("processing_timer", processing)):
        for time, key, ns in timers.all():
            yield "", kind, key, ns, time
