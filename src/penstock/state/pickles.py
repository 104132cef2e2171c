"""Pickled state: whether it may be written and read, its bytes, what stands for it unread."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import io
import pickle
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.core import pickling
from penstock.core.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG: Final = 64
_DEPTH: Final = 7


class Pickles(Enum):
    """What to do about pickled state.

    Attributes:
        ALLOW: Write and read it, as a running job does.
        REFUSE: Neither; `penstock.state.allow-pickle: false`.
        OPAQUE: Read what is made of built-in values, dates and decimals, and show of the rest
            that it is there, as offline readers do.
    """

    ALLOW = "allow"
    REFUSE = "refuse"
    OPAQUE = "opaque"


class Opaque:
    """Stands for a pickled value that was not read, because reading it may run code.

    Attributes:
        size_bytes: Length of the pickle that holds the value.
        shared_by: How many values that pickle holds.
        digest: Names the value: equal digests are equal bytes at the same place of equal pickles.
    """

    __slots__ = ("digest", "shared_by", "size_bytes")

    def __init__(self, size_bytes: int, digest: str, shared_by: int = 1) -> None:
        self.size_bytes = size_bytes
        self.digest = digest
        self.shared_by = shared_by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        if self.shared_by == 1:
            return f"<pickle, {self.size_bytes} bytes>"
        return f"<one of {self.shared_by} values in a pickle, {self.size_bytes} bytes>"


def is_hidden(value: object) -> bool:
    """Returns whether a value, or a part of a list or tuple, was not read."""
    if isinstance(value, list | tuple):
        return any(map(is_hidden, value))
    return isinstance(value, Opaque)


def opaque_value(data: bytes | memoryview) -> Opaque:
    """Returns what stands for one pickle."""
    return Opaque(len(data), hashlib.sha256(data).hexdigest()[:16])


def opaque_values(data: bytes, count: int) -> list[Opaque]:
    """Returns what stands for the values of a pickle that holds several."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    return [Opaque(len(data), f"{digest}-{number}", count) for number in range(count)]


def refusal(what: str) -> StateError:
    """Returns the error for a pickle where none is allowed."""
    return StateError(
        f"{what}, and penstock.state.allow-pickle is false. Declare the type of the state in its "
        "descriptor, such as ValueStateDescriptor('count', Types.LONG()), with types other than "
        "PICKLED_BYTE_ARRAY, or allow pickles."
    )


def pickle_bytes(value: Any, what: str) -> bytes:
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


def unpickled_plain(data: bytes | memoryview) -> Any:
    """Reads what `pickle_bytes` wrote of built-in values, dates and decimals; runs no code of it.

    Raises:
        Exception: It names anything else, or is malformed.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


_PLAIN: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    # What `_Packed` says of itself.
    ("_pickle", "loads"): unpickled_plain,
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
