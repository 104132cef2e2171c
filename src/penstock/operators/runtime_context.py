"""What a user function is given in `open`: its place in the job, its state, its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.state.api import KeyedStateStore
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext
    from penstock.operators.metrics import MetricGroup
    from penstock.state.api import AggregatingState, ListState, MapState, ReducingState, ValueState
    from penstock.state.keyed import KeyedState


class OperatorKeyedState(KeyedStateStore):
    """Gives state by key. Call it in `open`; what it returns always means the current key."""

    why_none = (
        "its input is not keyed. Call key_by first, or mix in CheckpointedFunction and use "
        "operator state."
    )

    def __init__(self, state: KeyedState | None, operator_name: str) -> None:
        self._state = state
        self._operator_name = operator_name

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
        return self._state.get_state(descriptor)


class RuntimeContext(OperatorKeyedState):
    """Facts about the running subtask, and its state and metrics."""

    def __init__(self, context: OperatorContext, why_none: str | None = None) -> None:
        super().__init__(context.keyed_state, context.name)
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
