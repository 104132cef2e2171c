"""Operators that run a user's function: its copy, its life cycle, its operator state.

The base of them all, and those that are no more than a loop: map, flat map and filter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.core.copies import unchanged
from penstock.core.errors import ProgramError
from penstock.core.records import Batch
from penstock.operators.adapters import (
    as_filter,
    as_flat_map,
    as_instance,
    as_map,
    close_function,
    keeps_nothing,
    open_function,
    private_copy,
)
from penstock.operators.errors import describe_exception, user_code
from penstock.operators.functions import Function
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.results import SideOutputs, deliver, spread
from penstock.operators.runtime_context import (
    CheckpointedFunction,
    InitializationContext,
    RuntimeContext,
    SnapshotContext,
)
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

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


# Map, flat map and filter: list comprehensions around the user's function.

RESULTS_NONE: Final = "numResultsNone"
"""Counts results of `map` that are None, in batches that begin with one."""


class MapLogic(FunctionLogic):
    """Runs maps, with the key of each record current if there are keys."""

    def open(self) -> None:
        context = self.context
        is_safe = context.snapshot is unchanged or context.emits_immutable
        self._copies = not (is_safe or all(map(keeps_nothing, self.calls)))
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function, context = self.calls[input_index], self.context
        immutable, snapshot = context.immutable, context.snapshot
        records = iter(batch.values)
        given = under_keys(self, batch, records)
        # A comprehension, not list(map(...)): that would take a StopIteration of the user's
        # function for the end of the batch and lose the rest in silence.
        with user_code(context, batch.values, records):
            if self._copies:
                values = [
                    result if type(result := function(value)) in immutable else snapshot(result)
                    for value in given
                ]
            else:
                values = [function(value) for value in given]
        self.emit(values, batch.timestamps)

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Emits results; counts those that are None, so that a metric shows if all of them are."""
        if values and values[0] is None:
            nones = self.context.metrics.counter(RESULTS_NONE)
            nones.inc(sum(value is None for value in values))
        self.output.emit(Batch(values, timestamps))


class FilterLogic(FunctionLogic):
    """Runs a filter, with the key of each record current if there are keys."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function = self.calls[input_index]
        records = iter(batch.values)
        given, timestamps = under_keys(self, batch, records), batch.timestamps
        with user_code(self.context, batch.values, records):
            if timestamps is None:
                values = [value for value in given if function(value)]
            else:
                kept = [function(value) for value in given]
                values = list(compress(batch.values, kept))
                timestamps = list(compress(timestamps, kept))
        self.output.emit(Batch(values, timestamps))


class FlatMapLogic(FunctionLogic):
    """Runs flat maps, with the key of each record current if there are keys."""

    def open(self) -> None:
        self._sides = SideOutputs(unchanged)
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function = self.calls[input_index]
        records = iter(batch.values)
        given = under_keys(self, batch, records)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        values: list[Any] = []
        append = values.append
        timestamps = batch.timestamps
        with user_code(self.context, batch.values, records):
            if timestamps is None:
                for value in given:
                    result = function(value)
                    if result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
            else:
                ends: list[int] = []
                mark = ends.append
                for value in given:
                    result = function(value)
                    if result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
                    mark(len(values))
        if timestamps is not None:
            timestamps = spread(timestamps, ends, len(values))
        deliver(self.output, self._sides, values, timestamps)


@dataclass(frozen=True)
class _SimpleSpec(FunctionSpec):
    """One function of one record, which may be any callable."""

    adapt: ClassVar[Any]  # Makes one callable of it, or refuses it; a subclass names it.
    keyed: bool = False  # The input is a keyed stream.

    def __post_init__(self) -> None:
        self.adapt(self.function)

    def calls(self, function: Any) -> Calls:
        return (self.adapt(function),)

    @property
    def is_keyed(self) -> bool:
        # A plain callable has no way to reach keyed state, so it needs none and runs faster.
        return self.keyed and isinstance(self.function, Function)


class MapSpec(_SimpleSpec):
    """One record in, one out."""

    adapt = staticmethod(as_map)
    logic = MapLogic


class FlatMapSpec(_SimpleSpec):
    """One record in, any number out; outputs keep the timestamp of their record."""

    adapt = staticmethod(as_flat_map)
    logic = FlatMapLogic


class FilterSpec(_SimpleSpec):
    """Keeps some records."""

    adapt = staticmethod(as_filter)
    logic = FilterLogic
