"""What a user's function is given: state, facts about its subtask, time and timers."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.state.api import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    OperatorStateStore,
)
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from penstock.operators.logic import MetricGroup, OperatorContext, OperatorLogic, OperatorTimers
    from penstock.state.api import AggregatingState, ListState, MapState, ReducingState, ValueState
    from penstock.state.keyed import KeyedState


class OperatorKeyedState(KeyedStateStore):
    """Gives state by key. Call it in `open`; what it returns always means the current key.

    Args:
        state: The keyed state of the operator, None without keys.
        operator_name: For errors.
        binding: How states are bound, see `KeyedState.get_state`.
    """

    why_none = (
        "its input is not keyed. Call key_by first, or mix in CheckpointedFunction and use "
        "operator state."
    )

    def __init__(self, state: KeyedState | None, operator_name: str, **binding: Any) -> None:
        self._state = state
        self._operator_name = operator_name
        self._binding = binding

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key."""
        state: ValueState[Any] = self._get(state_descriptor, ValueStateDescriptor, "get_state")
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""
        state: ListState[Any] = self._get(state_descriptor, ListStateDescriptor, "get_list_state")
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key."""
        state: MapState[Any, Any] = self._get(state_descriptor, MapStateDescriptor, "get_map_state")
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value per key, which `add` reduces into."""
        state: ReducingState[Any] = self._get(
            state_descriptor, ReducingStateDescriptor, "get_reducing_state"
        )
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """One accumulator per key, which `add` aggregates into."""
        state: AggregatingState[Any, Any] = self._get(
            state_descriptor, AggregatingStateDescriptor, "get_aggregating_state"
        )
        return state

    def _get(self, descriptor: Any, kind: type[StateDescriptor], method: str) -> Any:
        if not isinstance(descriptor, kind):
            raise ProgramError(
                f"{method} of operator '{self._operator_name}' was given "
                f"{type(descriptor).__name__}; it takes a {kind.__name__}."
            )
        if self._state is None:
            raise ProgramError(
                f"operator '{self._operator_name}' asked for keyed state "
                f"'{descriptor.get_name()}', but {self.why_none}"
            )
        return self._state.get_state(descriptor, **self._binding)


class RuntimeContext(OperatorKeyedState):
    """Facts about the running subtask, and its state and metrics."""

    def __init__(
        self, context: OperatorContext, why_none: str | None = None, **binding: Any
    ) -> None:
        super().__init__(context.keyed_state, context.name, **binding)
        self._context = context
        self.why_none = why_none or self.why_none

    def get_task_name(self) -> str:
        return self._context.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """From 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Number of the job attempt, from 0."""
        return self._context.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Name with place and attempt, all counted from 1: `Map (1/4)#0`, as Flink writes it."""
        context = self._context
        return f"{context.name} ({context.subtask + 1}/{context.parallelism})#{context.attempt}"

    def get_job_parameter(self, key: str, default_value: Any = None) -> Any:
        """One of the job's global parameters."""
        return self._context.parameters.get(key, default_value)

    def get_job_parameters(self) -> dict[str, str]:
        """A copy of the job's global parameters."""
        return dict(self._context.parameters)

    def get_metrics_group(self) -> MetricGroup:
        """Metrics of this operator."""
        return self._context.metrics


# Functions with operator state: lists that are distributed again when the parallelism changes.
#
# PyFlink has no such interface; the names are those of Flink's Java API.


class CheckpointedFunction(ABC):
    """Mix it into a user function that keeps operator state.

    A snapshot is taken at the end of every epoch. `initialize_state` comes before `open`, and again
    whenever the subtask is set back to another version of its state.
    """

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Puts what must survive into the state obtained in `initialize_state`."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Obtains state and reads what it holds; forgets what the object held before."""


class SnapshotContext(FunctionSnapshotContext):
    """What a function may know while state is taken."""

    def __init__(self, number: int, timestamp_ms: int) -> None:
        self._number = number
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._number

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms


class InitializationContext(FunctionInitializationContext):
    """Where a function finds its state."""

    def __init__(self, context: OperatorContext, *, restored: bool) -> None:
        self._context = context
        self._restored = restored

    def is_restored(self) -> bool:
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._context.operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        context = self._context
        if context.keyed_state is None:
            raise ProgramError(
                f"operator '{context.name}' asked for keyed state in initialize_state, but its "
                "input is not keyed. Call key_by first, or use get_operator_state_store()."
            )
        return OperatorKeyedState(context.keyed_state, context.name)


class TimeDomain(Enum):
    """Whether a timer waits for a watermark or for the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Time, and timers of the current key."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Milliseconds since 1970; stands still within an epoch, so that a retry sees the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark; `-2**63` before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Calls `on_timer` for this key when the clock reaches the time; twice is once."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Calls `on_timer` for this key when the watermark reaches the time; twice is once."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of this key; does nothing if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of this key; does nothing if there is none.

        It may be due by the time of the record, whose watermark comes later.
        """


class KeyedTimerService(TimerService):
    """Timers of keyed operators."""

    def __init__(self, timers: OperatorTimers, state: KeyedState) -> None:
        self._timers = timers
        self._state = state

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        if timestamp.__class__ is not int:
            timestamp = checked_time(timestamp)
        state = self._state
        state.processing_timers.add(timestamp, state.key, state.namespace)

    def register_event_time_timer(self, timestamp: int) -> None:
        if timestamp.__class__ is not int:
            timestamp = checked_time(timestamp)
        state = self._state
        state.event_timers.add(timestamp, state.key, state.namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        state = self._state
        state.processing_timers.remove(checked_time(timestamp), state.key, state.namespace)

    def delete_event_time_timer(self, timestamp: int) -> None:
        state = self._state
        state.event_timers.remove(checked_time(timestamp), state.key, state.namespace)


class TimeOnlyService(TimerService):
    """Time where there is no key: one may look at it, but not set timers.

    Args:
        logic: The operator.
        reason: Why there is no key, and what to do.
    """

    def __init__(
        self,
        logic: OperatorLogic,
        reason: str = "its input is not keyed. Call key_by first and use a KeyedProcessFunction.",
    ) -> None:
        self._logic = logic
        self._reason = reason

    def current_processing_time(self) -> int:
        return self._logic.context.clock.now_ms

    def current_watermark(self) -> int:
        return self._logic.watermark

    def _refuse(self, timestamp: int) -> None:
        raise ProgramError(
            f"operator '{self._logic.context.name}' was asked for a timer; timers belong to keys, "
            f"but {self._reason}"
        )

    register_processing_time_timer = register_event_time_timer = _refuse
    delete_processing_time_timer = delete_event_time_timer = _refuse


def checked_time(timestamp: Any) -> int:
    """Returns a time as int, or says what a time is."""
    if timestamp.__class__ is int:
        return timestamp
    if isinstance(timestamp, float) and math.isfinite(timestamp):
        return int(timestamp)  # As PyFlink does: `time.time() * 1000` is a float.
    if not isinstance(timestamp, bool):
        try:
            return operator.index(timestamp)
        except TypeError:
            pass
    raise ProgramError(
        f"a timer's time is an int in milliseconds, but got {type(timestamp).__name__} "
        f"{timestamp!r:.80}. Round it, for example int(seconds * 1000)."
    )
