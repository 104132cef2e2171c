"""The unit of work inside a subtask: a batch of records, column by column.

Operators are called once per batch, not once per record: the loop over records then sits next to
the user's function, where a list comprehension makes it cheap. Watermarks are never inside a batch;
they are calls between batches, so the order of records and watermarks on a channel is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

BATCH_RECORDS: Final = 1_024
"""Records of a batch. Few enough that they stay in a core's own cache from the source to the
exchange: with sixteen times as many, a windowed count took twice the processor time."""


class Batch:
    """Records in arrival order.

    Attributes:
        values: The records.
        timestamps: One event time per record, or None when no record of the batch has one.
        keys: One key per record behind a `key_by`, else None.

    A batch is never changed after it has been handed on: several consumers may hold it.
    """

    __slots__ = ("keys", "timestamps", "values")

    def __init__(
        self, values: list[Any], timestamps: list[int] | None = None, keys: list[Any] | None = None
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.keys = keys

    def __len__(self) -> int:
        return len(self.values)

    def part(self, start: int, end: int) -> Batch:
        """Returns some of the records."""
        return Batch(
            self.values[start:end],
            None if self.timestamps is None else self.timestamps[start:end],
            None if self.keys is None else self.keys[start:end],
        )

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, timestamps={self.timestamps!r}, keys={self.keys!r})"


def mean_bytes(values: Sequence[Any]) -> float:
    """Returns about how many bytes one of the values has, from a sample of them.

    Texts, bytes and arrays count as long as they are, also inside containers and objects.
    """
    sample = values[:: len(values) // _SAMPLE + 1]
    return sum(_bytes_of(value, _LEVELS) for value in sample) / max(len(sample), 1)


_SAMPLE: Final = 8
_LEVELS: Final = 4


def _bytes_of(value: Any, levels: int) -> float:
    if type(value) in _NUMBERS:
        return 8
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (tuple, list, set, frozenset)):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    own = sys.getsizeof(value)
    if not parts or not levels:
        return own
    sample = parts[:: len(parts) // _SAMPLE + 1]
    each = sum(_bytes_of(part, levels - 1) for part in sample) / len(sample)
    return own + each * len(parts)


_NUMBERS: Final = frozenset((int, float, bool, complex, type(None)))


# A batch whose records are still columns; it makes records only when someone asks for them.
#
# Sources that hold Arrow columns hand these on when everything behind them can work on columns
# (`runtime/lowering.py`). An operator that knows nothing of columns sees an ordinary batch.


ColumnName = str | int
"""How a program names a field of its records: by name or by position."""


class NotColumnar(Exception):
    """Columns cannot say what the records would have said; the records must be looked at."""


class LazyRows:
    """The records of one read, made at the first use and shared by all slices of it."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._make: Callable[[], list[Any]] | None = make
        self._made: list[Any] = []

    def get(self) -> list[Any]:
        """Returns all records."""
        if self._make is not None:
            self._made = self._make()
            self._make = None
        return self._made


class ColumnBatch(Batch):
    """Records in arrival order, as Arrow columns.

    Attributes:
        arrow: A `pyarrow.RecordBatch` with one column for each of `names`, in that order.
        names: The fields of the records that are there as columns; others exist in records only.
        stamps: Event times as an Arrow array of int64 without nulls, or None when there are none.
    """

    __slots__ = ("_offset", "_rows", "_times", "arrow", "names", "stamps")

    def __init__(
        self,
        arrow: Any,
        names: tuple[ColumnName, ...],
        rows: LazyRows,
        *,
        offset: int = 0,
        stamps: Any = None,
    ) -> None:
        self.arrow = arrow
        self.names = names
        self.stamps = stamps
        self._rows = rows
        self._offset = offset
        self._times: list[int] | None = None

    @property
    def values(self) -> list[Any]:  # type: ignore[override]
        """The records, in the form that the source's format gives."""
        start, end = self._offset, self._offset + len(self)
        rows = self._rows.get()
        return rows if end - start == len(rows) else rows[start:end]

    @property
    def timestamps(self) -> list[int] | None:  # type: ignore[override]
        """One event time per record, or None."""
        if self._times is None and self.stamps is not None:
            self._times = self.stamps.to_pylist()
        return self._times

    @property
    def keys(self) -> list[Any] | None:  # type: ignore[override]
        """Always None: keys are made behind the exchange."""
        return None

    def column(self, name: ColumnName) -> Any:
        """Returns the Arrow array of one field."""
        return self.arrow.column(self.names.index(name))

    def part(self, start: int, end: int) -> ColumnBatch:
        """Returns some of the records, without copying."""
        length = end - start
        stamps = None if self.stamps is None else self.stamps.slice(start, length)
        return ColumnBatch(
            self.arrow.slice(start, length),
            self.names,
            self._rows,
            offset=self._offset + start,
            stamps=stamps,
        )

    def with_stamps(self, stamps: Any) -> ColumnBatch:
        """Returns the same records with event times."""
        return ColumnBatch(self.arrow, self.names, self._rows, offset=self._offset, stamps=stamps)

    def __len__(self) -> int:
        return self.arrow.num_rows  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"ColumnBatch({len(self)} records, {', '.join(map(str, self.names))})"
