"""Functions over two streams: connected ones, or a stream and a broadcast stream (input 1).

Keyed ones share state and timers by key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.errors import ProgramError
from penstock.core.records import Batch
from penstock.operators.function_logic import FunctionSpec
from penstock.operators.functions import (
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastStates,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedReadingContext,
    ReadingContext,
    ReadingTimerContext,
)
from penstock.operators.process import Element, KeyedProcessLogic, ProcessLogic
from penstock.operators.runtime_context import TimeOnlyService
from penstock.operators.simple import FlatMapLogic, MapLogic
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from penstock.operators.functions import Function
    from penstock.operators.logic import OperatorLogic


class CoFlatMapLogic(FlatMapLogic):
    """Runs flat maps over two inputs."""

    def calls(self) -> tuple[Callable[[Any], Any], ...]:
        return (self.function.flat_map1, self.function.flat_map2)


class CoMapLogic(MapLogic):
    """Runs maps over two inputs."""

    def calls(self) -> tuple[Callable[[Any], Any], ...]:
        return (self.function.map1, self.function.map2)

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        if None in values:
            pairs = zip(values, timestamps or repeat(0), strict=False)
            kept = [(value, timestamp) for value, timestamp in pairs if value is not None]
            values = [value for value, _ in kept]
            timestamps = None if timestamps is None else [timestamp for _, timestamp in kept]
        self.output.emit(Batch(values, timestamps))


class CoProcessLogic(ProcessLogic):
    """Two inputs without keys."""

    def elements(self) -> tuple[Element, ...]:
        return (self.function.process_element1, self.function.process_element2)


class KeyedCoProcessLogic(KeyedProcessLogic):
    """Two keyed inputs."""

    def elements(self) -> tuple[Element, ...]:
        return (self.function.process_element1, self.function.process_element2)


class BroadcastProcessLogic(ProcessLogic):
    """Runs a function without keys."""

    def __init__(self, function: Any, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function)
        self._descriptors = descriptors

    def prepare(self) -> None:
        timers = TimeOnlyService(self)
        data = ReadingContext(timers, self.sides)
        broadcast = BroadcastContext(timers, self.sides)
        data.states = broadcast.states = BroadcastStates(self, self._descriptors)
        self.inputs = (
            (self.function.process_element, data),
            (self.function.process_broadcast_element, broadcast),
        )


class KeyedBroadcastProcessLogic(KeyedProcessLogic):
    """Runs a function with keys on input 0."""

    def __init__(self, function: Any, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function)
        self._descriptors = descriptors

    def prepare(self) -> None:
        super().prepare()
        data = KeyedReadingContext(self.timer_service, self.sides, self.state)
        timer = ReadingTimerContext(self.timer_service, self.sides, self.state)
        no_key = "a broadcast record has none. Set timers in process_element()."
        broadcast = BroadcastContext(TimeOnlyService(self, no_key), self.sides)
        data.states = timer.states = broadcast.states = BroadcastStates(self, self._descriptors)
        self.timer_context = timer
        self.inputs = (
            (self.function.process_element, data),
            (self.function.process_broadcast_element, broadcast),
        )

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
    logic = CoMapLogic


class CoFlatMapSpec(_CoSpec):
    """A `CoFlatMapFunction`."""

    takes = CoFlatMapFunction
    logic = CoFlatMapLogic


class CoProcessSpec(FunctionSpec):
    """A `CoProcessFunction`."""

    takes = CoProcessFunction
    logic = CoProcessLogic


class KeyedCoProcessSpec(FunctionSpec):
    """A `KeyedCoProcessFunction`; both inputs are keyed."""

    is_keyed = True
    takes = KeyedCoProcessFunction
    logic = KeyedCoProcessLogic


@dataclass(frozen=True)
class BroadcastProcessSpec(FunctionSpec):
    """A `BroadcastProcessFunction`."""

    takes: ClassVar[type[Function]] = BroadcastProcessFunction
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
        return self.logic(self.function, tuple(self.descriptors))


class KeyedBroadcastProcessSpec(BroadcastProcessSpec):
    """A `KeyedBroadcastProcessFunction`; input 0 is keyed."""

    is_keyed = True
    takes = KeyedBroadcastProcessFunction
    logic = KeyedBroadcastProcessLogic
