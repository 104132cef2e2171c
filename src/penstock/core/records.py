"""The unit of work inside a subtask: a batch of records, column by column.

Operators are called once per batch, not once per record: the loop over records then sits next to
the user's function, where a list comprehension makes it cheap. Watermarks are never inside a batch;
they are calls between batches, so the order of records and watermarks on a channel is kept.
"""

from __future__ import annotations

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

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, timestamps={self.timestamps!r}, keys={self.keys!r})"
