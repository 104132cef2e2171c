"""Firing of windows whose only timers are their last instant and their cleanup time.

All windows that are due at one instant fire together: the times of a window are compared once, not
once per key. Evaluation and cleanup are those of the general path. The trigger is not asked: it
would say FIRE at the last instant and nothing at any other time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.core.times import MAX_TIMESTAMP
from penstock.operators.timers import TIMERS_AT_ONCE
from penstock.operators.windows.triggers import PurgingTrigger

if TYPE_CHECKING:
    from penstock.operators.windows.operator import WindowLogic
    from penstock.operators.windows.windows import TimeWindow

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
