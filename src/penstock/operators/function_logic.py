"""Base of operators that run a user's function: its copy, its life cycle, its operator state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.core.errors import ProgramError
from penstock.operators.adapters import (
    as_instance,
    close_function,
    open_function,
    private_copy,
)
from penstock.operators.errors import describe_exception, user_code
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.runtime_context import (
    CheckpointedFunction,
    InitializationContext,
    RuntimeContext,
    SnapshotContext,
)
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.records import Batch
    from penstock.operators.functions import Function
    from penstock.state.keyed import KeyedState

Calls = tuple[Callable[..., Any], ...]
"""What to call for a record of each input of an operator."""

_log = logging.getLogger("penstock.operators")


@dataclass(frozen=True)
class FunctionSpec(OperatorSpec):
    """An operator of one function object; a subclass names its class, its methods and its logic."""

    takes: ClassVar[type[Function]]
    methods: ClassVar[tuple[str, ...]]  # Of the function, one for each input.
    logic: ClassVar[Callable[..., OperatorLogic]]
    function: Any

    def __post_init__(self) -> None:
        as_instance(self.function, self.takes)

    def calls(self, function: Any) -> Calls:
        """Returns what to call for a record of each input."""
        return tuple(getattr(function, name) for name in self.methods)

    def build(self) -> OperatorLogic:
        return self.logic(self.function, self.calls)


class FunctionLogic(OperatorLogic):
    """Opens, snapshots and closes one user function.

    Args:
        function: What the program gave; each subtask has a copy.
        calls: Returns what to call for a record of each input, of that copy.
    """

    why_no_state: str | None = None
    """Why there is no keyed state, where that is not for lack of keys."""

    def __init__(self, function: Any, calls: Callable[[Any], Calls] | None = None) -> None:
        self.function = private_copy(function)
        self.calls: Calls = () if calls is None else calls(self.function)
        self._is_open = False
        self._snapshots = 0

    def open(self) -> None:
        # Flink initializes state before it opens; the state arrives with the first restore.
        if not isinstance(self.function, CheckpointedFunction):
            self._open_function()

    def _open_function(self) -> None:
        self._is_open = True
        with user_code(self.context, what="open()"):
            open_function(self.function, RuntimeContext(self.context, self.why_no_state))

    def restore(self, state: Any) -> None:
        function = self.function
        if isinstance(function, CheckpointedFunction):
            self._forget_key()
            self._snapshots = state or 0
            where = InitializationContext(
                self.context, restored=self.context.operator_state.is_restored
            )
            with user_code(self.context, what="initialize_state()"):
                function.initialize_state(where)
            if not self._is_open:
                self._open_function()

    def snapshot(self) -> Any:
        function = self.function
        if isinstance(function, CheckpointedFunction):
            self._forget_key()
            self._snapshots += 1
            where = SnapshotContext(self._snapshots, self.context.clock.now_ms)
            with user_code(self.context, what="snapshot_state()"):
                function.snapshot_state(where)
            return self._snapshots
        return None

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._forget_key()
        try:
            close_function(self.function)
        except Exception as error:
            _log.warning(
                "close() of operator '%s' failed:\n%s", self.context.name, describe_exception(error)
            )

    def _forget_key(self) -> None:
        """Makes keyed state fail where no record or timer says which key is meant."""
        if self.context.keyed_state is not None:
            self.context.keyed_state.key = NO_KEY


def keyed_state_of(logic: OperatorLogic) -> KeyedState:
    """Returns the keyed state that a keyed operator must have."""
    state = logic.context.keyed_state
    if state is None:
        raise ProgramError(
            f"operator '{logic.context.name}' was built without keyed state; its spec must say "
            "is_keyed."
        )
    return state


def keys_of(logic: OperatorLogic, batch: Batch) -> list[Any]:
    """Returns the keys that a keyed operator's batch must carry."""
    if batch.keys is None:
        raise ProgramError(
            f"operator '{logic.context.name}' received records without keys; its input must come "
            "straight from key_by."
        )
    return batch.keys


def under_keys(logic: OperatorLogic, batch: Batch, records: Iterator[Any]) -> Iterator[Any]:
    """Returns the records of a batch; if there are keys, each becomes current before its record."""
    if logic.context.keyed_state is None:
        return records
    state, keys = logic.context.keyed_state, keys_of(logic, batch)
    state.prefetch(keys)
    return _each_under_its_key(state, keys, records)


def _each_under_its_key(
    state: KeyedState, keys: list[Any], records: Iterator[Any]
) -> Iterator[Any]:
    for key, value in zip(keys, records, strict=True):
        state.key = key
        yield value
