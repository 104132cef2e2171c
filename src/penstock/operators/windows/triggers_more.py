"""Triggers that fire repeatedly within a window, or when a record differs enough from another."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.times import saturating_add
from penstock.core.types import Types
from penstock.operators.windows.triggers import (
    CONTINUE,
    FIRE,
    OnMergeContext,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from penstock.operators.windows.windows import to_ms
from penstock.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor


def _earlier(left: int, right: int) -> int:
    return min(left, right)


class _Continuous(Trigger):
    """Base of the two triggers that fire every interval; one pending fire time per window."""

    def __init__(self, interval: Any) -> None:
        name = type(self).__name__
        self.interval = to_ms(interval, f"the interval of {name}")
        if self.interval <= 0:
            raise ProgramError(f"{name} needs an interval > 0 ms, not {self.interval} ms.")
        self.descriptor = ReducingStateDescriptor("fire-time", _earlier, Types.LONG())

    def can_merge(self) -> bool:
        return True

    def _register(self, time: int, ctx: TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        raise NotImplementedError

    def _schedule(self, after: int, window: Any, state: Any, ctx: TriggerContext) -> None:
        """Schedules the next firing one interval after `after`, at the window's end at latest."""
        time = min(saturating_add(after, self.interval), window.max_timestamp())
        state.add(time)
        self._register(time, ctx)

    def _schedule_first(self, time: int, window: Any, ctx: TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.descriptor)
        if state.get() is None:
            self._schedule(time - time % self.interval, window, state, ctx)

    def _fires_at(self, time: int, window: Any, ctx: TriggerContext) -> bool:
        state = ctx.get_partitioned_state(self.descriptor)
        if state.get() != time:
            return False
        state.clear()
        self._schedule(time, window, state, ctx)
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.descriptor)
        time = ctx.get_partitioned_state(self.descriptor).get()
        if time is not None:
            self._register(time, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.descriptor)
        time = state.get()
        if time is not None:
            self._delete(time, ctx)
            state.clear()
        self._delete(window.max_timestamp(), ctx)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires every interval of event time, and when the watermark reaches the window's end."""

    @staticmethod
    def of(interval: Any) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(interval)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        last = window.max_timestamp()
        if last <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(last)
        self._schedule_first(timestamp, window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp() or self._fires_at(time, window, ctx):
            return FIRE
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires every interval of the clock, and at the window's end."""

    @staticmethod
    def of(interval: Any) -> ContinuousProcessingTimeTrigger:
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        self._schedule_first(ctx.get_current_processing_time(), window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return FIRE if self._fires_at(time, window, ctx) else CONTINUE

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


def delta_function(function: Any, user: str) -> Any:
    """Returns the callable of a function of two records, or of an object with `get_delta`."""
    found = getattr(function, "get_delta", function)
    if not callable(found):
        raise ProgramError(
            f"{user} needs a function of two records or an object with get_delta(old, new), "
            f"not {function!r}."
        )
    return found


class DeltaTrigger(Trigger):
    """Fires when a record differs by more than a threshold from the one that fired last."""

    def __init__(self, threshold: float, delta: Any) -> None:
        self.threshold = threshold
        self._delta = delta_function(delta, "DeltaTrigger")
        self.descriptor = ValueStateDescriptor("last-element")

    @staticmethod
    def of(threshold: float, delta: Any) -> DeltaTrigger:
        return DeltaTrigger(threshold, delta)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        state = ctx.get_partitioned_state(self.descriptor)
        last = state.value()
        # The record is wrapped: a value state holds no None, but a record may be None.
        if last is None:
            state.update((element,))
            return CONTINUE
        if self._delta(last[0], element) > self.threshold:
            state.update((element,))
            return FIRE
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self.descriptor).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self.threshold})"
