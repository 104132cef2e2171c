"""Bytes of stored state: pickle, protocol 5."""

from __future__ import annotations

import datetime
import decimal
import io
import pickle
from typing import TYPE_CHECKING, Any, Final

from penstock.core import pickling
from penstock.core.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = pickling.PROTOCOL
_LONG: Final = 64
_DEPTH: Final = 7


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
    """A long list of small values, pickled without a memo; comes back as the list itself."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self._data,)


def _packed(value: Any, depth: int) -> Any:
    """Returns the same structure with long lists of small values packed."""
    kind = type(value)
    if depth == 0 or kind not in (list, tuple):
        return value
    if kind is list and len(value) >= _LONG:
        return _pack(value) if pickling.are_small(value) else value
    return kind([_packed(part, depth - 1) for part in value])


def _pack(values: list[Any]) -> Any:
    try:
        return _Packed(pickling.dumps_without_memo(values))
    except Exception:
        # Not all are like those that were looked at.
        return values


def loads(data: bytes) -> Any:
    """Reads what `dumps` wrote."""
    return pickle.loads(data)


def loads_plain(data: bytes | memoryview) -> Any:
    """Reads what `dumps` wrote of built-in values, dates and decimals; runs no code of the data.

    Raises:
        Exception: It names anything else, or is malformed.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


_PLAIN: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    # What `_Packed` says of itself.
    ("_pickle", "loads"): loads_plain,
    ("builtins", "complex"): complex,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): decimal.Decimal,
}
"""All that such data may call; no class written in Python, because a pickle can change it."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        return _PLAIN[module, name]
