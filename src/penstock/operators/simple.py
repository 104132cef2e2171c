"""Map, flat map and filter: list comprehensions around the user's function."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import dis
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import compress
from typing import Any, ClassVar, Final

from penstock.core.copies import IMMUTABLE, snapshot, unchanged
from penstock.core.records import Batch
from penstock.core.row import Row
from penstock.operators.adapters import as_filter, as_flat_map, as_map
from penstock.operators.errors import user_code
from penstock.operators.function_logic import Calls, FunctionLogic, FunctionSpec, under_keys
from penstock.operators.functions import Function
from penstock.operators.results import SideOutputs, deliver, spread

# Finds plain functions that cannot keep what they return, so that it need not be copied.
#
# A function that reaches nothing but its argument and what never changes has no place to keep a
# result in until its next call. What it calls must be known as well: other such functions, Python's
# own functions and types, some modules, and methods with the names that built-in types have.

_HARMLESS_MODULES: Final = frozenset(
    ("datetime", "decimal", "json", "math", "operator", "random", "re", "string", "time")
)
_HARMFUL: Final = frozenset(
    ("exec", "eval", "globals", "locals", "vars", "setattr", "getattr", "open", "input", "super")
)
_TYPES: Final = (
    *(str, bytes, int, float, complex, tuple, list, dict, set, frozenset, bytearray, Row),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal),
    *(collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque),
)
_METHODS: Final = frozenset(
    name for kind in (*_TYPES, re.Pattern, re.Match) for name in dir(kind) if name[0] != "_"
)
_STORES: Final = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"))
_DEEPEST: Final = 8


def keeps_nothing(function: Any) -> bool:
    """Whether what a function returned is out of its reach; False where that cannot be seen."""
    if not isinstance(function, types.FunctionType):
        return isinstance(function, type) and function in _TYPES
    return not inspect.isgeneratorfunction(function) and _is_harmless(function, _DEEPEST)


def _is_harmless(function: types.FunctionType, deepest: int) -> bool:
    if not deepest:
        return False
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if function.__dict__ or any(not _is_constant(value, deepest) for value in given):
        return False
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return False  # Not filled yet.
    return all(_is_constant(value, deepest) for value in cells) and all(
        _reaches_nothing(code, function, deepest) for code in _codes(function.__code__)
    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _reaches_nothing(code: types.CodeType, function: types.FunctionType, deepest: int) -> bool:
    known, outside = function.__globals__, function.__code__.co_freevars
    owner: Any = None  # What an attribute is asked of, if everything behind it is harmless.
    before = ""
    sets_attributes = uses_classes = False
    for step in dis.get_instructions(code):
        name = step.opname
        if name in _STORES or (name == "STORE_DEREF" and step.argval in outside):
            return False
        if name == "STORE_ATTR":
            sets_attributes = True
            if not before.startswith("LOAD_FAST"):
                return False
        if name in {"LOAD_GLOBAL", "LOAD_NAME"}:
            value = known.get(step.argval, vars(builtins).get(step.argval, known))
            if step.argval in _HARMFUL or not _is_constant(value, deepest):
                return False
            is_own = isinstance(value, type | types.FunctionType) and not _is_python(value)
            uses_classes |= is_own
            owner = None if is_own else value
        elif name == "LOAD_METHOD" or (name == "LOAD_ATTR" and "NULL|self" in step.argrepr):
            is_of_class = before in {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"}
            if owner is None and (step.argval not in _METHODS or is_of_class):
                return False
            owner = None
        elif name == "LOAD_ATTR":
            # It may be a class's, which all of its objects share.
            if owner is None:
                return False
        elif name != "CACHE":
            owner = None
        before = name
    return not (sets_attributes and uses_classes)


def _is_python(kind: Any) -> bool:
    return kind in _TYPES or kind.__module__ in {"builtins", *_HARMLESS_MODULES}


def _is_constant(value: Any, deepest: int) -> bool:
    """Whether a function that uses this value cannot put anything into it."""
    if isinstance(value, types.ModuleType):
        return value.__name__ in _HARMLESS_MODULES
    if isinstance(value, types.FunctionType):
        return _is_harmless(value, deepest - 1)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__module__ in {"builtins", *_HARMLESS_MODULES}
    if isinstance(value, type):
        return _is_python(value) or _only_fills(value, deepest)
    if type(value).__module__ == "dataclasses" or isinstance(value, re.Pattern):
        return True  # Stands for a default in what `@dataclass` writes.
    return snapshot(value) is value and isinstance(value, (*IMMUTABLE, tuple, Enum))


def _only_fills(kind: type, deepest: int) -> bool:
    """Whether making an object of a class leaves nothing behind but the object."""
    if issubclass(kind, Enum):
        return True
    if type(kind) is not type or kind.__new__ not in {object.__new__, tuple.__new__}:
        return hasattr(kind, "_fields") and kind.__bases__ == (tuple,)
    for name in ("__init__", "__post_init__", "__setattr__"):
        made_by = getattr(kind, name, None)
        if isinstance(made_by, types.FunctionType) and not _is_harmless(made_by, deepest - 1):
            return False
    return True


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
