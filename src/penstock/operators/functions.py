"""User functions: what programs subclass, or give as a plain callable.

The names and shapes are PyFlink's. Everything optional has a default, everything required is
abstract, so that a forgotten method is found when the object is made. Results of process functions
are yielded, or returned as an iterable, or None for no output. A pair `(OutputTag, value)` goes to
that side output, as does `ctx.output(tag, value)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP
from penstock.core.type_variables import IN1, IN2, KEY, OUT
from penstock.operators.runtime_context import RuntimeContext, TimeDomain, TimerService
from penstock.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorLogic
    from penstock.operators.results import SideOutputs
    from penstock.state.api import BroadcastState, ReadOnlyBroadcastState
    from penstock.state.keyed import KeyedState


class Function(ABC):  # noqa: B024 - each subclass says what is required
    """Base of all user functions with a life cycle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first record of a subtask; obtain state and connections here."""

    def close(self) -> None:
        """Called once when the subtask ends, also after a failure."""


class MapFunction(Function):
    """One record in, one record out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the output record."""


class FlatMapFunction(Function):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """Yields output records, or returns an iterable of them, or None for no output."""


class FilterFunction(Function):
    """Decides which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Returns whether the record stays."""


class KeySelector(Function):
    """Gives the key of a record; must give the same one for the same record always."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key."""


class NullByteKeySelector(KeySelector):
    """Gives all records one key, as `window_all` does."""

    def get_key(self, value: Any) -> Any:
        return 0


class ReduceFunction(Function):
    """Combines two records into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination; `value1` is the one so far."""


class AggregateFunction(Function):
    """Folds records into an accumulator and makes a result of it.

    `merge` is needed by session windows only.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Returns the accumulator with the record in it; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Returns the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Returns both accumulators as one; it may be one of the two."""


class Partitioner(Function):
    """Chooses the subtask for a key, for `partition_custom`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Returns a number from 0 to `num_partitions - 1`."""


class CoMapFunction(Function):
    """A map over two connected streams; a result of None is dropped, as in PyFlink."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Maps a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Maps a record of the second stream."""


class CoFlatMapFunction(Function):
    """A flat map over two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """Yields the outputs for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """Yields the outputs for a record of the second stream."""


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


class JoinFunction(Function):
    """One result per pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Returns the result for one pair."""


class FlatJoinFunction(Function):
    """Any number of results per pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Yields the results for one pair."""


class CoGroupFunction(Function):
    """Any number of results per key and window, from all records of both sides."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Any:
        """Yields the results of one group; one of the sides may be empty."""


class ProcessJoinFunction(Function):
    """Any number of results per pair of an interval join."""

    class Context:
        """Valid during the call only; reused for every pair."""

        def __init__(self, sides: SideOutputs) -> None:
            self.left_timestamp = NO_TIMESTAMP
            self.right_timestamp = NO_TIMESTAMP
            self._sides = sides

        def get_left_timestamp(self) -> int:
            """Event time of the left record."""
            return self.left_timestamp

        def get_right_timestamp(self) -> int:
            """Event time of the right record."""
            return self.right_timestamp

        def get_timestamp(self) -> int:
            """Event time of the result: the larger one of both."""
            return max(self.left_timestamp, self.right_timestamp)

        def output(self, tag: Any, value: Any) -> None:
            """Sends a value to a side output, with the timestamp of the result."""
            self._sides.add(tag, value, self.get_timestamp())

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        """Yields the results for one pair."""


S = TypeVar("S")


class BroadcastStates:
    """The broadcast states that `broadcast(...)` named, writable and read only."""

    def __init__(self, logic: OperatorLogic, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        self._operator_name = logic.context.name
        store = logic.context.operator_state
        self._writable: dict[str, BroadcastState[Any, Any]] = {
            descriptor.get_name(): store.get_broadcast_state(descriptor)
            for descriptor in descriptors
        }
        self._readable: dict[str, ReadOnlyBroadcastState[Any, Any]] = {
            descriptor.get_name(): store.get_read_only_broadcast_state(descriptor)
            for descriptor in descriptors
        }

    def writable(self, descriptor: Any) -> BroadcastState[Any, Any]:
        return self._find(self._writable, descriptor)

    def readable(self, descriptor: Any) -> ReadOnlyBroadcastState[Any, Any]:
        return self._find(self._readable, descriptor)

    def _find(self, states: dict[str, S], descriptor: Any) -> S:
        name = descriptor.get_name() if isinstance(descriptor, MapStateDescriptor) else descriptor
        try:
            return states[name]
        except (KeyError, TypeError):
            known = ", ".join(f"'{known}'" for known in states) or "none"
            raise ProgramError(
                f"operator '{self._operator_name}' has no broadcast state {name!r:.80}; it has "
                f"{known}. Pass the MapStateDescriptor to broadcast(...) as well."
            ) from None


# Process functions over a stream and a broadcast stream.
#
# Every subtask receives every broadcast record and writes broadcast state; the other side reads it.


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
