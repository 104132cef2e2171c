"""Built-in aggregations of windows, folded at C speed: `count`, and one field of the records.

Folding a list gives bit by bit what folding its records one by one gives: no compensated sums, and
the first record wins ties.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from penstock.operators.aggregations import Get, Replace, aggregation, field_access
from penstock.operators.function_base import AggregateFunction
from penstock.operators.windows.folded import FoldedContents
from penstock.operators.windows.window_state import Contents, ContentsSpec

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext


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


@dataclass(frozen=True, slots=True)
class FieldContents(ContentsSpec):
    """`sum`, `min`, `max`, `min_by` or `max_by` of one field."""

    kind: str  # One of these five names.
    # Position or name of the field; 0 also means the whole of a plain value.
    position: int | str = 0

    def __post_init__(self) -> None:
        aggregation(self.kind, self.position)

    def open(self, context: OperatorContext) -> Contents:
        return _Field(context, self.kind, self.position)


class _Field(FoldedContents):
    """The record that the aggregation made so far."""

    def __init__(self, context: OperatorContext, kind: str, position: int | str) -> None:
        super().__init__(context)
        self._kind = kind
        self._position = position
        self._rolling = aggregation(kind, position)
        self.next = self._rolling  # type: ignore[assignment]
        self._access: dict[type, tuple[Get, Replace]] = {}

    def fold_new(self, values: Iterable[Any]) -> Any:
        records = iter(values)
        return self.fold(records, next(records))

    def first(self, value: Any) -> Any:
        return value

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        try:
            return self._folded(list(values), accumulator)
        except TypeError as error:
            clearer = self._rolling.explained(error)
            if clearer is None:
                raise
            raise clearer from error

    def _folded(self, rest: list[Any], accumulator: Any) -> Any:
        kinds = set(map(type, rest))
        if len(kinds) != 1:
            return functools.reduce(self._rolling, rest, accumulator)
        get, replace = self._access_to(kinds.pop(), rest[0])
        kind = self._kind
        if kind == "sum":
            present = get(accumulator)
            return replace(accumulator, functools.reduce(operator.add, map(get, rest), present))
        everything = chain((accumulator,), rest)
        if kind == "min_by":
            return min(everything, key=get)
        if kind == "max_by":
            return max(everything, key=get)
        present = get(accumulator)
        best = (min if kind == "min" else max)(chain((present,), map(get, rest)))
        return accumulator if best is present else replace(accumulator, best)

    def _access_to(self, kind: type, sample: Any) -> tuple[Get, Replace]:
        access = self._access.get(kind)
        if access is None:
            access = self._access[kind] = field_access(sample, self._position, self._kind)
        return access

    def combine(self, left: Any, right: Any) -> Any:
        return self._rolling(left, right)
