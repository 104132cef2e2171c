"""Window functions: what programs subclass, and those of joins and co-groups.

A record of a join is kept as `(input index, record)`, so that assigners, triggers and evictors work
as with one input. When a window fires, its contents are dealt out to both sides again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from penstock.core.type_variables import IN, KEY, OUT, T, W
from penstock.operators.adapters import as_co_group, as_flat_join, as_join
from penstock.operators.functions import Function

if TYPE_CHECKING:
    from penstock.state.api import KeyedStateStore


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """The older form: key, window and contents."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields the results of one window of one key."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """The older form for `window_all`."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields the results of one window."""


class WindowContext(Generic[T]):
    """What a window function may ask; valid during the call only."""

    def window(self) -> T:
        """The window that is evaluated."""
        raise NotImplementedError

    def current_processing_time(self) -> int:
        """Milliseconds since 1970; stands still within an epoch."""
        raise NotImplementedError

    def current_watermark(self) -> int:
        """The watermark."""
        raise NotImplementedError

    def window_state(self) -> KeyedStateStore:
        """State of this key and window; clear it in `clear`. Not for merging windows."""
        raise NotImplementedError

    def global_state(self) -> KeyedStateStore:
        """State of this key, over all its windows."""
        raise NotImplementedError

    def output(self, tag: Any, value: Any) -> None:
        """Sends a value to a side output."""
        raise NotImplementedError


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """The form with a context: window, time, and state per window and per key."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Yields the results of one window of one key."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Called once when the window is cleaned up."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """The form with a context, for `window_all`."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Yields the results of one window."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Called once when the window is cleaned up."""


class PassThroughWindowFunction(WindowFunction[Any, Any, Any, Any]):
    """Yields the contents as they are."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[Any, Any, Any]):
    """Yields the contents as they are."""

    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class PairFunction(ABC):
    """What is made of the two sides of a window; wraps a user's function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.adapt(function)

    @abstractmethod
    def adapt(self, function: Any) -> Callable[[list[Any], list[Any]], Iterable[Any] | None]:
        """Returns `(left records, right records) -> results`, for a function or its copy."""


class JoinPairs(PairFunction):
    """An inner join: one result for each pair of a window, left records outermost."""

    def adapt(self, function: Any) -> Callable[[list[Any], list[Any]], Iterable[Any] | None]:
        join = as_join(function)
        # No `map`: that would end at a StopIteration of the user's function, and lose the rest.
        return lambda left, right: (join(one, two) for one, two in product(left, right))


class FlatJoinPairs(PairFunction):
    """An inner join with any number of results per pair."""

    def adapt(self, function: Any) -> Callable[[list[Any], list[Any]], Iterable[Any] | None]:
        join = as_flat_join(function)

        def pairs(left: list[Any], right: list[Any]) -> Iterator[Any]:
            for one, two in product(left, right):
                found = join(one, two)
                if found is not None:
                    yield from found

        return pairs


class CoGroupPairs(PairFunction):
    """One call per key and window with all records of both sides; one side may be empty."""

    def adapt(self, function: Any) -> Callable[[list[Any], list[Any]], Iterable[Any] | None]:
        return as_co_group(function)


def deal_out(elements: Sequence[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    """Returns the records of the first and of the second input."""
    return [v for side, v in elements if side == 0], [v for side, v in elements if side == 1]
