"""What a declared type is (`core.types` has the types and says what they are for)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import UnsupportedError

Converter = Callable[[Any], Any]


class TypeInformation:
    """Base of all types."""

    @property
    def is_immutable(self) -> bool:
        """Whether records of this type never change, nor anything in them."""
        return False

    def converter(self) -> Converter | None:
        """Returns what turns an accepted record into one of this type; None if nothing does."""
        return None

    def convert_all(self, values: list[Any]) -> list[Any]:
        """Returns a batch of accepted records as records of this type.

        Called with everything an operator emits; a type that converts looks at the whole batch at
        C speed first and hands it back untouched when nothing is to be done.
        """
        convert = self.converter()
        return values if convert is None else [convert(value) for value in values]

    def adopted(self, value: Any) -> Any:
        """Returns a record that a program wrote down itself, as Flink's JVM takes it over.

        There a number becomes text where text is declared, and a whole number loses the bits that
        its type has no room for. Anything else stays as it is.
        """
        return value

    def mismatch(self, value: Any) -> str | None:
        """Returns what is wrong with a record, such as 'declared INT, got str', or None."""
        return None

    def need_conversion(self) -> bool:
        """Returns False: records stay Python objects."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Returns the object itself: there is no second representation."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Returns the object itself: there is no second representation."""
        return obj

    def get_java_type_info(self) -> Any:
        raise UnsupportedError(
            f"{self!r}.get_java_type_info() needs Flink's JVM. Penstock has no Java types; the "
            "TypeInformation itself tells all there is."
        )

    def _parts(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts() == self._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return type(self).__name__

    def _wrong(self, value: Any, more: str = "") -> str:
        text = repr(value)
        shown = text if len(text) <= 60 else text[:57] + "..."
        return f"declared {self!r}, got {type(value).__name__} {shown}{more}"
