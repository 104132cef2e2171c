"""What can be seen to be wrong with a user's function before it is called for the first time."""

from __future__ import annotations

import dis
import inspect
import types
from typing import Any, Final

from penstock.core.errors import ProgramError
from penstock.core.naming import name_of
from penstock.operators.function_checkpointed import CheckpointedFunction

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
        raise ProgramError(
            f"{name_of(function)} cannot be called as {signature}: {error}.{hint}"
        ) from None
    except ValueError:
        return  # It does not say what it takes.


def _refuse_coroutine(function: Any) -> None:
    """Refuses an `async def` where nobody would await it."""
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
    """Refuses a `CheckpointedFunction` where nobody would ask it for its state."""
    if isinstance(function, CheckpointedFunction):
        raise ProgramError(
            f"{type(function).__name__} is a CheckpointedFunction, but {place} has no state of its "
            "own: snapshot_state() would never be called. Keep the state in an operator before it."
        )
