"""Pickling of values that a program's functions made.

Plain pickle is the fastest, but cannot name a class of a notebook's cell or of a function's body.
Whoever has a library that pickles such a class by value registers it here.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = 5

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
