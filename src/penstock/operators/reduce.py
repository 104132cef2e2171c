"""Rolling reduce and the built-in rolling aggregations of keyed streams.

Each record gives one output: the value so far, with that record's timestamp.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.naming import nothing_returned
from penstock.core.records import Batch
from penstock.operators.adapters import as_reduce
from penstock.operators.aggregations import RollingAggregation, aggregation
from penstock.operators.errors import user_code
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.logic import OperatorLogic, OperatorSpec

IMMUTABLE: Final = frozenset(
    (
        *(str, int, float, bool, bytes, complex, type(None), tuple, frozenset),
        *(decimal.Decimal, datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    )
)
"""Types whose values may be in the state and in the output at once."""

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
        # Built-in aggregations never change a value in place.
        return ReduceLogic(aggregation(self.kind, self.position), in_place=False)


class ReduceLogic(FunctionLogic):
    """Folds each record into the value of its key."""

    def __init__(self, function: Any, *, in_place: bool = True) -> None:
        super().__init__(function)
        self._call: Callable[[Any, Any], Any] = as_reduce(self.function)
        self._in_place = in_place

    def open(self) -> None:
        self._state = keyed_state_of(self)
        self._table = self._state.value_table("reduce")
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        keys = keys_of(self, batch)
        self._state.prefetch(keys)
        if self._in_place and not IMMUTABLE.issuperset(map(type, batch.values)):
            values = self._fold_with_copies(keys, batch.values)
        else:
            values = self._fold(keys, batch.values)
        self.output.emit(Batch(values, batch.timestamps))

    def _fold(self, keys: list[Any], inputs: list[Any]) -> list[Any]:
        table, absent = self._table, _ABSENT
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
                    append(result)
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

    def _fold_with_copies(self, keys: list[Any], inputs: list[Any]) -> list[Any]:
        """Emits copies: a function may change its first argument, which is the state, in place."""
        function, table, copy = self._call, self._table, _copy
        values: list[Any] = []
        records = iter(inputs)
        with user_code(self.context, inputs, records):
            for key, value in zip(keys, records, strict=True):
                current = table.get(key, None)
                # The input may be held by other operators too.
                if current is None:
                    result = copy(value)
                else:
                    result = function(current, copy(value))
                    if result is None:
                        raise nothing_returned(function, "the combined record")
                table.put(key, None, result)
                values.append(copy(result))
        return values


def _copy(value: Any) -> Any:
    if type(value) in IMMUTABLE:
        return value
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        # Slower, but takes classes that pickle cannot name.
        return deepcopy(value)
