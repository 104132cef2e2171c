"""Map, flat map and filter: list comprehensions around the user's function."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

from penstock.core.copies import unchanged
from penstock.core.records import Batch
from penstock.operators.adapters import as_filter, as_flat_map, as_map
from penstock.operators.errors import user_code
from penstock.operators.escape import keeps_nothing
from penstock.operators.function_base import Function
from penstock.operators.function_logic import FunctionLogic, keyed_state_of, keys_of
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.results import SideOutputs, deliver, spread


@dataclass(frozen=True)
class _SimpleSpec(OperatorSpec):
    """One function of one record."""

    function: Any  # A function object or any callable.
    keyed: bool = False  # The input is a keyed stream.

    @property
    def is_keyed(self) -> bool:
        # A plain callable has no way to reach keyed state, so it needs none and runs faster.
        return self.keyed and isinstance(self.function, Function)


@dataclass(frozen=True)
class MapSpec(_SimpleSpec):
    """One record in, one out."""

    def __post_init__(self) -> None:
        as_map(self.function)

    def build(self) -> OperatorLogic:
        return KeyedMapLogic(self.function) if self.is_keyed else MapLogic(self.function)


@dataclass(frozen=True)
class FlatMapSpec(_SimpleSpec):
    """One record in, any number out; outputs keep the timestamp of their record."""

    def __post_init__(self) -> None:
        as_flat_map(self.function)

    def build(self) -> OperatorLogic:
        return KeyedFlatMapLogic(self.function) if self.is_keyed else FlatMapLogic(self.function)


@dataclass(frozen=True)
class FilterSpec(_SimpleSpec):
    """Keeps some records."""

    def __post_init__(self) -> None:
        as_filter(self.function)

    def build(self) -> OperatorLogic:
        return KeyedFilterLogic(self.function) if self.is_keyed else FilterLogic(self.function)


RESULTS_NONE: Final = "numResultsNone"
"""Counts results of `map` that are None, in batches that begin with one."""


class MapLogic(FunctionLogic):
    """Without a key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._call = as_map(self.function)

    def open(self) -> None:
        context = self.context
        self._copies = not (
            context.snapshot is unchanged or context.emits_immutable or keeps_nothing(self._call)
        )
        super().open()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function, context = self._call, self.context
        immutable, snapshot = context.immutable, context.snapshot
        records = iter(batch.values)
        # A comprehension, not list(map(...)): that would take a StopIteration of the user's
        # function for the end of the batch and lose the rest in silence.
        with user_code(context, batch.values, records):
            if self._copies:
                values = [
                    result if type(result := function(value)) in immutable else snapshot(result)
                    for value in records
                ]
            else:
                values = [function(value) for value in records]
        self.count_nones(values)
        self.output.emit(Batch(values, batch.timestamps))

    def count_nones(self, values: list[Any]) -> None:
        """Counts results that are None, so that somebody may notice if all of them are."""
        if values and values[0] is None:
            nones = self.context.metrics.counter(RESULTS_NONE)
            nones.inc(sum(value is None for value in values))


class KeyedMapLogic(MapLogic):
    """With the key set before each call."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        state, keys = keyed_state_of(self), keys_of(self, batch)
        function = self._call
        records = iter(batch.values)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        values: list[Any] = []
        append = values.append
        state.prefetch(keys)
        with user_code(self.context, batch.values, records):
            for key, value in zip(keys, records, strict=True):
                state.key = key
                result = function(value)
                append(result if type(result) in immutable else snapshot(result))
        self.count_nones(values)
        self.output.emit(Batch(values, batch.timestamps))


class FilterLogic(FunctionLogic):
    """Without a key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._call = as_filter(self.function)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function = self._call
        records = iter(batch.values)
        if batch.timestamps is None:
            with user_code(self.context, batch.values, records):
                values = [value for value in records if function(value)]
            self.output.emit(Batch(values))
            return
        with user_code(self.context, batch.values, records):
            kept = [function(value) for value in records]
        self.output.emit(
            Batch(list(compress(batch.values, kept)), list(compress(batch.timestamps, kept)))
        )


class KeyedFilterLogic(FilterLogic):
    """With the key set before each call."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        state, keys = keyed_state_of(self), keys_of(self, batch)
        function = self._call
        records = iter(batch.values)
        kept: list[Any] = []
        append = kept.append
        state.prefetch(keys)
        with user_code(self.context, batch.values, records):
            for key, value in zip(keys, records, strict=True):
                state.key = key
                append(function(value))
        timestamps = batch.timestamps
        self.output.emit(
            Batch(
                list(compress(batch.values, kept)),
                None if timestamps is None else list(compress(timestamps, kept)),
            )
        )


class FlatMapLogic(FunctionLogic):
    """Without a key."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._call = as_flat_map(self.function)
        self._sides = SideOutputs(unchanged)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        function = self._call
        records = iter(batch.values)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        values: list[Any] = []
        append = values.append
        timestamps = batch.timestamps
        with user_code(self.context, batch.values, records):
            if timestamps is None:
                for value in records:
                    result = function(value)
                    if result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
            else:
                ends: list[int] = []
                mark = ends.append
                for value in records:
                    result = function(value)
                    if result is not None:
                        for item in result:
                            append(item if type(item) in immutable else snapshot(item))
                    mark(len(values))
        if timestamps is not None:
            timestamps = spread(timestamps, ends, len(values))
        deliver(self.output, self._sides, values, timestamps)


class KeyedFlatMapLogic(FlatMapLogic):
    """With the key set before each call."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        state, keys = keyed_state_of(self), keys_of(self, batch)
        function = self._call
        records = iter(batch.values)
        immutable, snapshot = self.context.immutable, self.context.snapshot
        values: list[Any] = []
        append = values.append
        ends: list[int] = []
        mark = ends.append
        state.prefetch(keys)
        with user_code(self.context, batch.values, records):
            for key, value in zip(keys, records, strict=True):
                state.key = key
                result = function(value)
                if result is not None:
                    for item in result:
                        append(item if type(item) in immutable else snapshot(item))
                mark(len(values))
        timestamps = batch.timestamps
        if timestamps is not None:
            timestamps = spread(timestamps, ends, len(values))
        deliver(self.output, self._sides, values, timestamps)
