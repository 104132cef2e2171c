"""Plain functions where PyFlink wants an object: `process(lambda value, ctx: ...)`.

The function becomes an attribute of the object under the method's name, so that a call costs no
more than a call of the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import ProgramError
from penstock.operators.adapters import check_callable
from penstock.operators.functions import (
    Function,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
)
from penstock.operators.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "as_all_window_function",
    "as_keyed_process_function",
    "as_process_all_window_function",
    "as_process_function",
    "as_process_join_function",
    "as_process_window_function",
    "as_window_function",
    "inspecting",
]


class _CalledProcess(ProcessFunction):
    def __init__(self, function: Any) -> None:
        self.process_element = function  # type: ignore[method-assign]

    def process_element(self, value: Any, ctx: Any) -> Any:
        raise NotImplementedError


class _CalledKeyedProcess(KeyedProcessFunction):
    def __init__(self, function: Any) -> None:
        self.process_element = function  # type: ignore[method-assign]

    def process_element(self, value: Any, ctx: Any) -> Any:
        raise NotImplementedError


class _CalledProcessJoin(ProcessJoinFunction):
    def __init__(self, function: Any) -> None:
        self.process_element = function  # type: ignore[method-assign]

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        raise NotImplementedError


class _CalledWindow(WindowFunction):
    def __init__(self, function: Any) -> None:
        self.apply = function  # type: ignore[method-assign]

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise NotImplementedError


class _CalledAllWindow(AllWindowFunction):
    def __init__(self, function: Any) -> None:
        self.apply = function  # type: ignore[method-assign]

    def apply(self, window: Any, inputs: Any) -> Any:
        raise NotImplementedError


class _CalledProcessWindow(ProcessWindowFunction):
    def __init__(self, function: Any) -> None:
        self.process = function  # type: ignore[method-assign]

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        raise NotImplementedError


class _CalledProcessAllWindow(ProcessAllWindowFunction):
    def __init__(self, function: Any) -> None:
        self.process = function  # type: ignore[method-assign]

    def process(self, context: Any, elements: Any) -> Any:
        raise NotImplementedError


def as_process_function(function: Any) -> ProcessFunction:
    """Returns a ProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, KeyedProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a KeyedProcessFunction, but the stream has no key. "
            "Call key_by(...) before process(), or make it a ProcessFunction."
        )
    found: ProcessFunction = _wrap(
        function, (ProcessFunction,), _CalledProcess, "process_element(value, ctx)"
    )
    return found


def as_keyed_process_function(function: Any) -> KeyedProcessFunction:
    """Returns a KeyedProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, ProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a ProcessFunction, but the stream has a key. Make it a "
            "KeyedProcessFunction, or call process() before key_by(...)."
        )
    found: KeyedProcessFunction = _wrap(
        function, (KeyedProcessFunction,), _CalledKeyedProcess, "process_element(value, ctx)"
    )
    return found


def as_process_join_function(function: Any) -> ProcessJoinFunction:
    """Returns a ProcessJoinFunction; takes `(left, right, ctx) -> results` as well."""
    found: ProcessJoinFunction = _wrap(
        function, (ProcessJoinFunction,), _CalledProcessJoin, "process_element(left, right, ctx)"
    )
    return found


def as_window_function(function: Any) -> Any:
    """Returns a window function; takes `(key, window, inputs) -> results` as well."""
    return _wrap(
        function,
        (WindowFunction, ProcessWindowFunction),
        _CalledWindow,
        "apply(key, window, inputs)",
    )


def as_process_window_function(function: Any) -> Any:
    """Returns a window function; takes `(key, context, elements) -> results` as well."""
    return _wrap(
        function,
        (ProcessWindowFunction, WindowFunction),
        _CalledProcessWindow,
        "process(key, context, elements)",
    )


def as_all_window_function(function: Any) -> Any:
    """Returns a window function; takes `(window, inputs) -> results` as well."""
    return _wrap(
        function,
        (AllWindowFunction, ProcessAllWindowFunction),
        _CalledAllWindow,
        "apply(window, inputs)",
    )


def as_process_all_window_function(function: Any) -> Any:
    """Returns a window function; takes `(context, elements) -> results` as well."""
    return _wrap(
        function,
        (ProcessAllWindowFunction, AllWindowFunction),
        _CalledProcessAllWindow,
        "process(context, elements)",
    )


def inspecting(function: Any) -> Callable[[Any], Any]:
    """Returns a function that hands `function` a value and returns the value."""
    if not callable(function) or isinstance(function, Function | type):
        raise ProgramError(f"inspect() takes a function of a record, but got {function!r:.80}.")
    check_callable(function, "inspect(value)")

    def hand_on(value: Any) -> Any:
        function(value)
        return value

    return hand_on


def _wrap(function: Any, kinds: tuple[type[Function], ...], wrapper: Any, signature: str) -> Any:
    if isinstance(function, kinds):
        return function
    if callable(function) and not isinstance(function, Function | type):
        check_callable(function, signature)
        return wrapper(function)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    given = function.__name__ if isinstance(function, type) else type(function).__name__
    hint = " Are the brackets missing?" if isinstance(function, type) else ""
    raise ProgramError(f"{given} was given where a {wanted} or a function is needed.{hint}")
