"""Built-in aggregates of windows: `count`, and those over named fields.

They give the same result record by record and column by column. `sum` and the like of one field,
which are reduce functions, are in `operators/reduce.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProgramError
from penstock.core.row import Row
from penstock.operators.functions import AggregateFunction
from penstock.operators.windows.functions import WindowFunction

if TYPE_CHECKING:
    from penstock.core.records import ColumnName
    from penstock.operators.windows.windows import TimeWindow


class CountAggregate(AggregateFunction):
    """The number of records of a window."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def add_all(self, values: Iterator[Any], accumulator: int) -> int:
        """Adds the rest of a list; its iterator knows how much that is."""
        return accumulator + operator.length_hint(values)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


# Built-in aggregates over named fields: the same result record by record and column by column.
#
# An aggregate says what it does with one value (`add_value`) and with two accumulators (`merge`).
# `partials.py` folds many records of a key into one *part*, which is either an accumulator, where
# Arrow computes exactly what Python would, or the list of the values in their order, where it would
# not: sums of floats depend on the order, NaN compares with nothing, integers may exceed 64 bits.
#
# Fields that are None are left out, as in SQL: a sum, minimum, maximum or average of nothing is
# None. `count()` counts records.


class FieldAggregate(AggregateFunction):
    """One value made of one field of the records.

    Args:
        column: Name or position of the field.
    """

    kind = ""

    def __init__(self, column: ColumnName) -> None:
        if isinstance(column, bool) or not isinstance(column, str | int):
            raise ProgramError(
                f"{self.kind}_of() takes the name or the position of a field, not {column!r}."
            )
        self.column = column
        self._get = operator.itemgetter(column)

    def add_value(self, value: Any, accumulator: Any) -> Any:
        """Returns the accumulator with one value of the field in it."""
        raise NotImplementedError

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.add_value(self._get(value), accumulator)

    def add_all(self, values: Iterator[Any], accumulator: Any) -> Any:
        """Adds the rest of a list of records."""
        add_value = self.add_value
        for value in map(self._get, values):
            accumulator = add_value(value, accumulator)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.add_value(acc_b, acc_a)

    def __repr__(self) -> str:
        return f"{self.kind}_of({self.column!r})"


class SumAggregate(FieldAggregate):
    """The sum of a field."""

    kind = "sum"

    def add_value(self, value: Any, accumulator: Any) -> Any:
        if value is None:
            return accumulator
        return value if accumulator is None else accumulator + value


class MinAggregate(FieldAggregate):
    """The smallest value of a field; the first of equal ones."""

    kind = "min"

    def add_value(self, value: Any, accumulator: Any) -> Any:
        if value is None:
            return accumulator
        return value if accumulator is None or value < accumulator else accumulator


class MaxAggregate(FieldAggregate):
    """The largest value of a field; the first of equal ones."""

    kind = "max"

    def add_value(self, value: Any, accumulator: Any) -> Any:
        if value is None:
            return accumulator
        return value if accumulator is None or value > accumulator else accumulator


class AvgAggregate(FieldAggregate):
    """The average of a field; its accumulator is a sum and a number of values."""

    kind = "avg"

    def create_accumulator(self) -> Any:
        return 0, 0

    def add_value(self, value: Any, accumulator: Any) -> Any:
        if value is None:
            return accumulator
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        total, number = accumulator
        return total / number if number else None

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


Single = CountAggregate | FieldAggregate


class RowAggregate(AggregateFunction):
    """Several aggregates at once; the result is a `Row` with their names."""

    def __init__(self, parts: dict[str, Single]) -> None:
        for name, part in parts.items():
            if not isinstance(part, CountAggregate | FieldAggregate):
                raise ProgramError(
                    f"all_of({name}={part!r}): it takes count(), sum_of(), min_of(), max_of() and "
                    "avg_of()."
                )
        if not parts:
            raise ProgramError("all_of() needs at least one aggregate, such as n=count().")
        self.names = tuple(parts)
        self.parts = tuple(parts.values())

    def create_accumulator(self) -> Any:
        return tuple(part.create_accumulator() for part in self.parts)

    def add(self, value: Any, accumulator: Any) -> Any:
        return tuple(
            part.add(value, own) for part, own in zip(self.parts, accumulator, strict=True)
        )

    def get_result(self, accumulator: Any) -> Row:
        results = (part.get_result(own) for part, own in zip(self.parts, accumulator, strict=True))
        return Row.of_names(self.names, results)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return tuple(
            part.merge(left, right)
            for part, left, right in zip(self.parts, acc_a, acc_b, strict=True)
        )

    def __repr__(self) -> str:
        parts = (f"{name}={part!r}" for name, part in zip(self.names, self.parts, strict=True))
        return f"all_of({', '.join(parts)})"


class WindowRow(WindowFunction[Any, Row, Any, "TimeWindow"]):
    """Puts the key's fields, `window_start` and `window_end` before the result of an aggregate."""

    def __init__(self, key_names: tuple[str, ...]) -> None:
        self._key_names = key_names

    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Row]:
        keys = (key,) if len(self._key_names) == 1 else tuple(key)
        for result in inputs:
            named = isinstance(result, Row)
            names = result.as_dict() if named else {"value": result}
            yield Row.of_names(
                (*self._key_names, "window_start", "window_end", *names),
                (*keys, window.start, window.end, *names.values()),
            )


# -- parts -----------------------------------------------------------------------------------------

LOWERABLE: Final = (
    CountAggregate,
    SumAggregate,
    MinAggregate,
    MaxAggregate,
    AvgAggregate,
    RowAggregate,
)
"""Exact types whose parts can be made of columns; a subclass may do anything."""


def singles_of(function: AggregateFunction) -> tuple[Single, ...]:
    """Returns the aggregates inside an aggregate."""
    if isinstance(function, RowAggregate):
        return function.parts
    assert isinstance(function, CountAggregate | FieldAggregate)
    return (function,)


def take(function: AggregateFunction, part: Any, accumulator: Any) -> Any:
    """Returns the accumulator with a part in it."""
    if isinstance(function, RowAggregate):
        return tuple(map(_take_single, function.parts, part, accumulator))
    return _take_single(function, part, accumulator)


def _take_single(function: Any, part: Any, accumulator: Any) -> Any:
    if type(part) is not list:
        return function.merge(accumulator, part)
    add_value = function.add_value
    for value in part:
        accumulator = add_value(value, accumulator)
    return accumulator
