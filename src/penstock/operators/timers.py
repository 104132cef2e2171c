"""Timers of keyed operators, in both time domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.core.times import MIN_WATERMARK

if TYPE_CHECKING:
    from penstock.core.clock import EpochClock
    from penstock.state.keyed import KeyedState
    from penstock.state.timers import TimerTable

OnTimer = Callable[[int, Any, Any], None]


class TimerService:
    """Fires the timers of one operator; the timers themselves are keyed state."""

    def __init__(self, state: KeyedState, clock: EpochClock) -> None:
        self._state = state
        self._clock = clock
        self._watermark = MIN_WATERMARK
        self.fired = 0
        """Timers that came due since the last epoch began."""

    def current_watermark(self) -> int:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._clock.now_ms

    def next_processing_timer(self) -> int | None:
        return self._state.processing_timers.next_time()

    def restore_watermark(self, watermark: int) -> None:
        """Sets the watermark without firing, after a restore."""
        self._watermark = watermark

    def advance_watermark(self, watermark: int, on_timer: OnTimer) -> None:
        self._watermark = watermark
        self._fire(self._state.event_timers, watermark, on_timer)

    def advance_processing_time(self, now_ms: int, on_timer: OnTimer) -> None:
        self._fire(self._state.processing_timers, now_ms, on_timer)

    def _fire(self, table: TimerTable, until_ms: int, on_timer: OnTimer) -> None:
        """Fires in time order, timers registered meanwhile included, while due."""
        state = self._state
        while (time_ms := table.next_time()) is not None and time_ms <= until_ms:
            due = table.due(time_ms)
            self.fired += len(due)
            state.prefetch([key for key, _ in due])
            for key, namespace in due:
                # False: an earlier timer of this very instant deleted it.
                if table.remove(time_ms, key, namespace):
                    state.key = key
                    state.namespace = namespace
                    on_timer(time_ms, key, namespace)
        state.namespace = None
