"""Triggers: when a window is evaluated, and whether its contents go then.

A trigger object is shared by all keys and windows: what it must remember is partitioned state,
scoped to the key and the window of the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from penstock.core.errors import ProgramError
from penstock.core.type_variables import T, W
from penstock.core.types import Types
from penstock.state.descriptors import ReducingStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.metrics import MetricGroup
    from penstock.state.api import State
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
        """Asks for `on_processing_time` once the clock reaches `time`."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Asks for `on_event_time` once the watermark reaches `time`."""

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
        """Whether the trigger works with windows that merge."""
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


class EventTimeTrigger(Trigger):
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

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
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

    def __repr__(self) -> str:
        return "EventTimeTrigger()"


class ProcessingTimeTrigger(Trigger):
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

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        last = window.max_timestamp()
        if last > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(last)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    def __repr__(self) -> str:
        return "ProcessingTimeTrigger()"


class NeverTrigger(Trigger):
    """Never fires; the default of `GlobalWindows`."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        return

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        return

    def __repr__(self) -> str:
        return "NeverTrigger()"


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


def _plus(left: int, right: int) -> int:
    return left + right


class CountTrigger(Trigger):
    """Fires at each n-th record of a window; the contents stay."""

    def __init__(self, window_size: int) -> None:
        if isinstance(window_size, bool) or not isinstance(window_size, int) or window_size <= 0:
            raise ProgramError(
                f"CountTrigger needs a positive number of records, not {window_size!r}."
            )
        self.count = window_size
        self.descriptor = ReducingStateDescriptor("count", _plus, Types.LONG())

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

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.descriptor)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        state: State = ctx.get_partitioned_state(self.descriptor)
        state.clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.count})"
