"""Tumbling and sliding windows under the default trigger, a batch at a time.

1. A batch is grouped by window and key; how depends on how many windows it touches.
2. Each group is added at once: one state access, one timer per new key and window.

Only records at or behind the watermark can lie in a window that has fired or is over: those windows
are left out of step 2, and such records are then taken one by one, in order of arrival, because
each of them may fire. Nothing else emits anything while records are processed, so results and their
order are exactly those of the general path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress
from typing import Any, Final, cast

from penstock.core.times import MAX_TIMESTAMP, NO_TIMESTAMP, saturating_add
from penstock.operators.logic import TIMERS_AT_ONCE
from penstock.operators.windows.assigners import AlignedWindows, missing_timestamp
from penstock.operators.windows.grouping import Columns, has_many_keys
from penstock.operators.windows.operator import WindowLogic, WindowPath
from penstock.operators.windows.triggers import PurgingTrigger
from penstock.operators.windows.windows import TimeWindow, time_window

# Firing of windows whose only timers are their last instant and their cleanup time.
#
# All windows that are due at one instant fire together: the times of a window are compared once,
# not once per key. Evaluation and cleanup are those of the general path. The trigger is not asked:
# it would say FIRE at the last instant and nothing at any other time.


KEYS_BETWEEN_LOOKS: Final = 64
"""Windows of one time that fire before the next look at the clock."""


class TimedFiring:
    """Fires time windows under their default trigger, purging or not.

    Args:
        logic: The operator.
        owns_records: Whether no record is in two windows.
    """

    def __init__(self, logic: WindowLogic, *, owns_records: bool = True) -> None:
        self._logic = logic
        self._table = logic.cleanup_timers
        self._purges = isinstance(logic.trigger, PurgingTrigger)
        self._owns_records = owns_records

    def add_timers(self, keys: Iterable[Any], window: TimeWindow) -> None:
        """Registers both timers of a window for some keys."""
        add = self._table.add
        last = window[1] - 1
        cleanup = self._logic.cleanup_time(window)
        for key in keys:
            add(last, key, window)
        if cleanup not in (last, MAX_TIMESTAMP):
            for key in keys:
                add(cleanup, key, window)

    def remove_timers(self, key: Any, window: TimeWindow) -> None:
        """Deletes both timers of a window, as far as they have not fired."""
        remove = self._table.remove
        last = window[1] - 1
        cleanup = self._logic.cleanup_time(window)
        remove(last, key, window)
        if cleanup != last:
            remove(cleanup, key, window)

    def advance_watermark(self, watermark: int) -> bool:
        # Sets the time that functions see; event timers are fired here, not by the service.
        self._logic.timers.restore_watermark(watermark)
        return not self._logic.is_event_time or self._fire_due(watermark)

    def advance_processing_time(self, now_ms: int) -> None:
        if not self._logic.is_event_time:
            self._fire_due(now_ms)

    def _fire_due(self, until_ms: int) -> bool:
        """Fires in time order; returns whether nothing up to then is left."""
        next_time, has_fired = self._table.next_time, True
        while has_fired and (time_ms := next_time()) is not None and time_ms <= until_ms:
            has_fired = self._fire_instant(time_ms)
        self._logic.state.namespace = None
        return has_fired

    def _fire_instant(self, time_ms: int) -> bool:
        """Fires timers of one time; returns whether there is time for more."""
        logic = self._logic
        due: defaultdict[TimeWindow, list[Any]] = defaultdict(list)
        for key, window in self._table.due(time_ms, TIMERS_AT_ONCE):
            due[window].append(key)
        for window, keys in due.items():
            logic.state.prefetch(keys)
            if logic.merging is None:
                logic.contents.read_ahead(window, keys)
            for start in range(0, len(keys), KEYS_BETWEEN_LOOKS):
                if start and logic.timers.is_slice_over():
                    return False
                self._fire_window(time_ms, window, keys[start : start + KEYS_BETWEEN_LOOKS])
        return not logic.timers.is_slice_over()

    def _fire_window(self, time_ms: int, window: TimeWindow, keys: list[Any]) -> None:
        logic = self._logic
        logic.timers.fired += len(keys)
        state, contents, merging = logic.state, logic.contents, logic.merging
        call, evaluate, remove_timer = logic.call, logic.results.evaluate, self._table.remove
        fires = window[1] - 1 == time_ms
        is_over = logic.cleanup_time(window) == time_ms
        is_last = is_over or (fires and self._purges)
        # The function may change what it is given; contents that are seen again are copied.
        is_own = is_last and self._owns_records
        elements_of = contents.elements if is_own else contents.kept_elements
        logic.function_context.current = state.namespace = window
        home: Any = window
        for key in keys:
            remove_timer(time_ms, key, window)
            state.key = key
            if merging is not None:
                home = merging.home_of(key, window)
                if home is None:
                    continue
            if fires and (elements := elements_of(key, home)):
                evaluate(call, key, window, elements)
            if is_last:
                contents.remove(key, home)
            if is_over:
                logic.clear_function_state(window)
                if merging is not None:
                    merging.forget(key, window)


class AlignedPath(WindowPath):
    """Tumbling and sliding windows under `EventTimeTrigger` or `ProcessingTimeTrigger`."""

    firing: TimedFiring

    def __init__(self, logic: WindowLogic) -> None:
        self.logic = logic
        self.windows = windows = cast("AlignedWindows", logic.assigner)
        self.firing = TimedFiring(logic, owns_records=windows.slide >= windows.size)
        self._is_all = logic.parts.is_all
        self._has_many_keys = False
        # One object per window, since tables compare by identity first.
        self.window_at = lru_cache(10_000)(lambda start: time_window(start, windows.size))

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        logic = self.logic
        self._has_many_keys = has_many_keys(keys)
        if not logic.is_event_time:
            # The clock stands still within an epoch, so that all records have the same windows.
            columns = self._columns(keys, values)
            for window in self.windows.windows_of(logic.timers.current_processing_time()):
                self._add_columns(window, columns)
            return
        if timestamps is None:
            raise missing_timestamp(self.windows, values[0])
        lowest, highest = min(timestamps), max(timestamps)
        if lowest == NO_TIMESTAMP:
            raise missing_timestamp(self.windows, values[timestamps.index(lowest)])
        watermark = logic.watermark
        # Clamped windows at the end of time may end before their records do.
        any_behind = lowest <= watermark or watermark >= MAX_TIMESTAMP - 1
        for window, columns in self._by_window(values, timestamps, keys, lowest, highest):
            if not any_behind or window[1] - 1 > watermark:
                self._add_columns(window, columns)
        if any_behind:
            self._add_behind(values, timestamps, keys)

    def _columns(self, keys: list[Any], values: list[Any]) -> Columns:
        """Returns records of one window."""
        if self._is_all:
            return Columns(keys, values, {keys[0]: values})
        return Columns(keys, values, has_many_keys=self._has_many_keys)

    def _add_columns(self, window: TimeWindow, columns: Columns) -> None:
        """Adds records to a window that has not fired yet."""
        self.firing.add_timers(self.logic.contents.add_columns(window, columns), window)

    def _by_window(
        self, values: list[Any], timestamps: list[int], keys: list[Any], lowest: int, highest: int
    ) -> Iterator[tuple[TimeWindow, Columns]]:
        """Yields each window with its records, in order of arrival."""
        size, slide, offset = self.windows.size, self.windows.slide, self.windows.offset
        first = range(lowest - (lowest - offset) % slide, lowest - size, -slide)
        last = range(highest - (highest - offset) % slide, highest - size, -slide)
        # With gaps between windows, both ends may lie in none and a record between them in one.
        if first and first == last:
            columns = self._columns(keys, values)
            for start in first:
                yield self.window_at(start), columns
        elif size == slide:
            yield from self._by_tumbling_window(values, timestamps, keys)
        else:
            yield from self._by_sliding_window(values, timestamps, keys, lowest, highest)

    def _by_tumbling_window(
        self, values: list[Any], timestamps: list[int], keys: list[Any]
    ) -> Iterator[tuple[TimeWindow, Columns]]:
        size, offset = self.windows.size, self.windows.offset
        if offset:
            numbers = [(timestamp - offset) // size for timestamp in timestamps]
        else:
            numbers = [timestamp // size for timestamp in timestamps]
        if not (self._has_many_keys or self._is_all):
            yield from self._in_groups(numbers, keys, values)
            return
        for number in set(numbers):
            inside = [other == number for other in numbers]
            columns = self._columns(list(compress(keys, inside)), list(compress(values, inside)))
            yield self.window_at(number * size + offset), columns

    def _in_groups(
        self, numbers: list[int], keys: list[Any], values: list[Any]
    ) -> Iterator[tuple[TimeWindow, Columns]]:
        """Groups by window and by key in one pass."""
        size, offset = self.windows.size, self.windows.offset
        split: dict[int, defaultdict[Any, list[Any]]] = {
            number: defaultdict(list) for number in set(numbers)
        }
        for number, key, value in zip(numbers, keys, values, strict=True):
            split[number][key].append(value)
        for number, groups in split.items():
            yield self.window_at(number * size + offset), Columns([], [], groups)

    def _by_sliding_window(
        self, values: list[Any], timestamps: list[int], keys: list[Any], lowest: int, highest: int
    ) -> Iterator[tuple[TimeWindow, Columns]]:
        size, slide, offset = self.windows.size, self.windows.slide, self.windows.offset
        newest = highest - (highest - offset) % slide
        starts = range(newest, lowest - size, -slide)
        if len(starts) > 4 * (-(-size // slide)):
            yield from self._by_sliding_record(values, timestamps, keys)
            return
        # Few windows: those that cover the batch share one grouping, the others filter it.
        everything = self._columns(keys, values)
        for start in starts:
            end = start + size
            if start <= lowest and end > highest:
                yield self.window_at(start), everything
                continue
            inside = [start <= timestamp < end for timestamp in timestamps]
            if True in inside:
                columns = self._columns(
                    list(compress(keys, inside)), list(compress(values, inside))
                )
                yield self.window_at(start), columns

    def _by_sliding_record(
        self, values: list[Any], timestamps: list[int], keys: list[Any]
    ) -> Iterator[tuple[TimeWindow, Columns]]:
        size, slide, offset = self.windows.size, self.windows.slide, self.windows.offset
        split: defaultdict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for value, timestamp, key in zip(values, timestamps, keys, strict=True):
            newest = timestamp - (timestamp - offset) % slide
            for start in range(newest, timestamp - size, -slide):
                of_keys, of_values = split[start]
                of_keys.append(key)
                of_values.append(value)
        for start, (of_keys, of_values) in split.items():
            yield self.window_at(start), self._columns(of_keys, of_values)

    def _add_behind(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        """Adds records to windows that have fired already, and handles late ones."""
        logic = self.logic
        watermark, state, table = logic.watermark, logic.state, logic.cleanup_timers
        every = watermark >= MAX_TIMESTAMP - 1
        for value, timestamp, key in zip(values, timestamps, keys, strict=True):
            if timestamp > watermark and not every:
                continue
            state.key = key
            is_skipped = True
            for window in self.windows.windows_of(timestamp):
                cleanup = saturating_add(window[1] - 1, logic.lateness)
                if cleanup <= watermark:
                    continue
                is_skipped = False
                if window[1] - 1 <= watermark:
                    logic.add_to_window(key, value, timestamp, window, window)
                    if cleanup != MAX_TIMESTAMP:
                        table.add(cleanup, key, window)
            if is_skipped:
                logic.skipped(value, timestamp)
