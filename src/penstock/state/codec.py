"""Bytes of stored state: pickle, protocol 5.

Classes that pickle cannot name (those of a user's main program) need pickling by value; whoever has
a library for that registers it here, since this layer depends on none.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = 5

_fallbacks: list[Callable[[Any], bytes]] = []


def register_by_value_pickler(dumps: Callable[[Any], bytes]) -> None:
    """Sets what is tried when plain pickle fails, for example `cloudpickle.dumps`."""
    _fallbacks[:] = [dumps]


def dumps(value: Any, what: str) -> bytes:
    """Returns the bytes of `value`.

    Raises:
        StateError: It cannot be pickled; the text names `what`.
    """
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        for fallback in _fallbacks:
            try:
                return fallback(value)
            except (pickle.PicklingError, AttributeError, TypeError):
                break
        raise StateError(
            f"{what} holds a value that cannot be pickled: {error}. Keep plain data in state, and "
            "open connections, locks and files in the function's open()."
        ) from error


def loads(data: bytes) -> Any:
    """Reads what `dumps` wrote."""
    return pickle.loads(data)
