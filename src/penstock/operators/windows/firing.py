"""Firing of windows whose only timers are their last instant and their cleanup time.

All windows due at one instant are worked on together: a window's times are looked at once, not once
per key. Evaluation and cleanup are those of the general path, without asking the trigger: it would
say FIRE at the last instant and nothing at any other time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.core.times import MAX_TIMESTAMP
from penstock.operators.timers import TIMERS_AT_ONCE
from penstock.operators.windows.operator import WindowLogic
from penstock.operators.windows.triggers import PurgingTrigger

if TYPE_CHECKING:
    from penstock.operators.windows.spec import WindowSpec
    from penstock.operators.windows.windows import TimeWindow
    from penstock.state.timers import TimerTable


KEYS_BETWEEN_LOOKS: Final = 64
"""Windows of one time that fire before the next look at the clock."""


class TimedLogic(WindowLogic):
    """Base of the batch paths of time windows under their default trigger, purging or not."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self.purges = isinstance(self.trigger, PurgingTrigger)
        self.owns_records = True  # No record is in two windows.

    def add_timers(self, keys: Iterable[Any], window: TimeWindow) -> None:
        """Registers both timers of a window for some keys."""
        add = self.cleanup_timers.add
        last = window[1] - 1
        cleanup = self.cleanup_time(window)
        for key in keys:
            add(last, key, window)
        if cleanup not in (last, MAX_TIMESTAMP):
            for key in keys:
                add(cleanup, key, window)

    def remove_timers(self, key: Any, window: TimeWindow) -> None:
        """Deletes both timers of a window, as far as they have not fired."""
        remove = self.cleanup_timers.remove
        last = window[1] - 1
        cleanup = self.cleanup_time(window)
        remove(last, key, window)
        if cleanup != last:
            remove(cleanup, key, window)

    def advance_watermark(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        # Sets the time that functions see; event timers are fired here, not by the service.
        self.timers.restore_watermark(watermark)
        if not self.is_event_time or self._fire_due(self.cleanup_timers, watermark):
            self.output.emit_watermark(watermark)
        else:
            self.watermark = before

    def advance_processing_time(self, now_ms: int) -> None:
        if not self.is_event_time:
            self._fire_due(self.cleanup_timers, now_ms)

    def _fire_due(self, table: TimerTable, until_ms: int) -> bool:
        """Fires in time order; returns whether nothing up to then is left."""
        has_fired = True
        while has_fired and (time_ms := table.next_time()) is not None and time_ms <= until_ms:
            has_fired = self._fire_instant(table, time_ms)
        self.state.namespace = None
        self.results.flush()
        return has_fired

    def _fire_instant(self, table: TimerTable, time_ms: int) -> bool:
        """Fires timers of one time; returns whether there is time for more."""
        due: defaultdict[TimeWindow, list[Any]] = defaultdict(list)
        for key, window in table.due(time_ms, TIMERS_AT_ONCE):
            due[window].append(key)
        for window, keys in due.items():
            self.state.prefetch(keys)
            if self.merging is None:
                self.contents.read_ahead(window, keys)
            for start in range(0, len(keys), KEYS_BETWEEN_LOOKS):
                if start and self.timers.is_slice_over():
                    return False
                self._fire_window(table, time_ms, window, keys[start : start + KEYS_BETWEEN_LOOKS])
        return not self.timers.is_slice_over()

    def _fire_window(
        self, table: TimerTable, time_ms: int, window: TimeWindow, keys: list[Any]
    ) -> None:
        self.timers.fired += len(keys)
        state, contents, merging = self.state, self.contents, self.merging
        call, evaluate, remove_timer = self.call, self.results.evaluate, table.remove
        fires = window[1] - 1 == time_ms
        is_over = self.cleanup_time(window) == time_ms
        is_last = is_over or (fires and self.purges)
        # The function may change what it is given; contents that are seen again are copied.
        elements_of = contents.elements if is_last and self.owns_records else contents.kept_elements
        self.function_context.current = state.namespace = window
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
                self.clear_function_state(window)
                if merging is not None:
                    merging.forget(key, window)
