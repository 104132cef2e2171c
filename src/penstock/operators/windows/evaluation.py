"""Calls window functions and collects their results until a batch of them is worth handing on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.records import Batch
from penstock.operators.errors import function_error
from penstock.operators.function_window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.results import SideOutputs, deliver
from penstock.operators.windows.pairs import PairFunction, deal_out

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorLogic
    from penstock.operators.windows.contexts import WindowFunctionContext

Call = Callable[[Any, Any, Sequence[Any]], Iterable[Any] | None]
"""(key, window, elements) -> results"""

LIMIT = 16_384
"""Results are handed on when there are that many, and whenever a batch or watermark is done."""


def call_of(function: Any, pairs: PairFunction | None, context: WindowFunctionContext) -> Call:
    """Returns how to call a window function; `context.current` must be the window by then."""
    if pairs is not None:
        evaluate = pairs.adapt(function)
        return lambda _key, _window, elements: evaluate(*deal_out(elements))
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return lambda key, _window, elements: process(key, context, elements)
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda _key, window, elements: apply(window, elements)
    if isinstance(function, ProcessAllWindowFunction):
        process_all = function.process
        return lambda _key, _window, elements: process_all(context, elements)
    return lambda _key, _window, elements: elements


def clear_of(function: Any, context: WindowFunctionContext) -> Callable[[], None] | None:
    """Returns how to tell the function that a window is gone, or None if it does not care."""
    bases = (ProcessWindowFunction, ProcessAllWindowFunction)
    if not isinstance(function, bases) or type(function).clear in [base.clear for base in bases]:
        return None
    clear = function.clear
    return lambda: clear(context)


class Results:
    """Results of fired windows, in order; their timestamp is that of the window."""

    def __init__(self, logic: OperatorLogic, late_tag: Any) -> None:
        self._logic = logic
        self._immutable, self._snapshot = logic.context.immutable, logic.context.snapshot
        self._late_tag: str | None = getattr(late_tag, "tag_id", late_tag)
        self._late_values: list[Any] = []
        self._late_times: list[int] = []
        self.sides = SideOutputs(self._snapshot)
        self.values: list[Any] = []
        self.times: list[int] = []

    def evaluate(self, call: Call, key: Any, window: Any, elements: Sequence[Any]) -> None:
        """Calls the function; a generator runs here, under the window's key."""
        values = self.values
        try:
            found = call(key, window, elements)
            if found is None:
                return
            immutable, snapshot = self._immutable, self._snapshot
            append = values.append
            for item in found:
                append(item if type(item) in immutable else snapshot(item))
        except Exception as error:
            what = f"{window!r} of key {key!r:.80}"
            raise function_error(error, self._logic.context, what=what) from error
        count = len(values) - len(self.times)
        if count == 1:
            self.times.append(window.max_timestamp())
        else:
            self.times += [window.max_timestamp()] * count
        if len(values) >= LIMIT:
            self.flush()

    def late(self, value: Any, timestamp: int) -> bool:
        """Takes a late record; returns False if there is no side output for it."""
        if self._late_tag is None:
            return False
        self._late_values.append(value)
        self._late_times.append(timestamp)
        return True

    def flush(self) -> None:
        """Hands everything on."""
        output = self._logic.output
        values, times = self.values, self.times
        if values:
            self.values, self.times = [], []
        deliver(output, self.sides, values, times)
        if self._late_values and self._late_tag is not None:
            late = Batch(self._late_values, self._late_times)
            self._late_values, self._late_times = [], []
            output.emit_side(self._late_tag, late)

    def clear(self) -> None:
        """Forgets what an aborted epoch left."""
        self.values, self.times = [], []
        self._late_values, self._late_times = [], []
        self.sides.clear()
