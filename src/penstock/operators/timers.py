"""Timers of keyed operators, in both time domains.

A million timers that are due at once would make one epoch of many seconds. Where nothing that comes
behind them is at hand, the subtask bounds the time of firing (`slice_ends`), as Flink's
interruptible timers make room for barriers. What is left fires in the next epochs, before any
record; the watermark waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.core.times import MIN_WATERMARK

if TYPE_CHECKING:
    from penstock.core.clock import EpochClock
    from penstock.state.keyed import KeyedState
    from penstock.state.timers import TimerTable

OnTimer = Callable[[int, Any, Any], None]

TIMERS_AT_ONCE: Final = 4096
"""Timers that are looked up together."""

TIMERS_BETWEEN_LOOKS: Final = 16
"""Timers that fire before the next look at the clock."""


class OperatorTimers:
    """Fires the timers of one operator; the timers themselves are keyed state."""

    def __init__(self, state: KeyedState, clock: EpochClock) -> None:
        self._state = state
        self._clock = clock
        self._watermark = MIN_WATERMARK
        self.fired = 0
        """Timers that fired since the last epoch began."""
        self.slice_ends: float | None = None
        """By `time.perf_counter`, when firing stops although more is due; None for never."""

    def current_watermark(self) -> int:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._clock.now_ms

    def next_processing_timer(self) -> int | None:
        return self._state.processing_timers.next_time()

    def restore_watermark(self, watermark: int) -> None:
        """Sets the watermark without firing, after a restore."""
        self._watermark = watermark

    def is_slice_over(self) -> bool:
        """Returns whether what is due is to wait for the next epoch."""
        return self.slice_ends is not None and time.perf_counter() >= self.slice_ends

    def advance_watermark(self, watermark: int, on_timer: OnTimer) -> bool:
        """Fires event timers; returns whether nothing up to the watermark is left."""
        self._watermark = watermark
        return self._fire(self._state.event_timers, watermark, on_timer)

    def advance_processing_time(self, now_ms: int, on_timer: OnTimer) -> None:
        self._fire(self._state.processing_timers, now_ms, on_timer)

    def _fire(self, table: TimerTable, until_ms: int, on_timer: OnTimer) -> bool:
        """Fires in time order, timers registered meanwhile included, while due."""
        state = self._state
        while (time_ms := table.next_time()) is not None and time_ms <= until_ms:
            due = table.due(time_ms, TIMERS_AT_ONCE)
            state.prefetch([key for key, _ in due])
            for count, (key, namespace) in enumerate(due):
                if count and count % TIMERS_BETWEEN_LOOKS == 0 and self.is_slice_over():
                    self.fired += count
                    state.namespace = None
                    return False
                # False: an earlier timer of this very instant deleted it.
                if table.remove(time_ms, key, namespace):
                    state.key = key
                    state.namespace = namespace
                    on_timer(time_ms, key, namespace)
            self.fired += len(due)
        state.namespace = None
        return True
