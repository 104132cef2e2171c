"""Bytes of stored state: pickle, protocol 5."""

from __future__ import annotations

import io
import pickle
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.core import pickling
from penstock.core.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = pickling.PROTOCOL
_LONG: Final = 64
_DEPTH: Final = 7
_ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes})
_CONTAINERS: Final = frozenset({list, tuple, dict})


def dumps(value: Any, what: str) -> bytes:
    """Returns the bytes of `value`.

    Raises:
        StateError: It cannot be pickled; the text names `what`.
    """
    try:
        return pickling.dumps(_packed(value, _DEPTH))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StateError(
            f"{what} holds a value that cannot be pickled: {error}. Keep plain data in state, and "
            "open connections, locks and files in the function's open()."
        ) from error


class _Packed:
    """A long list of built-in values, pickled without a memo; comes back as the list itself.

    Pickle looks every object up in its memo, in case it comes again. State entries are values of
    their own, so that is wasted: without it a tuple of three takes 99 instead of 261 ns.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self._data,)


def _packed(value: Any, depth: int) -> Any:
    """Returns the same structure with long lists of built-in values packed."""
    kind = type(value)
    if depth == 0 or kind not in (list, tuple):
        return value
    if kind is list and len(value) >= _LONG:
        return _pack(value) if _is_plain(value, _DEPTH) else value
    return kind([_packed(part, depth - 1) for part in value])


def _pack(values: list[Any]) -> Any:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, PROTOCOL)
    pickler.fast = True
    try:
        pickler.dump(values)
    except ValueError:
        # The values hold themselves; only the memo can write that.
        return values
    return _Packed(buffer.getvalue())


def _is_plain(value: Any, depth: int) -> bool:
    """Looks at a sample; a wrong guess costs bytes, nothing else."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if depth == 0 or kind not in _CONTAINERS or not value:
        return kind in _CONTAINERS and not value
    if kind is dict:
        return all(_is_plain(part, depth - 1) for item in islice(value.items(), 8) for part in item)
    return all(_is_plain(part, depth - 1) for part in islice(value, 16)) and _is_plain(
        next(iter(reversed(value))), depth - 1
    )


def loads(data: bytes) -> Any:
    """Reads what `dumps` wrote."""
    return pickle.loads(data)
