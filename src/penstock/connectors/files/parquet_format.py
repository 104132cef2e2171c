"""Parquet files, by row groups.

Ranges are runs of row groups of about one block. A position is the number of the row within the
split, so a read stops anywhere; the row group that was read last stays decoded as Arrow columns.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.formats import BulkFormat, RecordMaker, record_maker
from penstock.connectors.files.range_reader import check_unchanged
from penstock.connectors.files.storage import InputFile, Storage, storage_of
from penstock.connectors.source import Budget, ReadResult, SourceReader, Split
from penstock.core.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LEAST_ROWS: Final = 64
"""A read takes at least so many rows, however wide they are."""


class ParquetFormat(BulkFormat):
    """Rows of Parquet files, with the values that pyarrow's `to_pylist` gives.

    Args:
        columns: The columns to read, in this order; None = all.
        records: `dict`, `tuple`, `row`, or a function that takes a dict.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        records: str | Callable[[dict[str, Any]], Any] = "dict",
    ) -> None:
        record_maker(records, ())  # A wrong name fails here, in the program.
        self.columns = None if columns is None else list(columns)
        self.records = records

    def splits(self, storage: Storage, file: InputFile, block_bytes: int) -> list[Split]:
        with _ParquetFile(storage, file.path) as parquet:
            metadata = parquet.metadata
            names = parquet.names
            missing = [name for name in self.columns or () if name not in names]
            if missing:
                raise JobExecutionError(
                    f"{file.path} has no column {missing[0]!r}; it has {', '.join(names)}."
                )
            splits: list[Split] = []
            groups: list[int] = []
            size = 0
            for number in range(metadata.num_row_groups):
                groups.append(number)
                size += metadata.row_group(number).total_byte_size
                if size >= block_bytes or number + 1 == metadata.num_row_groups:
                    splits.append(_split(file, groups))
                    groups, size = [], 0
        return splits

    def create_reader(self) -> SourceReader:
        return _ParquetReader(self.columns, self.records)


def _split(file: InputFile, groups: list[int]) -> Split:
    data = {
        "path": file.path,
        "size": file.size_bytes,
        "version": file.version,
        "groups": tuple(groups),
    }
    return Split(f"{file.path}#group-{groups[0]}", data)


class _ParquetFile:
    """An open Parquet file; pyarrow is only loaded when there is one."""

    def __init__(self, storage: Storage, path: str) -> None:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        self._stream = storage.open(path)
        try:
            self._file: Any = parquet.ParquetFile(self._stream)
        except Exception as error:
            self._stream.close()
            raise JobExecutionError(f"{path} cannot be read as Parquet: {error}.") from error

    @property
    def metadata(self) -> Any:
        return self._file.metadata

    @property
    def names(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    def read_group(self, number: int, columns: list[str] | None) -> Any:
        """Returns one row group as an Arrow table."""
        table = self._file.read_row_group(number, columns=columns)
        return table if columns is None else table.select(columns)

    def close(self) -> None:
        self._file.close()
        self._stream.close()

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _ParquetReader(SourceReader):
    def __init__(
        self, columns: list[str] | None, records: str | Callable[[dict[str, Any]], Any]
    ) -> None:
        self._columns = columns
        self._records = records
        self._path: str | None = None
        self._file: _ParquetFile | None = None
        self._group = -1
        self._table: Any = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        data = split.data
        file = self._opened(data)
        metadata = file.metadata
        values: list[Any] = []
        first = 0
        left = budget.max_records
        for group in data["groups"]:
            described = metadata.row_group(group)
            rows = described.num_rows
            skipped = position - first
            if left > 0 and skipped < rows:
                width = max(1, described.total_byte_size // rows)
                length = min(left, rows - skipped)
                # The bound on bytes holds for one row group; few reads span more than one.
                length = min(length, max(_LEAST_ROWS, budget.max_bytes // width))
                values += self._rows(file, group, skipped, length)
                position += length
                left -= length
                if skipped + length < rows:
                    left = 0
            first += rows
        finished = position >= first
        return ReadResult(values, position, finished=finished, has_more=not finished)

    def _rows(self, file: _ParquetFile, group: int, skipped: int, length: int) -> list[Any]:
        if self._group != group:
            self._table = file.read_group(group, self._columns)
            self._group = group
        part = self._table.slice(skipped, length)
        columns = [column.to_pylist() for column in part.columns]
        rows = list(zip(*columns, strict=True)) if columns else [()] * length
        return self._make(rows)

    def _opened(self, data: dict[str, Any]) -> _ParquetFile:
        found = InputFile(data["path"], data["size"], data["version"])
        storage = storage_of(found.path)
        check_unchanged(storage, found)
        if self._file is None or self._path != found.path:
            self.close()
            self._file = _ParquetFile(storage, found.path)
            self._path = found.path
            names = self._columns or self._file.names
            self._make: RecordMaker = record_maker(self._records, names)
        return self._file

    def close(self) -> None:
        self._group, self._table = -1, None
        if self._file is not None:
            self._file.close()
            self._file = None
