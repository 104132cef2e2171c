"""Makes a plain callable of whatever a program gives: a function object or any callable.

Each `as_*` is also the check that a program is given early: a wrong type raises `ProgramError`,
which says what came and what is accepted.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from penstock.core.errors import ProgramError
from penstock.core.naming import name_of
from penstock.operators import function_base as base
from penstock.operators import function_join as joins
from penstock.operators.function_base import Function
from penstock.operators.function_checks import (
    check_callable,
    check_methods,
    refuse_operator_state,
)

AnyCallable = Callable[..., Any]
F = TypeVar("F")

_MAP: Final = (base.MapFunction, "map", "map(value)")
_FLAT_MAP: Final = (base.FlatMapFunction, "flat_map", "flat_map(value)")
_FILTER: Final = (base.FilterFunction, "filter", "filter(value)")
_REDUCE: Final = (base.ReduceFunction, "reduce", "reduce(value1, value2)")
_JOIN: Final = (joins.JoinFunction, "join", "join(first, second)")
_FLAT_JOIN: Final = (joins.FlatJoinFunction, "join", "join(first, second)")
_CO_GROUP: Final = (joins.CoGroupFunction, "co_group", "co_group(first, second)")
_OF_ONE_VALUE: Final = (
    base.MapFunction,
    base.FilterFunction,
    base.ReduceFunction,
    base.KeySelector,
    base.Partitioner,
    joins.JoinFunction,
)


def as_map(function: Any) -> AnyCallable:
    """Returns `value -> result`."""
    return _adapt(function, _MAP)


def as_flat_map(function: Any) -> AnyCallable:
    """Returns `value -> iterable or None`."""
    return _adapt(function, _FLAT_MAP)


def as_filter(function: Any) -> AnyCallable:
    """Returns `value -> bool`."""
    return _adapt(function, _FILTER)


def as_reduce(function: Any) -> AnyCallable:
    """Returns `(value so far, value) -> value`."""
    return _adapt(function, _REDUCE)


def as_join(function: Any) -> AnyCallable:
    """Returns `(first, second) -> result`."""
    return _adapt(function, _JOIN)


def as_flat_join(function: Any) -> AnyCallable:
    """Returns `(first, second) -> iterable or None`."""
    return _adapt(function, _FLAT_JOIN)


def as_co_group(function: Any) -> AnyCallable:
    """Returns `(first records, second records) -> iterable or None`."""
    return _adapt(function, _CO_GROUP)


def as_key_selector(function: Any) -> AnyCallable:
    """Returns `value -> key`; for an exchange, which has no life cycle of its own."""
    return _adapt_outside(function, base.KeySelector, "get_key", "get_key(value)")


def as_partitioner(function: Any) -> AnyCallable:
    """Returns `(key, number of subtasks) -> subtask`; for an exchange."""
    return _adapt_outside(function, base.Partitioner, "partition", "partition(key, num_partitions)")


def as_instance(function: F, *kinds: type[Function]) -> F:
    """Returns `function` if it is an instance of one of the kinds; no callable will do here."""
    if isinstance(function, kinds):
        check_methods(function)
        return function
    names = " or ".join(_with_article(kind.__name__) for kind in kinds)
    raise ProgramError(
        f"{_given(function)} was given where {names} is needed. Subclass it and pass an instance."
    )


def open_function(function: Any, runtime_context: Any) -> None:
    """Calls `open` if the function has a life cycle."""
    if isinstance(function, Function):
        function.open(runtime_context)


def close_function(function: Any) -> None:
    """Calls `close` if the function has a life cycle."""
    if isinstance(function, Function):
        function.close()


def private_copy(function: F) -> F:
    """Returns a copy of a function object for one subtask alone.

    Subtasks that share a process would otherwise share what `open` puts into attributes. Plain
    functions have no attributes of ours to protect and are returned as they are.
    """
    if not isinstance(function, Function):
        return function
    # Modules cannot be copied, but may well be attributes (cloudpickle ships them by name).
    memo: dict[int, Any] = {id(module): module for module in list(sys.modules.values())}
    try:
        return copy.deepcopy(function, memo)
    except Exception as error:
        raise ProgramError(
            f"{type(function).__name__} cannot be copied for each subtask: {error}. "
            "Make connections, locks and the like in open(), not in __init__()."
        ) from error


def _adapt(function: Any, shape: tuple[type[Function], str, str]) -> AnyCallable:
    kind, method, signature = shape
    if isinstance(function, kind):
        bound: AnyCallable = getattr(function, method)
        _check_result(bound, kind, signature)
        check_methods(function)
        return bound
    # A function object of another kind may well be callable, but it was surely not meant here.
    if callable(function) and not isinstance(function, Function | type):
        _check_result(function, kind, signature)
        check_callable(function, signature)
        return function  # type: ignore[no-any-return]
    if isinstance(function, type) and not issubclass(function, Function):
        return function  # a type such as int or str is a fine function of one value
    raise ProgramError(
        f"{_given(function)} was given where {_with_article(kind.__name__)} or a callable is "
        f"needed. Pass an instance of a class with {signature}, a function or a lambda."
    )


def _check_result(function: Any, kind: type[Function], signature: str) -> None:
    """Refuses a `yield` where one value is asked for: the generator itself would be the value."""
    if kind in _OF_ONE_VALUE and inspect.isgeneratorfunction(function):
        raise ProgramError(
            f"{name_of(function)} has a yield, but {signature} returns exactly one value. Return "
            "it, or use flat_map() or process() for any number of them."
        )


def _adapt_outside(function: Any, kind: type[Function], method: str, signature: str) -> AnyCallable:
    bound = _adapt(function, (kind, method, signature))
    refuse_operator_state(function, f"a {kind.__name__}")
    if isinstance(function, kind) and type(function).open is not Function.open:
        return _OpenedAtFirstCall(function, method)
    return bound


class _OpenedAtFirstCall:
    """Calls `open` before the first use, in the process that uses it."""

    def __init__(self, function: Function, method: str) -> None:
        self._function = function
        self._method = method
        self._opened = False

    def __call__(self, *args: Any) -> Any:
        if not self._opened:
            self._function.open(NoRuntimeContext(self._function))  # type: ignore[arg-type]
            self._opened = True
        return getattr(self._function, self._method)(*args)

    def __getstate__(self) -> dict[str, Any]:
        return {"_function": self._function, "_method": self._method, "_opened": False}


class NoRuntimeContext:
    """Stands for the runtime context where there is none; says so at any use."""

    def __init__(self, function: Any) -> None:
        self._function_name = type(function).__name__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return functools.partial(self._refuse, name)

    def _refuse(self, name: str, *_: Any, **__: Any) -> Any:
        raise ProgramError(
            f"open() of {self._function_name} called {name}(), but key selectors and partitioners "
            "run on the sending side and have neither state nor metrics. Move this into the "
            "operator before key_by."
        )


def _given(function: Any) -> str:
    if isinstance(function, type):
        return f"the class {function.__name__} (not an instance: are the brackets missing?)"
    return f"{type(function).__name__} {_short(function)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return "(which has no repr)"
    return text if len(text) <= 80 else text[:77] + "..."


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
