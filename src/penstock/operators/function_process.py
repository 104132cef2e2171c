"""Process functions: records together with time, timers and side outputs.

Results are yielded, or returned as an iterable, or None for no output. A pair
`(OutputTag, value)` goes to that side output, as does `ctx.output(tag, value)`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.times import NO_TIMESTAMP
from penstock.operators.function_base import Function
from penstock.operators.user_timers import TimeDomain, TimerService

if TYPE_CHECKING:
    from penstock.operators.results import SideOutputs
    from penstock.state.keyed import KeyedState


class RecordContext:
    """What a process function may ask while it has a record; valid during the call only.

    There is one for each operator, reused for every record: its timestamp is set in the loop, its
    key is read from the state. A generator runs to its end before the next record, so what it reads
    from the context is right.
    """

    def __init__(self, timers: TimerService, sides: SideOutputs) -> None:
        self.record_timestamp = NO_TIMESTAMP
        self._timers = timers
        self._sides = sides

    def timestamp(self) -> int | None:
        """Event time of the record or timer, or None if it has none."""
        timestamp = self.record_timestamp
        return None if timestamp == NO_TIMESTAMP else timestamp

    def timer_service(self) -> TimerService:
        """Time, and on keyed streams timers."""
        return self._timers

    def output(self, tag: Any, value: Any) -> None:
        """Sends a value to a side output, with the timestamp of the record or timer."""
        self._sides.add(tag, value, self.record_timestamp)

    def current_watermark(self) -> int:
        """The watermark; `-2**63` before the first one."""
        return self._timers.current_watermark()

    def current_processing_time(self) -> int:
        """Milliseconds since 1970; stands still within an epoch."""
        return self._timers.current_processing_time()


class KeyedRecordContext(RecordContext):
    """The same on a keyed stream."""

    def __init__(self, timers: TimerService, sides: SideOutputs, state: KeyedState) -> None:
        super().__init__(timers, sides)
        self._state = state

    def get_current_key(self) -> Any:
        """The key of the record or timer."""
        return self._state.key


class TimerContext(KeyedRecordContext):
    """What `on_timer` may ask."""

    domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        """Whether an event timer or a processing timer fires."""
        return self.domain

    def output(self, tag: Any, value: Any) -> None:
        """Sends a value to a side output."""
        # A time of the clock is no event time, so such outputs carry none.
        is_event = self.domain is TimeDomain.EVENT_TIME
        self._sides.add(tag, value, self.record_timestamp if is_event else NO_TIMESTAMP)


class ProcessFunction(Function):
    """Any number of outputs per record, with access to time and side outputs."""

    Context: TypeAlias = RecordContext

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Processes one record."""


class KeyedProcessFunction(Function):
    """A process function with state and timers by key."""

    Context: TypeAlias = KeyedRecordContext
    OnTimerContext: TypeAlias = TimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Processes one record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """A timer of the current key fires."""


class CoProcessFunction(Function):
    """A process function over two connected streams."""

    Context: TypeAlias = RecordContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Processes one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Processes one record of the second stream."""


class KeyedCoProcessFunction(Function):
    """A process function over two keyed streams, which share state and timers by key."""

    Context: TypeAlias = KeyedRecordContext
    OnTimerContext: TypeAlias = TimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Processes one record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Processes one record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """A timer of the current key fires."""
