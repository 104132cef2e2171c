"""Window functions: what is made of the contents of a window when its trigger fires."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.operators.function_base import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.state.api import KeyedStateStore


class WindowFunction(Function):
    """The older form: key, window and contents."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Yields the results of one window of one key."""


class AllWindowFunction(Function):
    """The older form for `window_all`."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Yields the results of one window."""


class ProcessWindowFunction(Function):
    """The form with a context: window, time, and state per window and per key."""

    class Context:
        """Valid during the call only."""

        def window(self) -> Any:
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

    @abstractmethod
    def process(
        self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterable[Any]:
        """Yields the results of one window of one key."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Called once when the window is cleaned up."""


class ProcessAllWindowFunction(Function):
    """The form with a context, for `window_all`."""

    class Context:
        """Valid during the call only."""

        def window(self) -> Any:
            """The window that is evaluated."""
            raise NotImplementedError

        def window_state(self) -> KeyedStateStore:
            """State of this window; clear it in `clear`. Not for merging windows."""
            raise NotImplementedError

        def global_state(self) -> KeyedStateStore:
            """State over all windows."""
            raise NotImplementedError

        def output(self, tag: Any, value: Any) -> None:
            """Sends a value to a side output."""
            raise NotImplementedError

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterable[Any]:
        """Yields the results of one window."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        """Called once when the window is cleaned up."""


class PassThroughWindowFunction(WindowFunction):
    """Yields the contents as they are."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction):
    """Yields the contents as they are."""

    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs
