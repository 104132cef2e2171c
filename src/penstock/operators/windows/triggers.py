"""Triggers: when a window is evaluated, and whether its contents go then.

A trigger object is shared by all keys and windows: what it must remember is partitioned state,
scoped to the key and the window of the call.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from penstock.core.errors import ProgramError
from penstock.core.times import saturating_add, to_millis
from penstock.core.type_variables import T, W
from penstock.core.types import Types
from penstock.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.logic import MetricGroup
    from penstock.state.descriptors import StateDescriptor


class TriggerResult(Enum):
    """What happens to the window: evaluate it, drop its contents, both, or nothing."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self._value_[0]

    def is_purge(self) -> bool:
        return self._value_[1]


CONTINUE = TriggerResult.CONTINUE
FIRE = TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class TriggerContext(ABC):
    """Timers and state of the key and window for which a trigger is called."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Returns the clock, in milliseconds."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Returns the operator's metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Returns the operator's watermark."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Registers a call of `on_processing_time` when the clock reaches `time`."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Registers a call of `on_event_time` when the watermark reaches `time`."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Deletes the processing-time timer of that time."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Deletes the event-time timer of that time."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Returns state of the key and window of this call; valid during the call only."""


class OnMergeContext(TriggerContext):
    """What `on_merge` is given."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merges the trigger state of the replaced windows into that of the result."""


_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(ABC, Generic[T, W]):
    """Decides when a window is evaluated."""

    # PyFlink nests the contexts in the class; programs annotate with either name.
    TriggerContext: TypeAlias = _TriggerContext
    OnMergeContext: TypeAlias = _OnMergeContext

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """A record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A processing-time timer of the window fired."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """An event-time timer of the window fired."""

    def can_merge(self) -> bool:
        """Returns whether the trigger works with windows that merge."""
        return False

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Several windows became `window`."""
        raise ProgramError(
            f"{type(self).__name__} says can_merge() but has no on_merge(window, ctx); add it, "
            "or return False from can_merge()."
        )

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """The window is gone: delete its timers and state."""


class _BuiltIn(Trigger):
    """Base of the built-in triggers: timers do nothing unless a trigger says so.

    Attributes:
        shown: Its setting, as text shows it.
    """

    shown: object = ""

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown})"


class EventTimeTrigger(_BuiltIn):
    """Fires when the watermark reaches the window's last instant, then on each late record."""

    @staticmethod
    def create() -> EventTimeTrigger:
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        last = window.max_timestamp()
        if last <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(last)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # A timer at or behind the watermark would fire a window that has fired already; the
        # record that caused the merge fires it in on_element.
        last = window.max_timestamp()
        if last > ctx.get_current_watermark():
            ctx.register_event_time_timer(last)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_BuiltIn):
    """Fires when the clock reaches the window's last instant."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        last = window.max_timestamp()
        if last > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(last)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class NeverTrigger(_BuiltIn):
    """Never fires; the default of `GlobalWindows`."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        return

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        return


class PurgingTrigger(Trigger):
    """Makes another trigger drop the contents whenever it fires."""

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        return FIRE_AND_PURGE if result.is_fire() else result

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        return FIRE_AND_PURGE if result.is_fire() else result

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_event_time(time, window, ctx)
        return FIRE_AND_PURGE if result.is_fire() else result

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


class CountTrigger(_BuiltIn):
    """Fires at each n-th record of a window; the contents stay."""

    def __init__(self, window_size: int) -> None:
        if isinstance(window_size, bool) or not isinstance(window_size, int) or window_size <= 0:
            raise ProgramError(
                f"CountTrigger needs a positive number of records, not {window_size!r}."
            )
        self.count = self.shown = window_size
        self.descriptor = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        state = ctx.get_partitioned_state(self.descriptor)
        state.add(1)
        if state.get() >= self.count:
            state.clear()
            return FIRE
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.descriptor)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self.descriptor).clear()


class _Continuous(_BuiltIn):
    """Base of the two triggers that fire every interval; one pending fire time per window."""

    def __init__(self, interval: Any) -> None:
        name = type(self).__name__
        self.interval = self.shown = to_millis(interval, f"the interval of {name}")
        if self.interval <= 0:
            raise ProgramError(f"{name} needs an interval > 0 ms, not {self.interval} ms.")
        self.descriptor = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @classmethod
    def of(cls, interval: Any) -> Self:
        return cls(interval)

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


class ContinuousEventTimeTrigger(_Continuous):
    """Fires every interval of event time, and when the watermark reaches the window's end."""

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

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires every interval of the clock, and at the window's end."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        self._schedule_first(ctx.get_current_processing_time(), window, ctx)
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


class DeltaTrigger(_BuiltIn):
    """Fires when a record differs by more than a threshold from the one that fired last."""

    def __init__(self, threshold: float, delta: Any) -> None:
        self.threshold = self.shown = threshold
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

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self.descriptor).clear()
