"""Process functions over a stream (input 0) and a broadcast stream (input 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.core.errors import ProgramError
from penstock.operators.adapters import as_instance
from penstock.operators.function_broadcast import (
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedReadingContext,
    ReadingContext,
    ReadingTimerContext,
)
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.process import KeyedProcessLogic, ProcessLogic
from penstock.operators.user_timers import TimeOnlyService
from penstock.state.descriptors import MapStateDescriptor
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.state.api import BroadcastState, ReadOnlyBroadcastState

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


@dataclass(frozen=True)
class BroadcastProcessSpec(OperatorSpec):
    """A `BroadcastProcessFunction`."""

    function: BroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]

    def __post_init__(self) -> None:
        as_instance(self.function, BroadcastProcessFunction)
        _check(self.descriptors)

    def build(self) -> OperatorLogic:
        return BroadcastProcessLogic(self.function, tuple(self.descriptors))


@dataclass(frozen=True)
class KeyedBroadcastProcessSpec(OperatorSpec):
    """A `KeyedBroadcastProcessFunction`; input 0 is keyed."""

    is_keyed = True
    function: KeyedBroadcastProcessFunction
    descriptors: tuple[MapStateDescriptor, ...]

    def __post_init__(self) -> None:
        as_instance(self.function, KeyedBroadcastProcessFunction)
        _check(self.descriptors)

    def build(self) -> OperatorLogic:
        return KeyedBroadcastProcessLogic(self.function, tuple(self.descriptors))


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


def _check(descriptors: Any) -> None:
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise ProgramError(
                f"broadcast state is described by a MapStateDescriptor, but got "
                f"{type(descriptor).__name__}."
            )
