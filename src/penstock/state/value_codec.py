"""What every codec of a declared type does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.core.errors import StateError

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

Column = list[Any]
"""Values, or their wire form, in order; None is no value."""


class ValueCodec(ABC):
    """Writes and reads the values of one declared type.

    Attributes:
        declared: The type.
    """

    def __init__(self, declared: TypeInformation) -> None:
        self.declared = declared

    @abstractmethod
    def to_wire(self, values: Column) -> Column:
        """Returns what msgpack can hold; the same list where nothing is to be done.

        Raises:
            MismatchError: A value is not of the type.
        """

    @abstractmethod
    def from_wire(self, items: Column) -> Column:
        """Takes back what `to_wire` gave."""


class MismatchError(StateError):
    """A value is not of the declared type."""


def mismatched(declared: TypeInformation, value: Any, why: str | None = None) -> MismatchError:
    """Returns the error for a value that is not of the declared type."""
    text = why or declared.mismatch(value) or f"declared {declared!r}, got {value!r:.60}"
    return MismatchError(text)


def value_refused(what: str, error: MismatchError) -> StateError:
    """Returns the error for a state whose value is not of its type."""
    return StateError(f"{what}: {error}. Store a value of that type, or declare another one.")
