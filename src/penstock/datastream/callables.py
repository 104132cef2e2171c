"""Plain functions where PyFlink takes an object: `process(lambda value, ctx: ...)`.

The function becomes an attribute of the object under the method's name, so that a call costs no
more than a call of the function itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.types import (
    PickledBytesTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    checked_type,
)
from penstock.graph.nodes import KeyGroups
from penstock.operators.adapters import as_key_selector, check_callable
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
    "Projection",
    "as_all_window_function",
    "as_keyed_process_function",
    "as_process_all_window_function",
    "as_process_function",
    "as_process_join_function",
    "as_process_window_function",
    "as_window_function",
    "inspecting",
    "key_groups",
    "one_key",
    "projection",
]


def key_groups(
    key_selector: Any, key_type: TypeInformation | str | int | None = None, *more: Any
) -> KeyGroups:
    """Returns the exchange of a key selector.

    Args:
        key_selector: A function, a `KeySelector`, or the name or position of a field.
        key_type: Declared type of the key; keys are converted only if it differs in Python. Or the
            second of several fields.
        more: Further fields.
    """
    if more or isinstance(key_type, str | int):
        key_selector, key_type = _fields(key_selector, key_type, *more), None
    columns: tuple[Any, ...] | None = None
    if isinstance(key_selector, str | int) and not isinstance(key_selector, bool):
        columns = (key_selector,)
        key_selector = operator.itemgetter(key_selector)
    elif isinstance(key_selector, operator.itemgetter):
        columns = key_selector.__reduce__()[1]  # type: ignore[assignment]
    elif key_selector is None:
        raise ProgramError(
            "key_by() takes a function of a record, a KeySelector, or the name or position of a "
            "field, but got None."
        )
    selector = as_key_selector(key_selector)
    declared = None if key_type is None else checked_type(key_type, "key_type")
    if declared is not None and declared.converter() is not None:
        columns = None
    return KeyGroups(selector, columns, declared)


def _fields(*names: Any) -> operator.itemgetter[Any]:
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ProgramError(
                f"key_by{names!r:.200} takes names or positions of fields, or one function of a "
                f"record; {name!r:.80} is neither a name nor a position."
            )
    return operator.itemgetter(*names)


def one_key(value: Any) -> int:
    """Returns one key for all records, as `window_all` and unkeyed joins need it."""
    return 0


class Projection:
    """Takes fields out of a record; always makes a tuple, also of one field."""

    def __init__(self, positions: tuple[int, ...]) -> None:
        self._positions = positions

    def __call__(self, value: Any) -> tuple[Any, ...]:
        return tuple([value[position] for position in self._positions])


def projection(
    type_info: TypeInformation, positions: tuple[int, ...]
) -> tuple[Projection, TypeInformation | None]:
    """Returns what projects records, and their type; None when that of the records is not declared.

    Raises:
        ProgramError: The records are no tuples, or have no such fields.
    """
    if not positions or not all(isinstance(position, int) for position in positions):
        raise ProgramError(f"project() takes positions of fields, not {positions!r}.")
    if isinstance(type_info, PickledBytesTypeInfo):
        return Projection(positions), None
    if not isinstance(type_info, TupleTypeInfo):
        raise ProgramError(
            f"project() is for streams of tuples, but this one is of {type_info!r}. Use map() with "
            "a function that makes the record you want."
        )
    fields = type_info.get_field_types()
    outside = [position for position in positions if not 0 <= position < len(fields)]
    if outside:
        raise ProgramError(
            f"project() got the positions {outside}, but {type_info!r} has the fields 0 to "
            f"{len(fields) - 1}."
        )
    return Projection(positions), Types.TUPLE([fields[position] for position in positions])


def _called(kind: type[Function], method: str) -> Any:
    """Makes a subclass whose objects have a plain function as that method."""

    def set_method(self: Any, function: Any) -> None:
        setattr(self, method, function)

    def unset(self: Any, *args: Any) -> Any:
        raise NotImplementedError

    name = f"_Called{kind.__name__.removesuffix('Function')}"
    return type(name, (kind,), {"__init__": set_method, method: unset, "__module__": __name__})


# Under the names that the classes have, by which they are pickled.
_CalledProcess = _called(ProcessFunction, "process_element")
_CalledKeyedProcess = _called(KeyedProcessFunction, "process_element")
_CalledProcessJoin = _called(ProcessJoinFunction, "process_element")
_CalledWindow = _called(WindowFunction, "apply")
_CalledAllWindow = _called(AllWindowFunction, "apply")
_CalledProcessWindow = _called(ProcessWindowFunction, "process")
_CalledProcessAllWindow = _called(ProcessAllWindowFunction, "process")


def as_process_function(function: Any) -> ProcessFunction:
    """Returns a ProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, KeyedProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a KeyedProcessFunction, but the stream has no key. "
            "Call key_by(...) before process(), or make it a ProcessFunction."
        )
    return _wrap(  # type: ignore[no-any-return]
        function, _CalledProcess, "process_element(value, ctx)", ProcessFunction
    )


