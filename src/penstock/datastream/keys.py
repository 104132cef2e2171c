"""Key selectors as exchanges."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.partitioning import KeyGroups
from penstock.core.types import TypeInformation, checked_type
from penstock.operators.adapters import as_key_selector

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["key_groups", "one_key"]


def key_groups(key_selector: Any, key_type: TypeInformation | None = None) -> KeyGroups:
    """Returns the exchange of a key selector.

    Args:
        key_selector: A function, a `KeySelector`, or the name or position of a field.
        key_type: Declared type of the key; keys are converted only if it differs in Python.
    """
    columns: tuple[Any, ...] | None = None
    if isinstance(key_selector, str | int) and not isinstance(key_selector, bool):
        columns = (key_selector,)
        key_selector = operator.itemgetter(key_selector)
    elif isinstance(key_selector, operator.itemgetter):
        columns = key_selector.__reduce__()[1]  # type: ignore[assignment]
    elif key_selector is None:
        raise ProgramError(
            "key_by() takes a function of a record, a KeySelector, or the name or position of a "
            "field, but got None."
        )
    selector = as_key_selector(key_selector)
    convert = None if key_type is None else checked_type(key_type, "key_type").converter()
    if convert is None:
        return KeyGroups(selector, columns)
    return KeyGroups(_Converted(selector, convert))


class _Converted:
    """A key selector whose keys become objects of their declared type."""

    def __init__(self, selector: Callable[[Any], Any], convert: Callable[[Any], Any]) -> None:
        self._selector = selector
        self._convert = convert

    def __call__(self, value: Any) -> Any:
        return self._convert(self._selector(value))


def one_key(value: Any) -> int:
    """Gives all records one key, as `window_all` and unkeyed joins need it."""
    return 0
