"""Event times of Arrow columns, equal to those of the records."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.core.columns import NotColumnar

if TYPE_CHECKING:
    from penstock.core.columns import ColumnBatch

_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}


@cache
def _arrow() -> Any:
    importlib.import_module("pyarrow.compute")
    return importlib.import_module("pyarrow")


def stamps_of(column: Any) -> Any:
    """Returns a column as milliseconds since 1970, in int64.

    Raises:
        NotColumnar: There are nulls, or values that are no timestamps.
    """
    arrow = _arrow()
    kind = column.type
    if column.null_count:
        raise NotColumnar("there are records without a timestamp")
    if kind == arrow.int64():
        return column
    try:
        if arrow.types.is_integer(kind):
            return column.cast(arrow.int64())
        if arrow.types.is_timestamp(kind):
            return _milliseconds(column.cast(arrow.int64()), kind.unit)
    except arrow.ArrowInvalid as error:
        raise NotColumnar(f"timestamps do not fit: {error}") from error
    raise NotColumnar(f"timestamps are of type {kind}")


def _milliseconds(numbers: Any, unit: str) -> Any:
    compute = _arrow().compute
    if unit == "ms" or not len(numbers):
        return numbers
    if unit == "s":
        return compute.multiply_checked(numbers, 1_000)
    # Counted from the smallest nothing is negative, so that truncation is rounding down.
    per = _PER_MS[unit]
    lowest = compute.min(numbers).as_py() // per
    moved = compute.divide(compute.subtract_checked(numbers, lowest * per), per)
    return compute.add(moved, lowest)


def newest_of(batch: ColumnBatch) -> int:
    """Returns the highest timestamp of a batch that has some."""
    return _arrow().compute.max(batch.stamps).as_py()  # type: ignore[no-any-return]
