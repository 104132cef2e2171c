"""Whether pickles in state may be written and read; what stands for those that are not read."""

from __future__ import annotations

import hashlib
from enum import Enum

from penstock.core.errors import StateError


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


def pickled_file(what: str, pickles: Pickles) -> StateError:
    """Returns the error for a file of an earlier release, which is one pickle."""
    text = f"{what} is of an earlier release, which pickled all state"
    if pickles is Pickles.REFUSE:
        return StateError(f"{text}, and penstock.state.allow-pickle is false. Allow it once.")
    return StateError(
        f"{text}. Reading it may run code that it holds: say unpickle=True (--unpickle) if you "
        "trust it."
    )
