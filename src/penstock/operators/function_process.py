"""Process functions: records together with time, timers and side outputs.

Results are yielded, or returned as an iterable, or None for no output. A pair
`(OutputTag, value)` goes to that side output, as does `ctx.output(tag, value)`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.operators.function_base import Function

if TYPE_CHECKING:
    from penstock.operators.user_timers import TimeDomain, TimerService


class _TimeContext:
    """What every context of a process function offers."""

    def timestamp(self) -> int | None:
        """Event time of the record or timer, or None if it has none."""
        raise NotImplementedError

    def timer_service(self) -> TimerService:
        """Time, and on keyed streams timers."""
        raise NotImplementedError

    def output(self, tag: Any, value: Any) -> None:
        """Sends a value to a side output, with the timestamp of the record or timer."""
        raise NotImplementedError


class _KeyedContext(_TimeContext):
    """A context on a keyed stream."""

    def get_current_key(self) -> Any:
        """The key of the record or timer."""
        raise NotImplementedError


class _TimerContext(_KeyedContext):
    """A context in `on_timer`."""

    def time_domain(self) -> TimeDomain:
        """Whether an event timer or a processing timer fires."""
        raise NotImplementedError


class ProcessFunction(Function):
    """Any number of outputs per record, with access to time and side outputs."""

    class Context(_TimeContext):
        """Valid during the call only."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Processes one record."""


class KeyedProcessFunction(Function):
    """A process function with state and timers by key."""

    class Context(_KeyedContext):
        """Valid during the call only."""

    class OnTimerContext(_TimerContext):
        """Valid during the call only."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Processes one record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """A timer of the current key fires."""


class CoProcessFunction(Function):
    """A process function over two connected streams."""

    class Context(_TimeContext):
        """Valid during the call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Processes one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Processes one record of the second stream."""


class KeyedCoProcessFunction(Function):
    """A process function over two keyed streams, which share state and timers by key."""

    class Context(_KeyedContext):
        """Valid during the call only."""

    class OnTimerContext(_TimerContext):
        """Valid during the call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Processes one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Processes one record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """A timer of the current key fires."""
