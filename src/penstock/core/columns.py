"""A batch whose records are still columns; it makes records only when someone asks for them.

Sources that hold Arrow columns hand these on when everything behind them can work on columns
(`runtime/lowering.py`). An operator that knows nothing of columns sees an ordinary batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.records import Batch

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

    def slice(self, start: int, length: int) -> ColumnBatch:
        """Returns a part of the records, without copying."""
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
