"""Built-in aggregates for windows; with them, a job over columns runs without Python per record.

For example `.aggregate(all_of(n=count(), total=sum_of("price")), window_row("channel"))` on windows
gives rows of channel, window start, window end, `n` and `total`.
"""

from __future__ import annotations

from penstock.core.errors import ProgramError
from penstock.operators.windows.aggregates import (
    AvgAggregate,
    CountAggregate,
    MaxAggregate,
    MinAggregate,
    RowAggregate,
    Single,
    SumAggregate,
    WindowRow,
)


def count() -> CountAggregate:
    """Counts the records of a window."""
    return CountAggregate()


def sum_of(column: str | int) -> SumAggregate:
    """Adds up a field; None is left out, and of nothing else the sum is None."""
    return SumAggregate(column)


def min_of(column: str | int) -> MinAggregate:
    """Finds the smallest value of a field that is not None."""
    return MinAggregate(column)


def max_of(column: str | int) -> MaxAggregate:
    """Finds the largest value of a field that is not None."""
    return MaxAggregate(column)


def avg_of(column: str | int) -> AvgAggregate:
    """Averages the values of a field that are not None."""
    return AvgAggregate(column)


def all_of(**aggregates: Single) -> RowAggregate:
    """Computes several aggregates at once; the result is a `Row` with these names."""
    return RowAggregate(aggregates)


def window_row(*key_names: str) -> WindowRow:
    """Makes rows of the key's fields, `window_start`, `window_end` and the aggregates.

    Args:
        key_names: What to call the fields of the key, in their order.
    """
    if not key_names or not all(isinstance(name, str) for name in key_names):
        raise ProgramError(
            f"window_row{key_names!r}: give a name for each field of the key, for example "
            'window_row("channel").'
        )
    return WindowRow(key_names)
