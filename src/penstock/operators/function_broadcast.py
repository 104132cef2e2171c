"""Process functions over a stream and a broadcast stream.

Every subtask receives every broadcast record and writes broadcast state; the other side reads it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from penstock.core.type_variables import IN1, IN2, KEY, OUT
from penstock.operators.function_base import Function

if TYPE_CHECKING:
    from penstock.operators.user_timers import TimeDomain, TimerService
    from penstock.state.api import BroadcastState, ReadOnlyBroadcastState
    from penstock.state.descriptors import MapStateDescriptor


class BaseBroadcastProcessFunction(Function):
    """What both broadcast process functions share."""

    class BaseContext:
        """Time and side outputs."""

        def timestamp(self) -> int | None:
            """Event time of the record, or None if it has none."""
            raise NotImplementedError

        def current_processing_time(self) -> int:
            """Milliseconds since 1970; stands still within an epoch."""
            raise NotImplementedError

        def current_watermark(self) -> int:
            """The watermark; `-2**63` before the first one."""
            raise NotImplementedError

        def output(self, tag: Any, value: Any) -> None:
            """Sends a value to a side output."""
            raise NotImplementedError

    class Context(BaseContext):
        """On the broadcast side."""

        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> BroadcastState[Any, Any]:
            """The broadcast state of that descriptor, writable."""
            raise NotImplementedError

    class ReadOnlyContext(BaseContext):
        """On the other side."""

        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """The broadcast state of that descriptor, read only."""
            raise NotImplementedError


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A stream without keys, with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """On the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """On the other side."""

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Processes one record of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        """Processes one broadcast record; must do the same in every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A keyed stream, with a broadcast stream; keyed state belongs to the keyed side only."""

    class Context(BaseBroadcastProcessFunction.Context):
        """On the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """On the keyed side."""

        def timer_service(self) -> TimerService:
            """Time, and timers of the current key."""
            raise NotImplementedError

        def get_current_key(self) -> Any:
            """The key of the record or timer."""
            raise NotImplementedError

    class OnTimerContext(ReadOnlyContext):
        """In `on_timer`."""

        def time_domain(self) -> TimeDomain:
            """Whether an event timer or a processing timer fires."""
            raise NotImplementedError

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Any:
        """Processes one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Any:
        """Processes one broadcast record; must do the same in every subtask."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        """A timer of the current key fires."""
