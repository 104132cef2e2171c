"""Fields of records: as keys, and as what `project` takes."""

from __future__ import annotations

import operator
from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.partitioning import KeyGroups
from penstock.core.types import (
    PickledBytesTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    checked_type,
)
from penstock.operators.adapters import as_key_selector

__all__ = ["Projection", "key_groups", "one_key", "projected_type"]


def key_groups(
    key_selector: Any, key_type: TypeInformation | str | int | None = None, *more: Any
) -> KeyGroups:
    """Returns the exchange of a key selector.

    Args:
        key_selector: A function, a `KeySelector`, or the name or position of a field.
        key_type: Declared type of the key; keys are converted only if it differs in Python. Or the
            second of several fields.
        more: Further fields.
    """
    if more or isinstance(key_type, str | int):
        key_selector, key_type = _fields(key_selector, key_type, *more), None
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
    declared = None if key_type is None else checked_type(key_type, "key_type")
    if declared is not None and declared.converter() is not None:
        columns = None
    return KeyGroups(selector, columns, declared)


def _fields(*names: Any) -> operator.itemgetter[Any]:
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ProgramError(
                f"key_by{names!r:.200} takes names or positions of fields, or one function of a "
                f"record; {name!r:.80} is neither a name nor a position."
            )
    return operator.itemgetter(*names)


def one_key(value: Any) -> int:
    """Gives all records one key, as `window_all` and unkeyed joins need it."""
    return 0


class Projection:
    """Takes fields out of a record; always makes a tuple, also of one field."""

    def __init__(self, positions: tuple[int, ...]) -> None:
        self._positions = positions

    def __call__(self, value: Any) -> tuple[Any, ...]:
        return tuple([value[position] for position in self._positions])


def projected_type(
    type_info: TypeInformation, positions: tuple[int, ...]
) -> TypeInformation | None:
    """Returns the type of projected records; None when that of the records is not declared.

    Raises:
        ProgramError: The records are no tuples, or have no such fields.
    """
    if not positions or not all(isinstance(position, int) for position in positions):
        raise ProgramError(f"project() takes positions of fields, not {positions!r}.")
    if isinstance(type_info, PickledBytesTypeInfo):
        return None
    if not isinstance(type_info, TupleTypeInfo):
        raise ProgramError(
            f"project() is for streams of tuples, but this one is of {type_info!r}. Use map() with "
            "a function that makes the record you want."
        )
    fields = type_info.get_field_types()
    outside = [position for position in positions if not 0 <= position < len(fields)]
    if outside:
        raise ProgramError(
            f"project() got the positions {outside}, but {type_info!r} has the fields 0 to "
            f"{len(fields) - 1}."
        )
    return Types.TUPLE([fields[position] for position in positions])
