"""Copies of records: what was emitted, or put into state, stays what it was at that moment.

A function may go on changing an object that it has emitted. So whatever leaves a function is copied
on the spot, unless it cannot change:

    values = [result if type(result) in IMMUTABLE else snapshot(result) for result in results]

From this follows that a batch owns its records: no other code holds what may change in them, and
the only consumer of a batch may do with them as it likes. `docs/decisions/0014` has figures.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import pickle
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from itertools import chain
from operator import is_
from typing import Any, Final

from penstock.core.row import Row, copied_row
from penstock.core.times import Duration, Instant, Time

IMMUTABLE: Final[frozenset[type]] = frozenset(
    (
        *(str, int, float, bool, bytes, complex, type(None), range, type(...), uuid.UUID),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, Time, Duration, Instant),
    )
)
"""Types whose values never change and hold nothing that does."""

_SHARED: Final = (
    *(Enum, type, types.ModuleType, types.FunctionType, types.MethodType),
    *(types.BuiltinFunctionType, datetime.tzinfo, types.GenericAlias),
)
"""Values of these are what they are, not what they hold; pickle would not copy most either."""

_UNSET: Final = object()
_HASHABLE: Final = IMMUTABLE | {tuple, frozenset}
_all_immutable: Final = IMMUTABLE.issuperset
Copier = Callable[[Any], Any]


def snapshot(value: Any) -> Any:
    """Returns a value that no other code can change: itself if nothing can, else a deep copy.

    What cannot be copied, such as a lock or a connection, is returned as it is.
    """
    kind = type(value)
    try:
        return (_COPIERS.get(kind) or _copier_of(kind))(value)
    except RecursionError:
        return _deep(value)  # The value holds itself.


def unchanged(value: Any) -> Any:
    """Stands for `snapshot` where objects are reused."""
    return value


def snapshots(values: list[Any]) -> list[Any]:
    """Returns a list of the snapshots of values; the same list if nothing in it can change."""
    kinds = set(map(type, values))
    if _all_immutable(kinds):
        return values
    if kinds == {tuple} and _all_immutable(map(type, chain.from_iterable(values))):
        return values
    return [value if type(value) in IMMUTABLE else snapshot(value) for value in values]


def _part(value: Any) -> Any:
    kind = type(value)
    return (_COPIERS.get(kind) or _copier_of(kind))(value)


def _parts(values: Any) -> list[Any]:
    return [value if type(value) in IMMUTABLE else _part(value) for value in values]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if _all_immutable(map(type, value)):
        return value
    parts = _parts(value)
    return value if all(map(is_, parts, value)) else tuple(parts)


def _list(value: list[Any]) -> list[Any]:
    return value.copy() if _all_immutable(map(type, value)) else _parts(value)


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    # A key cannot change, or it would not be found again.
    if _all_immutable(map(type, value.values())):
        return value.copy()
    return dict(zip(value, _parts(value.values()), strict=True))


def _flat_mapping(value: Any) -> Any:
    return value.copy() if _all_immutable(map(type, value.values())) else _deep(value)


def _set(value: Any) -> Any:
    return value.copy() if _HASHABLE.issuperset(map(type, value)) else _deep(value)


def _deque(value: deque[Any]) -> deque[Any]:
    return deque(_parts(value), value.maxlen)


def _row(value: Row) -> Row:
    return copied_row(value, _list)


def _deep(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        # Slower, but takes classes that pickle cannot name.
        try:
            return copy.deepcopy(value)
        except Exception:
            return value


_COPIERS: Final[dict[type, Copier]] = {
    **dict.fromkeys(IMMUTABLE, unchanged),
    tuple: _tuple,
    list: _list,
    dict: _dict,
    set: _set,
    frozenset: _set,
    deque: _deque,
    Row: _row,
    **dict.fromkeys((defaultdict, OrderedDict, Counter), _flat_mapping),
}
"""How values of a type are copied; grows with the types that come along."""


def never_copy(kind: type) -> None:
    """Says that values of a type do not change."""
    _COPIERS[kind] = unchanged


def _copier_of(kind: type) -> Copier:
    if issubclass(kind, _SHARED):
        copier: Copier = unchanged
    elif dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        copier = _frozen_copier(kind)
    elif issubclass(kind, tuple) and hasattr(kind, "_fields") and not kind.__dictoffset__:
        copier = _named_tuple_copier(kind)
    elif _is_plain(kind):
        copier = _object_copier(kind) if kind.__dictoffset__ else _slots_copier(kind)
    else:
        copier = _deep
    _COPIERS[kind] = copier
    return copier


def _frozen_copier(kind: Any) -> Copier:
    names = [field.name for field in dataclasses.fields(kind)]

    def copied(value: Any) -> Any:
        fields = [getattr(value, name, None) for name in names]
        return value if all(map(is_, _parts(fields), fields)) else _deep(value)

    return copied


def _named_tuple_copier(kind: type) -> Copier:
    new = tuple.__new__

    def copied(value: Any) -> Any:
        parts = _parts(value)
        return value if all(map(is_, parts, value)) else new(kind, parts)

    return copied


def _is_plain(kind: Any) -> bool:
    """Whether objects are their `__dict__` or slots and say nothing about how they are copied."""
    says_how = ("__copy__", "__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    return (
        kind.__new__ is object.__new__
        and all(getattr(kind, name) is getattr(object, name) for name in _STANDARD)
        and not any(hasattr(kind, name) for name in says_how)
        and (not _slots_of(kind) if kind.__dictoffset__ else _has_slots_only(kind))
        and kind.__basicsize__ <= object.__basicsize__ + 8 * (2 + len(_slots_of(kind)))
    )


def _has_slots_only(kind: type) -> bool:
    return all("__slots__" in vars(base) for base in kind.__mro__[:-1])


def _slots_of(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        own = vars(base).get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _slots_copier(kind: type) -> Copier:
    names, new, put = _slots_of(kind), object.__new__, object.__setattr__

    def copied(value: Any) -> Any:
        made: Any = new(kind)
        for name in names:
            part = getattr(value, name, _UNSET)
            if part is not _UNSET:
                put(made, name, part if type(part) in IMMUTABLE else _part(part))
        return made

    return copied


_STANDARD: Final = ("__reduce__", "__reduce_ex__", "__getstate__")


def _object_copier(kind: type) -> Copier:
    new = object.__new__

    def copied(value: Any) -> Any:
        made: Any = new(kind)
        held = value.__dict__
        if _all_immutable(map(type, held.values())):
            made.__dict__ = held.copy()
        else:
            made.__dict__ = dict(zip(held, _parts(held.values()), strict=True))
        return made

    return copied
