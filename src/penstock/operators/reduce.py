"""Rolling reduce and the built-in rolling aggregations of keyed streams.

Each record gives one output: the value so far, with that record's timestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.naming import nothing_returned
from penstock.core.records import Batch
from penstock.operators.adapters import as_reduce
from penstock.operators.aggregations import RollingAggregation, aggregation
from penstock.operators.errors import user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.logic import OperatorLogic, OperatorSpec

_ABSENT: Final = object()


@dataclass(frozen=True)
class ReduceSpec(OperatorSpec):
    """`KeyedStream.reduce`."""

    is_keyed = True
    function: Any  # A `ReduceFunction` or any callable of two values.

    def __post_init__(self) -> None:
        as_reduce(self.function)

    def build(self) -> OperatorLogic:
        return ReduceLogic(self.function)


@dataclass(frozen=True)
class AggregationSpec(OperatorSpec):
    """`KeyedStream.sum`, `min`, `max`, `min_by`, `max_by`."""

    is_keyed = True
    kind: str  # One of these five names.
    # Position or name of the field; 0 also means the whole of a plain value.
    position: int | str = 0

    def __post_init__(self) -> None:
        aggregation(self.kind, self.position)

    def build(self) -> OperatorLogic:
        return ReduceLogic(aggregation(self.kind, self.position))


class ReduceLogic(FunctionLogic):
    """Folds each record into the value of its key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._call: Callable[[Any, Any], Any] = as_reduce(self.function)

    def open(self) -> None:
        self._state = keyed_state_of(self)
        self._table = self._state.value_table("reduce")
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        keys = keys_of(self, batch)
        self._state.prefetch(keys)
        self.output.emit(Batch(self._fold(keys, batch.values), batch.timestamps))

    def _fold(self, keys: list[Any], inputs: list[Any]) -> list[Any]:
        state, table, absent = self._state, self._table, _ABSENT
        immutable, snapshot = self.context.immutable, self.context.snapshot
        # The table is asked once per key and batch.
        held: dict[Any, Any] = {}
        look = held.get
        values: list[Any] = []
        append = values.append
        records = iter(inputs)
        with user_code(self.context, inputs, records):
            function = self._call
            if isinstance(function, RollingAggregation):
                function = function.specialized(inputs)
            try:
                for key, value in zip(keys, records, strict=True):
                    state.key = key
                    current = look(key, absent)
                    if current is absent:
                        current = table.get(key, None)
                    if current is None:
                        result = value
                    else:
                        result = function(current, value)
                        if result is None:
                            raise nothing_returned(self._call, "the combined record")
                    held[key] = result
                    append(result if type(result) in immutable else snapshot(result))
            except TypeError as error:
                rolling = self._call
                if isinstance(rolling, RollingAggregation):
                    clearer = rolling.explained(error)
                    if clearer is not None:
                        raise clearer from error
                raise
        for key, value in held.items():
            table.put(key, None, value)
        return values
