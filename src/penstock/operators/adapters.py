"""Makes a plain callable of what a program gives: a function object or any callable.

Each `as_*` is also the check that a program is given early: a wrong type raises `ProgramError`,
which says what came and what is accepted. `keeps_nothing` says whose results need no copies.
"""

from __future__ import annotations

import builtins
import collections
import copy
import datetime
import decimal
import dis
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, TypeVar

from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.errors import ProgramError, name_of, shorten
from penstock.core.row import Row
from penstock.operators import functions as base
from penstock.operators.functions import Function
from penstock.operators.runtime_context import CheckpointedFunction

_MADE_OF_SOMETHING: Final = frozenset(("BUILD_LIST", "BUILD_TUPLE", "BUILD_MAP", "BUILD_SET"))


def check_methods(thing: Any, *, may_return: bool = False) -> None:
    """Refuses methods that cannot be called as those of ours that they override.

    Args:
        thing: An object of the user's: a function, a trigger, a source, a sink.
        may_return: Whether what a generator returns is looked at, as with `PythonSource.read`.
    """
    seen: set[str] = set()
    for kind in type(thing).__mro__:
        if not kind.__module__.startswith("penstock."):
            continue
        for name, inherited in vars(kind).items():
            if name[0] == "_" or name in seen or not isinstance(inherited, types.FunctionType):
                continue
            seen.add(name)
            if getattr(type(thing), name) is not inherited:
                arguments = ", ".join(list(inspect.signature(inherited).parameters)[1:])
                check_callable(
                    getattr(thing, name),
                    f"{name}({arguments})",
                    may_wait=inspect.iscoroutinefunction(inherited),
                    may_return=may_return,
                )


def check_callable(
    function: Any, signature: str, *, may_wait: bool = False, may_return: bool = False
) -> None:
    """Refuses a Python function that will not do what its writer meant.

    Args:
        function: A function, a lambda or a method; anything else is taken as it is.
        signature: How it will be called, such as `map(value)`.
        may_wait: Whether it may be a coroutine.
        may_return: Whether a generator may return a value.
    """
    if isinstance(function, types.FunctionType | types.MethodType):
        _check_arity(function, signature)
        if not may_wait:
            _refuse_coroutine(function)
        if not may_return:
            _refuse_lost_result(function)


def _check_arity(function: Any, signature: str) -> None:
    arguments = [name for name in signature.partition("(")[2].rstrip(")").split(", ") if name]
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        hint = ""
        if arguments == ["value"] and isinstance(function, types.FunctionType):
            hint = " A record that is a tuple comes as one argument: lambda pair: pair[0]."
        elif any(f"argument: '{name}'" in str(error) for name in ("out", "collector")):
            hint = " As in PyFlink, there is no collector: yield the results."
        raise ProgramError(
            f"{name_of(function)} cannot be called as {signature}: {error}.{hint}"
        ) from None
    except ValueError:
        return  # It does not say what it takes.


def _refuse_coroutine(function: Any) -> None:
    """Refuses an `async def` that would never be awaited."""
    if inspect.iscoroutinefunction(function):
        raise ProgramError(
            f"{name_of(function)} is a coroutine (async def), but it is called as a plain "
            "function. Leave out async, or use AsyncDataStream with an AsyncFunction."
        )


def _refuse_lost_result(function: Any) -> None:
    """Refuses a `return` with a value beside a `yield`: the value would go nowhere."""
    function = getattr(function, "__func__", function)
    if not inspect.isgeneratorfunction(function):
        return
    line, before = function.__code__.co_firstlineno, None
    for each in dis.get_instructions(function):
        if each.positions is not None and each.positions.lineno is not None:
            line = each.positions.lineno
        returned = before if each.opname == "RETURN_VALUE" else each
        if each.opname.startswith("RETURN_") and returned is not None and _is_value(returned):
            raise ProgramError(
                f"{name_of(function)} has a yield, so that the value it returns in line {line} "
                "is lost. Yield it, or return lists everywhere and yield nothing."
            )
        before = each


def _is_value(made_by: dis.Instruction) -> bool:
    """Whether a value that is not None was surely meant; a call may well give None."""
    name = made_by.opname
    if name in _MADE_OF_SOMETHING:
        return made_by.arg != 0
    if name in {"LOAD_CONST", "RETURN_CONST"}:
        return made_by.argval is not None
    return name == "LOAD_SMALL_INT" or name.startswith("LOAD_FAST")


def refuse_operator_state(function: Any, place: str) -> None:
    """Refuses a `CheckpointedFunction` whose `snapshot_state()` would never be called."""
    if isinstance(function, CheckpointedFunction):
        raise ProgramError(
            f"{type(function).__name__} is a CheckpointedFunction, but {place} has no state of its "
            "own: snapshot_state() would never be called. Keep the state in an operator before it."
        )


AnyCallable = Callable[..., Any]
F = TypeVar("F")

_OF_ONE_VALUE: Final = (
    base.MapFunction,
    base.FilterFunction,
    base.ReduceFunction,
    base.KeySelector,
    base.Partitioner,
    base.JoinFunction,
)


def as_key_selector(function: Any) -> AnyCallable:
    """Returns `value -> key`; for an exchange, which has no life cycle of its own."""
    return _adapt_outside(function, base.KeySelector, "get_key(value)")


def as_partitioner(function: Any) -> AnyCallable:
    """Returns `(key, number of subtasks) -> subtask`; for an exchange."""
    return _adapt_outside(function, base.Partitioner, "partition(key, num_partitions)")


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


def _adapt(function: Any, kind: type[Function], signature: str) -> AnyCallable:
    if isinstance(function, kind):
        bound: AnyCallable = getattr(function, _method_of(signature))
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


def _method_of(signature: str) -> str:
    return signature.partition("(")[0]


def _adapter(kind: type[Function], signature: str) -> Callable[[Any], AnyCallable]:
    """Returns what makes `signature` a plain callable, of a function object of a kind or any."""
    return functools.partial(_adapt, kind=kind, signature=signature)


as_map: Final = _adapter(base.MapFunction, "map(value)")
as_flat_map: Final = _adapter(base.FlatMapFunction, "flat_map(value)")
as_filter: Final = _adapter(base.FilterFunction, "filter(value)")
as_reduce: Final = _adapter(base.ReduceFunction, "reduce(value1, value2)")
as_join: Final = _adapter(base.JoinFunction, "join(first, second)")
as_flat_join: Final = _adapter(base.FlatJoinFunction, "join(first, second)")
as_co_group: Final = _adapter(base.CoGroupFunction, "co_group(first, second)")


def _check_result(function: Any, kind: type[Function], signature: str) -> None:
    """Refuses a `yield` where one value is asked for: the generator itself would be the value."""
    if kind in _OF_ONE_VALUE and inspect.isgeneratorfunction(function):
        raise ProgramError(
            f"{name_of(function)} has a yield, but {signature} returns exactly one value. Return "
            "it, or use flat_map() or process() for any number of them."
        )


def _adapt_outside(function: Any, kind: type[Function], signature: str) -> AnyCallable:
    bound = _adapt(function, kind, signature)
    refuse_operator_state(function, f"a {kind.__name__}")
    if isinstance(function, kind) and type(function).open is not Function.open:
        return _OpenedAtFirstCall(function, _method_of(signature))
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
    return f"{type(function).__name__} {shorten(function, 80)}"


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


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
