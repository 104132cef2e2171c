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


def _taker(signature: str, kind: type[Function], *others: type[Function]) -> Callable[[Any], Any]:
    """Returns what makes an object of `kind` of a plain function; objects stay what they are."""
    wrapper = _called(kind, signature.partition("(")[0])
    globals()[wrapper.__name__] = wrapper  # By that name its objects are pickled.
    return lambda function: _wrap(function, wrapper, signature, kind, *others)


_as_process = _taker("process_element(value, ctx)", ProcessFunction)
_as_keyed_process = _taker("process_element(value, ctx)", KeyedProcessFunction)
as_process_join_function = _taker("process_element(left, right, ctx)", ProcessJoinFunction)
as_window_function = _taker("apply(key, window, inputs)", WindowFunction, ProcessWindowFunction)
as_process_window_function = _taker(
    "process(key, context, elements)", ProcessWindowFunction, WindowFunction
)
as_all_window_function = _taker(
    "apply(window, inputs)", AllWindowFunction, ProcessAllWindowFunction
)
as_process_all_window_function = _taker(
    "process(context, elements)", ProcessAllWindowFunction, AllWindowFunction
)


def as_process_function(function: Any) -> ProcessFunction:
    """Returns a ProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, KeyedProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a KeyedProcessFunction, but the stream has no key. "
            "Call key_by(...) before process(), or make it a ProcessFunction."
        )
    return _as_process(function)  # type: ignore[no-any-return]


def as_keyed_process_function(function: Any) -> KeyedProcessFunction:
    """Returns a KeyedProcessFunction; takes `(value, ctx) -> results` as well."""
    if isinstance(function, ProcessFunction):
        raise ProgramError(
            f"{type(function).__name__} is a ProcessFunction, but the stream has a key. Make it a "
            "KeyedProcessFunction, or call process() before key_by(...)."
        )
    return _as_keyed_process(function)  # type: ignore[no-any-return]


def inspecting(function: Any) -> Callable[[Any], Any]:
    """Returns a function that hands `function` a value and returns the value."""
    if not callable(function) or isinstance(function, Function | type):
        raise ProgramError(f"inspect() takes a function of a record, but got {function!r:.80}.")
    check_callable(function, "inspect(value)")

    def hand_on(value: Any) -> Any:
        function(value)
        return value

    return hand_on


_OF_KEYS = (WindowFunction, ProcessWindowFunction)
_OF_ALL = (AllWindowFunction, ProcessAllWindowFunction)


def _wrap(function: Any, wrapper: Any, signature: str, *kinds: type[Function]) -> Any:
    if isinstance(function, kinds):
        return function
    if callable(function) and not isinstance(function, Function | type):
        check_callable(function, signature)
        return wrapper(function)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    given = function if isinstance(function, type) else type(function)
    article = "an" if wanted[0] in "AEIO" else "a"
    hint = " Are the brackets missing?" if given is function else ""
    if issubclass(given, _OF_KEYS) and AllWindowFunction in kinds:
        hint += (
            " The windows of window_all() have no key: leave the parameter `key` out and make it "
            f"{article} {kinds[0].__name__}, or call key_by(...).window(...)."
        )
    if issubclass(given, _OF_ALL) and WindowFunction in kinds:
        hint += (
            " The stream has a key: add `key` as the first parameter and make it "
            f"{article} {kinds[0].__name__}, or call window_all(...) before key_by(...)."
        )
    raise ProgramError(
        f"{given.__name__} was given where {article} {wanted} or a function is needed.{hint}"
    )
