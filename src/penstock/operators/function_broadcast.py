"""Process functions over a stream and a broadcast stream.

Every subtask receives every broadcast record and writes broadcast state; the other side reads it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from penstock.core.type_variables import IN1, IN2, KEY, OUT
from penstock.operators.function_base import Function
from penstock.operators.function_process import KeyedRecordContext, RecordContext, TimerContext

if TYPE_CHECKING:
    from penstock.operators.broadcast import BroadcastStates
    from penstock.state.api import BroadcastState, ReadOnlyBroadcastState
    from penstock.state.descriptors import MapStateDescriptor


class BroadcastContext(RecordContext):
    """On the broadcast side; also of keyed functions."""

    states: BroadcastStates

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The broadcast state of that descriptor, writable."""
        return self.states.writable(state_descriptor)


class ReadingContext(RecordContext):
    """On the other side."""

    states: BroadcastStates

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor
    ) -> ReadOnlyBroadcastState[Any, Any]:
        """The broadcast state of that descriptor, read only."""
        return self.states.readable(state_descriptor)


class KeyedReadingContext(KeyedRecordContext, ReadingContext):
    """On the keyed side."""


class ReadingTimerContext(TimerContext, KeyedReadingContext):
    """In `on_timer`."""


class BaseBroadcastProcessFunction(Function):
    """What both broadcast process functions share."""

    BaseContext: TypeAlias = RecordContext
    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = ReadingContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A stream without keys, with a broadcast stream."""

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Processes one record of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        """Processes one broadcast record; must do the same in every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A keyed stream, with a broadcast stream; keyed state belongs to the keyed side only."""

    ReadOnlyContext: TypeAlias = KeyedReadingContext
    OnTimerContext: TypeAlias = ReadingTimerContext

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
