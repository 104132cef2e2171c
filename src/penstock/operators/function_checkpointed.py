"""Functions with operator state: lists that are dealt anew when the parallelism changes.

PyFlink has no such interface; the names are those of Flink's Java API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.core.errors import ProgramError
from penstock.operators.runtime_context import OperatorKeyedState
from penstock.state.api import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    OperatorStateStore,
)

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext


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
