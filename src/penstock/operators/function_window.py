"""Window functions: what is made of the contents of a window when its trigger fires."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from penstock.core.type_variables import IN, KEY, OUT, T, W
from penstock.operators.function_base import Function

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
