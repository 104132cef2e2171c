"""Pickling of values that a program's functions made.

Plain pickle is the fastest, but cannot name a class of a notebook's cell or of a function's body.
A library that pickles such a class by value is registered here.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

PROTOCOL: Final = 5
_ATOMS: Final = frozenset((int, float, bool, complex, type(None)))
_LEVELS: Final = 7
_SMALL: Final = 1_000
"""Characters of a text, or fields."""

_by_value: list[Callable[[Any], bytes]] = []


def register_by_value_pickler(dumps: Callable[[Any], bytes]) -> None:
    """Sets what is tried when plain pickle fails, for example `cloudpickle.dumps`."""
    _by_value[:] = [dumps]


def dumps(value: Any) -> bytes:
    """Returns the bytes of a value; raises what plain pickle raises."""
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        for by_value in _by_value:
            try:
                return by_value(value)
            except (pickle.PicklingError, AttributeError, TypeError):
                break
        raise


def are_small(*lists: Sequence[Any]) -> bool:
    """Whether a sample of the items of these lists is made of few built-in values.

    Pickle looks every object up in its memo, in case it comes again, which takes longer than
    writing it: 261 instead of 99 ns for a tuple of three. Small values are better written again. A
    wrong guess costs bytes, nothing else.
    """
    return all(
        _is_small(item, _LEVELS) for items in lists for item in items[:: len(items) // 8 + 1]
    )


def _is_small(value: Any, levels: int) -> bool:
    kind = type(value)
    if kind in (str, bytes):
        return len(value) <= _SMALL
    if kind in (tuple, list, dict) and levels:
        parts = chain.from_iterable(value.items()) if kind is dict else value
        return len(value) <= _SMALL and all(_is_small(part, levels - 1) for part in parts)
    return kind in _ATOMS


def dumps_without_memo(value: Any) -> bytes:
    """Returns the bytes of a value, in which what comes twice is written twice.

    Raises:
        ValueError: The value holds itself, or whatever plain pickle raises.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, PROTOCOL)
    pickler.fast = True
    pickler.dump(value)
    return buffer.getvalue()
