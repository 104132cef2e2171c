"""What a window holds, as the program said it: all records, their reduction, or an accumulator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.operators.adapters import as_instance, as_reduce, private_copy, refuse_operator_state
from penstock.operators.errors import failing_record, function_error
from penstock.operators.functions import AggregateFunction
from penstock.operators.windows.window_state import (
    NONE_VALUE,
    TABLE,
    Contents,
    ContentsSpec,
    RecordContents,
    look_up,
    read_ahead,
    write_all,
)

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext
    from penstock.operators.windows.window_state import Groups
    from penstock.state.tables import ValueTable


class FoldedContents(Contents):
    """One value per window, made by folding records into it."""

    @functools.cached_property
    def table(self) -> ValueTable:
        """The accumulators; obtained when needed, since an evictor keeps records instead."""
        return self._state.value_table(TABLE)

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        """Returns the accumulator with the records in it."""
        raise NotImplementedError

    def fold_new(self, values: Iterable[Any]) -> Any:
        """Returns the accumulator of the records alone; there is at least one."""
        raise NotImplementedError

    def first(self, value: Any) -> Any:
        """Returns the accumulator of one record."""
        return self.fold_new((value,))

    def next(self, accumulator: Any, value: Any) -> Any:
        """Returns the accumulator with one more record."""
        raise NotImplementedError

    def result(self, accumulator: Any) -> Any:
        """Returns what the window function is given."""
        return accumulator

    def combine(self, left: Any, right: Any) -> Any:
        """Returns two accumulators as one."""
        raise NotImplementedError

    def add(self, key: Any, window: Any, value: Any) -> None:
        self.add_groups(window, {key: [value]})

    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        look, state = look_up(self.table, groups, window), self._state
        fold, fold_new = self.fold, self.fold_new
        new = []
        held: dict[Any, Any] = {}
        values: list[Any] = []
        records = iter(values)
        try:
            for key, values in groups.items():
                records = iter(values)
                state.key = key
                accumulator = look(key)
                if accumulator is None:
                    new.append(key)
                    held[key] = fold_new(records)
                else:
                    if accumulator is NONE_VALUE:
                        accumulator = None
                    held[key] = fold(records, accumulator)
        except Exception as error:
            raise self._failed(error, failing_record(values, records)) from error
        write_all(self.table, window, held)
        return new

    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        look, state = look_up(self.table, keys, window), self._state
        first, add = self.first, self.next
        new: list[Any] = []
        held: dict[Any, Any] = {}
        records = iter(values)
        try:
            for key, value in zip(keys, records, strict=True):
                state.key = key
                if key in held:
                    held[key] = add(held[key], value)
                    continue
                accumulator = look(key)
                if accumulator is None:
                    new.append(key)
                    held[key] = first(value)
                else:
                    if accumulator is NONE_VALUE:
                        accumulator = None
                    held[key] = add(accumulator, value)
        except Exception as error:
            raise self._failed(error, failing_record(values, records)) from error
        write_all(self.table, window, held)
        return new

    def read_ahead(self, window: Any, keys: list[Any]) -> None:
        read_ahead(self.table, keys, window)

    def elements(self, key: Any, window: Any) -> list[Any]:
        accumulator = self.table.get(key, window)
        if accumulator is None:
            return []
        try:
            return [self.result(None if accumulator is NONE_VALUE else accumulator)]
        except Exception as error:
            raise self._failed(error, None) from error

    def elements_of(self, records: list[Any]) -> list[Any]:
        if not records:
            return []
        values = iter(records)
        try:
            return [self.result(self.fold_new(values))]
        except Exception as error:
            raise self._failed(error, failing_record(records, values)) from error

    def remove(self, key: Any, window: Any) -> None:
        self.table.remove(key, window)

    def merge(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        get, table = self.table.get, self.table
        merged = get(key, target)
        try:
            for source in sources:
                value = get(key, source)
                if value is None:
                    continue
                table.remove(key, source)
                if merged is None:
                    merged = value
                else:
                    left = None if merged is NONE_VALUE else merged
                    right = None if value is NONE_VALUE else value
                    merged = self.combine(left, right)
                    if merged is None:
                        merged = NONE_VALUE
        except Exception as error:
            raise self._failed(error, None) from error
        if merged is not None:
            table.put(key, target, merged)

    def _failed(self, error: Exception, record: str | None) -> Exception:
        what = None if record is not None else f"window result for key {self._state.key!r}"
        return function_error(error, self._context, record, what)


class Reduced(FoldedContents):
    """The records reduced to one."""

    def __init__(self, context: OperatorContext, function: Any) -> None:
        super().__init__(context)
        self._function = function
        self._reduce: Callable[[Any, Any], Any] = as_reduce(function)
        self.next = self._reduce  # type: ignore[method-assign]

    def function(self) -> Any:
        return self._function

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        return functools.reduce(self._reduce, values, accumulator)

    def fold_new(self, values: Iterable[Any]) -> Any:
        records = iter(values)
        return functools.reduce(self._reduce, records, self.first(next(records)))

    def first(self, value: Any) -> Any:
        # A function may change its first argument in place; the record may be in other windows.
        return self._context.snapshot(value)

    def combine(self, left: Any, right: Any) -> Any:
        return self._reduce(left, right)


class Aggregated(FoldedContents):
    """An accumulator of the records."""

    def __init__(self, context: OperatorContext, function: AggregateFunction) -> None:
        super().__init__(context)
        self._function = function
        self._add = function.add
        self._create = function.create_accumulator
        self.result = function.get_result  # type: ignore[method-assign]
        self.combine = function.merge  # type: ignore[assignment]
        # Built-in aggregates fold a list at once.
        add_all = getattr(function, "add_all", None)
        if add_all is not None:
            self.fold = add_all  # type: ignore[method-assign]

    def function(self) -> Any:
        return self._function

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        add = self._add
        for value in values:
            accumulator = add(value, accumulator)
        return accumulator

    def fold_new(self, values: Iterable[Any]) -> Any:
        return self.fold(values, self._create())

    def first(self, value: Any) -> Any:
        return self._add(value, self._create())

    def next(self, accumulator: Any, value: Any) -> Any:
        return self._add(value, accumulator)


_PLACE: Final = "what combines the records of a window"


@dataclass(frozen=True, slots=True)
class Buffer(ContentsSpec):
    """All records, for functions that want to see each of them."""

    def open(self, context: OperatorContext) -> Contents:
        return RecordContents(context)


@dataclass(frozen=True, slots=True)
class ReduceContents(ContentsSpec):
    """The records reduced to one by a function of two records."""

    function: Any

    def __post_init__(self) -> None:
        as_reduce(self.function)
        refuse_operator_state(self.function, _PLACE)

    def open(self, context: OperatorContext) -> Contents:
        return Reduced(context, private_copy(self.function))


@dataclass(frozen=True, slots=True)
class AggregateContents(ContentsSpec):
    """The records folded into an accumulator."""

    function: Any

    def __post_init__(self) -> None:
        as_instance(self.function, AggregateFunction)
        refuse_operator_state(self.function, _PLACE)

    def open(self, context: OperatorContext) -> Contents:
        return Aggregated(context, private_copy(self.function))
