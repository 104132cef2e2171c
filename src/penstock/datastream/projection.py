"""`project`: some fields of tuples."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.types import PickledBytesTypeInfo, TupleTypeInfo, TypeInformation, Types

__all__ = ["Projection", "projected_type"]


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
