"""Process functions on one input, and what those on two inputs share with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.copies import unchanged
from penstock.core.errors import ProgramError, shorten
from penstock.core.records import Batch
from penstock.core.times import MAX_WATERMARK, NO_TIMESTAMP
from penstock.operators.errors import function_error, user_code
from penstock.operators.function_logic import (
    FlatMapLogic,
    FunctionLogic,
    FunctionSpec,
    MapLogic,
    keyed_state_of,
    keys_of,
)
from penstock.operators.functions import (
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastStates,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedReadingContext,
    KeyedRecordContext,
    ProcessFunction,
    ReadingContext,
    ReadingTimerContext,
    RecordContext,
    TimerContext,
)
from penstock.operators.results import SideOutputs, TimerResults, deliver, spread
from penstock.operators.runtime_context import KeyedTimerService, TimeDomain, TimeOnlyService
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from penstock.operators.functions import Function
    from penstock.operators.logic import OperatorLogic


class ProcessLogic(FunctionLogic):
    """Runs process functions without keys."""

    def open(self) -> None:
        self.sides = SideOutputs(self.context.snapshot)
        self.inputs = tuple(zip(self.calls, self.contexts(), strict=True))
        super().open()

    def contexts(self) -> Sequence[Any]:
        """Returns what the function is given with a record of each input."""
        return [RecordContext(TimeOnlyService(self), self.sides)] * len(self.calls)

    def restore(self, state: Any) -> None:
        self.sides.clear()
        super().restore(state)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        element, context = self.inputs[input_index]
        records = iter(batch.values)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        is_immutable = self.context.emits_immutable or snapshot is unchanged
        values: list[Any] = []
        append = values.append
        timestamps = batch.timestamps
        with user_code(self.context, batch.values, records):
            if timestamps is None:
                context.record_timestamp = NO_TIMESTAMP
                for value in records:
                    result = element(value, context)
                    if is_immutable and result is not None:
                        values += result
                    elif result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
            else:
                ends: list[int] = []
                mark = ends.append
                for timestamp, value in zip(timestamps, records, strict=True):
                    context.record_timestamp = timestamp
                    result = element(value, context)
                    if is_immutable and result is not None:
                        values += result
                    elif result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
                    mark(len(values))
        if timestamps is not None:
            timestamps = spread(timestamps, ends, len(values))
        deliver(self.output, self.sides, values, timestamps)


class KeyedProcessLogic(ProcessLogic):
    """Runs process functions with state and timers by key."""

    def contexts(self) -> Sequence[Any]:
        self.state = keyed_state_of(self)
        timers = self.context.timers
        assert timers is not None, "keyed operators have timers"
        self.timer_service = KeyedTimerService(timers, self.state)
        self.timer_results = TimerResults(self, self.sides)
        self.timer_context: Any = TimerContext(self.timer_service, self.sides, self.state)
        context = KeyedRecordContext(self.timer_service, self.sides, self.state)
        return [context] * len(self.calls)

    def restore(self, state: Any) -> None:
        self.timer_results.clear()
        super().restore(state)

    # A loop of its own: with `under_keys` the operator takes 7 % more time per record.
    def process(self, batch: Batch, input_index: int = 0) -> None:
        element, context = self.inputs[input_index]
        state, keys = self.state, keys_of(self, batch)
        records = iter(batch.values)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        is_immutable = self.context.emits_immutable or snapshot is unchanged
        values: list[Any] = []
        append = values.append
        timestamps = batch.timestamps
        state.prefetch(keys)
        with user_code(self.context, batch.values, records):
            if timestamps is None:
                context.record_timestamp = NO_TIMESTAMP
                for key, value in zip(keys, records, strict=True):
                    state.key = key
                    result = element(value, context)
                    if is_immutable and result is not None:
                        values += result
                    elif result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
            else:
                ends: list[int] = []
                mark = ends.append
                for key, timestamp, value in zip(keys, timestamps, records, strict=True):
                    state.key = key
                    context.record_timestamp = timestamp
                    result = element(value, context)
                    if is_immutable and result is not None:
                        values += result
                    elif result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
                    mark(len(values))
        if timestamps is not None:
            timestamps = spread(timestamps, ends, len(values))
        deliver(self.output, self.sides, values, timestamps)

    def advance_watermark(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        timers = self.context.timers
        assert timers is not None, "keyed operators have timers"
        self.timer_context.domain = TimeDomain.EVENT_TIME
        has_fired = timers.advance_watermark(watermark, self.on_event_timer)
        self.timer_results.flush(timestamped=True)
        if has_fired:
            self.output.emit_watermark(watermark)
        else:
            self.watermark = before

    def advance_processing_time(self, now_ms: int) -> None:
        if self.watermark == MAX_WATERMARK:
            return
        self.timer_context.domain = TimeDomain.PROCESSING_TIME
        super().advance_processing_time(now_ms)
        self.timer_results.flush(timestamped=False)

    def next_processing_timer(self) -> int | None:
        # Processing timers that are pending when the input ends are dropped.
        return None if self.watermark == MAX_WATERMARK else super().next_processing_timer()

    def on_event_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        self._on_timer(time_ms, timestamped=True)

    def on_processing_timer(self, time_ms: int, key: Any, namespace: Any) -> None:
        self._on_timer(time_ms, timestamped=False)

    def _on_timer(self, time_ms: int, *, timestamped: bool) -> None:
        context, results = self.timer_context, self.timer_results
        context.record_timestamp = time_ms
        try:
            result = self.function.on_timer(time_ms, context)
            if result is not None:
                immutable, snapshot = self.context.immutable, self.context.snapshot
                append = results.values.append
                for item in result:
                    append(item if type(item) in immutable else snapshot(item))
        except Exception as error:
            what = f"on_timer for {context.domain.name} {time_ms}, key {shorten(self.state.key)}"
            raise function_error(error, self.context, what=what) from error
        if timestamped:
            results.mark(time_ms)
        if len(results.values) >= results.LIMIT:
            results.flush(timestamped=timestamped)


class ProcessSpec(FunctionSpec):
    """A `ProcessFunction` on a stream without keys."""

    takes = ProcessFunction
    methods = ("process_element",)
    logic = ProcessLogic


class KeyedProcessSpec(FunctionSpec):
    """A `KeyedProcessFunction` on a keyed stream."""

    is_keyed = True
    takes = KeyedProcessFunction
    methods = ("process_element",)
    logic = KeyedProcessLogic


# Functions over two streams: connected ones, or a stream and a broadcast stream (input 1).
#
# Keyed ones share state and timers by key.


class CoMapLogic(MapLogic):
    """Runs maps over two inputs."""

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        if None in values:
            pairs = zip(values, timestamps or repeat(0), strict=False)
            kept = [(value, timestamp) for value, timestamp in pairs if value is not None]
            values = [value for value, _ in kept]
            timestamps = None if timestamps is None else [timestamp for _, timestamp in kept]
        self.output.emit(Batch(values, timestamps))


class BroadcastProcessLogic(ProcessLogic):
    """Runs a function without keys."""

    def __init__(self, spec: BroadcastProcessSpec) -> None:
        super().__init__(spec.function, spec.calls)
        self._descriptors = spec.descriptors

    def contexts(self) -> Sequence[Any]:
        timers = TimeOnlyService(self)
        data = ReadingContext(timers, self.sides)
        broadcast = BroadcastContext(timers, self.sides)
        data.states = broadcast.states = BroadcastStates(self, self._descriptors)
        return data, broadcast


class KeyedBroadcastProcessLogic(KeyedProcessLogic):
    """Runs a function with keys on input 0."""

    def __init__(self, spec: BroadcastProcessSpec) -> None:
        super().__init__(spec.function, spec.calls)
        self._descriptors = spec.descriptors

    def contexts(self) -> Sequence[Any]:
        super().contexts()
        data = KeyedReadingContext(self.timer_service, self.sides, self.state)
        timer = ReadingTimerContext(self.timer_service, self.sides, self.state)
        no_key = "a broadcast record has none. Set timers in process_element()."
        broadcast = BroadcastContext(TimeOnlyService(self, no_key), self.sides)
        data.states = timer.states = broadcast.states = BroadcastStates(self, self._descriptors)
        self.timer_context = timer
        return data, broadcast

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if input_index == 0:
            super().process(batch, 0)
            return
        # A broadcast record has no key: keyed state must not be reachable, not even by accident.
        self.state.key = NO_KEY
        ProcessLogic.process(self, batch, 1)


@dataclass(frozen=True)
class _CoSpec(FunctionSpec):
    keyed: bool = False  # Both inputs are keyed streams.

    @property
    def is_keyed(self) -> bool:
        return self.keyed


class CoMapSpec(_CoSpec):
    """A `CoMapFunction`; results of None are dropped, as in PyFlink."""

    takes = CoMapFunction
    methods = ("map1", "map2")
    logic = CoMapLogic


class CoFlatMapSpec(_CoSpec):
    """A `CoFlatMapFunction`."""

    takes = CoFlatMapFunction
    methods = ("flat_map1", "flat_map2")
    logic = FlatMapLogic


class CoProcessSpec(FunctionSpec):
    """A `CoProcessFunction`."""

    takes = CoProcessFunction
    methods = ("process_element1", "process_element2")
    logic = ProcessLogic


class KeyedCoProcessSpec(FunctionSpec):
    """A `KeyedCoProcessFunction`; both inputs are keyed."""

    is_keyed = True
    takes = KeyedCoProcessFunction
    methods = ("process_element1", "process_element2")
    logic = KeyedProcessLogic


@dataclass(frozen=True)
class BroadcastProcessSpec(FunctionSpec):
    """A `BroadcastProcessFunction`."""

    takes: ClassVar[type[Function]] = BroadcastProcessFunction
    methods = ("process_element", "process_broadcast_element")
    logic: ClassVar[Callable[..., OperatorLogic]] = BroadcastProcessLogic
    descriptors: tuple[MapStateDescriptor, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for descriptor in self.descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ProgramError(
                    f"broadcast state is described by a MapStateDescriptor, but got "
                    f"{type(descriptor).__name__}."
                )

    def build(self) -> OperatorLogic:
        return self.logic(self)


class KeyedBroadcastProcessSpec(BroadcastProcessSpec):
    """A `KeyedBroadcastProcessFunction`; input 0 is keyed."""

    is_keyed = True
    takes = KeyedBroadcastProcessFunction
    logic = KeyedBroadcastProcessLogic
