"""What a window holds: all records, their reduction, or an accumulator.

A `ContentsSpec` is what the program said. Its running form lies in one state table, by key and
namespace; the namespace is the window, or its state window after a merge. The unit of work is
`add_groups(window, {key: records})`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from penstock.core.copies import snapshots, unchanged
from penstock.operators.adapters import as_instance, as_reduce, private_copy, refuse_operator_state
from penstock.operators.errors import failing_record, function_error
from penstock.operators.functions import AggregateFunction
from penstock.operators.reduce import RollingAggregation
from penstock.operators.windows.grouping import (
    NONE_VALUE,
    Columns,
    Groups,
    look_up,
    read_ahead,
    write_all,
)

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorContext
    from penstock.state.keyed import KeyedState
    from penstock.state.tables import ListTable, ValueTable

TABLE: Final = "window-contents"
EVICTABLE_TABLE: Final = "window-records"
"""Records with their timestamps, where there is an evictor."""


class Contents(ABC):
    """The running form: contents of the windows of one operator."""

    def __init__(self, context: OperatorContext) -> None:
        assert context.keyed_state is not None
        self._context = context
        self._state: KeyedState = context.keyed_state

    def function(self) -> Any:
        """Returns the user's function, which has a life cycle, or None."""
        return None

    def kept(self, value: Any) -> Any:
        """Returns a record in the form in which a list of records keeps it."""
        return value

    @abstractmethod
    def add(self, key: Any, window: Any, value: Any) -> None:
        """Adds one record."""

    @abstractmethod
    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        """Adds records of several keys; returns at least the keys that had nothing before."""

    def add_columns(self, window: Any, columns: Columns) -> Collection[Any]:
        """Adds records in the way that is faster for them."""
        if columns.has_many_keys:
            return self.add_each(window, columns.keys, columns.values)
        return self.add_groups(window, columns.groups())

    @abstractmethod
    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        """Adds records without grouping them; returns new keys as above."""

    @abstractmethod
    def read_ahead(self, window: Any, keys: list[Any]) -> None:
        """Reads the contents of many keys at once, if that helps."""

    @abstractmethod
    def elements(self, key: Any, window: Any) -> list[Any]:
        """Returns what the window function is given, not to be changed; empty if nothing."""

    def kept_elements(self, key: Any, window: Any) -> list[Any]:
        """Returns the same as copies, for a window whose contents stay after the call."""
        return self.copies(self.elements(key, window))

    def copies(self, elements: Sequence[Any]) -> list[Any]:
        """Returns elements that a function may change, although others will see them too."""
        own = list(elements)
        return own if self._context.snapshot is unchanged else snapshots(own)

    @abstractmethod
    def elements_of(self, records: list[Any]) -> list[Any]:
        """Returns the same for records that are in no table."""

    @abstractmethod
    def remove(self, key: Any, window: Any) -> None:
        """Removes contents."""

    @abstractmethod
    def merge(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        """Moves the contents of other windows into those of `target`, in the order given."""


class RecordContents(Contents):
    """All records, in order of arrival."""

    def __init__(self, context: OperatorContext, table: str = TABLE) -> None:
        super().__init__(context)
        self._table_name = table

    @functools.cached_property
    def table(self) -> ListTable:
        """The lists; obtained when needed, since an evictor keeps records elsewhere."""
        return self._state.list_table(self._table_name)

    def add(self, key: Any, window: Any, value: Any) -> None:
        self.table.extend(key, window, (value,))

    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        extend = self.table.extend
        for key, values in groups.items():
            extend(key, window, values)
        # Asking which lists were empty would cost more than registering known timers again.
        return groups

    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        append = self.table.append
        for key, value in zip(keys, values, strict=True):
            append(key, window, value)
        return keys

    def read_ahead(self, window: Any, keys: list[Any]) -> None:
        read_ahead(self.table, keys, window)

    def elements(self, key: Any, window: Any) -> list[Any]:
        return self.table.get(key, window)

    def elements_of(self, records: list[Any]) -> list[Any]:
        return records

    def replace(self, key: Any, window: Any, values: list[Any]) -> None:
        """Sets the records that an evictor left."""
        self.table.replace(key, window, values)

    def remove(self, key: Any, window: Any) -> None:
        self.table.remove(key, window)

    def merge(self, key: Any, target: Any, sources: Sequence[Any]) -> None:
        self.table.merge_namespaces(key, target, sources)


class PairRecords(RecordContents):
    """Records of both inputs, in order of arrival; `side` is the input they now come from."""

    side = 0

    def kept(self, value: Any) -> Any:
        return self.side, value

    def add(self, key: Any, window: Any, value: Any) -> None:
        self.table.extend(key, window, ((self.side, value),))

    def add_groups(self, window: Any, groups: Groups) -> Collection[Any]:
        extend, side = self.table.extend, self.side
        for key, values in groups.items():
            extend(key, window, list(zip(repeat(side), values)))
        return groups

    def add_each(self, window: Any, keys: list[Any], values: list[Any]) -> Collection[Any]:
        return super().add_each(window, keys, list(zip(repeat(self.side), values)))


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
        self.next = self.combine = self._reduce  # type: ignore[method-assign]
        # A function may change its first argument in place; the record may be in other windows.
        self.first = context.snapshot  # type: ignore[assignment]
        if isinstance(function, RollingAggregation):
            self.first = unchanged  # type: ignore[method-assign]
            self.fold = function.fold  # type: ignore[method-assign]

    def function(self) -> Any:
        return self._function

    def fold(self, values: Iterable[Any], accumulator: Any) -> Any:
        return functools.reduce(self._reduce, values, accumulator)

    def fold_new(self, values: Iterable[Any]) -> Any:
        records = iter(values)
        return self.fold(records, self.first(next(records)))

    def _failed(self, error: Exception, record: str | None) -> Exception:
        if isinstance(self._reduce, RollingAggregation):
            error = self._reduce.explained(error)
        return super()._failed(error, record)


class Aggregated(FoldedContents):
    """An accumulator of the records.

    Args:
        context: The operator.
        function: What the program gave.
        add: What puts one value into the accumulator, if that is not `add` of the function.
    """

    def __init__(
        self,
        context: OperatorContext,
        function: AggregateFunction,
        add: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(context)
        self._function = function
        self._add = add or function.add
        self._create = function.create_accumulator
        self.result = function.get_result  # type: ignore[method-assign]
        self.combine = function.merge  # type: ignore[assignment]
        # Built-in aggregates fold a list at once.
        add_all = getattr(function, "add_all", None)
        if add_all is not None and add is None:
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


class ContentsSpec(ABC):
    """What a window holds, as the program said it."""

    @abstractmethod
    def open(self, context: OperatorContext) -> Contents:
        """Makes the running form."""


@dataclass(frozen=True, slots=True)
class Buffer(ContentsSpec):
    """All records, for functions that want to see each of them."""

    def open(self, context: OperatorContext) -> Contents:
        return RecordContents(context)


@dataclass(frozen=True, slots=True)
class PairContents(ContentsSpec):
    """All records of both inputs."""

    def open(self, context: OperatorContext) -> PairRecords:
        return PairRecords(context)


@dataclass(frozen=True, slots=True)
class ReduceContents(ContentsSpec):
    """The records reduced to one by a function of two records, such as a `RollingAggregation`."""

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