def as_keyed_process_function(function: Any) -> KeyedProcessFunction:
    """Returns a KeyedProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, ProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a ProcessFunction, but the stream has a key. Make it a "
            "KeyedProcessFunction, or call process() before key_by(...)."
        )
    return _wrap(  # type: ignore[no-any-return]
        function, _CalledKeyedProcess, "process_element(value, ctx)", KeyedProcessFunction
    )


def as_process_join_function(function: Any) -> ProcessJoinFunction:
    """Returns a ProcessJoinFunction; takes `(left, right, ctx) -> results` as well."""
    return _wrap(  # type: ignore[no-any-return]
        function, _CalledProcessJoin, "process_element(left, right, ctx)", ProcessJoinFunction
    )


def as_window_function(function: Any) -> Any:
    """Returns a window function; takes `(key, window, inputs) -> results` as well."""
    kinds = WindowFunction, ProcessWindowFunction
    return _wrap(function, _CalledWindow, "apply(key, window, inputs)", *kinds)


def as_process_window_function(function: Any) -> Any:
    """Returns a window function; takes `(key, context, elements) -> results` as well."""
    kinds = ProcessWindowFunction, WindowFunction
    return _wrap(function, _CalledProcessWindow, "process(key, context, elements)", *kinds)


def as_all_window_function(function: Any) -> Any:
    """Returns a window function; takes `(window, inputs) -> results` as well."""
    kinds = AllWindowFunction, ProcessAllWindowFunction
    return _wrap(function, _CalledAllWindow, "apply(window, inputs)", *kinds)


def as_process_all_window_function(function: Any) -> Any:
    """Returns a window function; takes `(context, elements) -> results` as well."""
    kinds = ProcessAllWindowFunction, AllWindowFunction
    return _wrap(function, _CalledProcessAllWindow, "process(context, elements)", *kinds)


def inspecting(function: Any) -> Callable[[Any], Any]:
    """Returns a function that hands `function` a value and returns the value."""
    if not callable(function) or isinstance(function, Function | type):
        raise ProgramError(f"inspect() takes a function of a record, but got {function!r:.80}.")
    check_callable(function, "inspect(value)")

    def hand_on(value: Any) -> Any:
        function(value)
        return value

    return hand_on


def _wrap(function: Any, wrapper: Any, signature: str, *kinds: type[Function]) -> Any:
    if isinstance(function, kinds):
        return function
    if callable(function) and not isinstance(function, Function | type):
        check_callable(function, signature)
        return wrapper(function)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    given = function.__name__ if isinstance(function, type) else type(function).__name__
    hint = " Are the brackets missing?" if isinstance(function, type) else ""
    raise ProgramError(f"{given} was given where a {wanted} or a function is needed.{hint}")
