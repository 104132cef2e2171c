"""Parquet files, by row groups.

Ranges are runs of row groups of about one block. A position is the number of the row within the
split, so a read stops anywhere; the row group that was read last stays decoded as Arrow columns.
Of a large one only the rows around the last read are, a few megabytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.connectors.file_sink.bulk_outputs import check_no_hadoop
from penstock.connectors.files.formats import BulkFormat, RecordMaker, check_fields, record_maker
from penstock.connectors.files.inputs import PLAIN, FileReader, InputFile, Inputs
from penstock.connectors.formats.fields import row_type as row_type_of
from penstock.connectors.source import READ_RECORDS, Budget, ReadResult, SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError
from penstock.core.records import ColumnBatch, ColumnName, LazyRows, NotColumnar

if TYPE_CHECKING:
    from penstock.core.composite_types import RowTypeInfo

_LEAST_ROWS: Final = 64
"""A read takes at least so many rows, however wide they are."""
_LARGE_GROUP: Final = 32 << 20
"""Bytes from which a row group is decoded piece by piece."""
_PIECE_BYTES: Final = 4 << 20
_BUFFER_BYTES: Final = 1 << 20
"""Of each column of such a row group; else pyarrow reads the whole column before its first row."""


class Finish(Protocol):
    """Makes other values of columns; travels to the workers."""

    def of_lists(self, columns: list[list[Any]]) -> None:
        """Changes the values of all columns in place, one list for each column."""

    def of_table(self, table: Any) -> Any:
        """Returns some columns as Arrow with values that mean the same."""


class ParquetFormat(BulkFormat):
    """Rows of Parquet files, with the values that pyarrow's `to_pylist` gives.

    Args:
        columns: The columns to read, in this order; None = all.
        records: `dict`, `tuple`, `row`, or a function that takes a dict.
        finish: Makes other values of the columns.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        records: str | Callable[[dict[str, Any]], Any] = "dict",
        finish: Finish | None = None,
    ) -> None:
        record_maker(records, ())  # A wrong name fails here, in the program.
        self.columns = None if columns is None else list(columns)
        self.records = records
        self.finish = finish
        self.arrow: tuple[ColumnName, ...] | None = None
        """The fields that reads give as Arrow columns, or None: they give records."""

    def with_columns(self, columns: tuple[ColumnName, ...]) -> ParquetFormat:
        if self.records not in ("dict", "row", "tuple"):
            raise NotColumnar("records are made by a function")
        check_fields(columns, self.records, self.columns)
        lowered = ParquetFormat(self.columns, self.records, self.finish)
        lowered.arrow = columns
        return lowered

    def splits(self, file: InputFile, block_bytes: int, inputs: Inputs = PLAIN) -> list[Split]:
        with _ParquetFile(file.path, inputs) as parquet:
            metadata = parquet.metadata
            names = parquet.names
            missing = [name for name in self.columns or () if name not in names]
            if missing:
                raise InputError(
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

    def create_reader(self, inputs: Inputs = PLAIN) -> SourceReader:
        if self.arrow is not None:
            return _ColumnReader(self, inputs, self.arrow)
        return _ParquetReader(self, inputs)


def _split(file: InputFile, groups: list[int]) -> Split:
    return file.split(f"group-{groups[0]}", groups=tuple(groups))


BulkFormat.parquet_format = ParquetFormat


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of Parquet files, by PyFlink's name: `BulkFormat.parquet_format(..., records="row")`.

    Args:
        row_type: The columns to read: `DataTypes.ROW(...)` or `Types.ROW_NAMED(...)`.
        hadoop_config: Must be None or empty: there is no Hadoop.
        batch_size: Has no effect.
        is_utc_timestamp: Has no effect: timestamps are read as they are.
        is_case_sensitive: Names are, always.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        check_no_hadoop("ParquetColumnarRowInputFormat", hadoop_config)
        names = row_type_of(row_type, "ParquetColumnarRowInputFormat").get_field_names()
        super().__init__(names, "row")


class _ParquetFile:
    """An open Parquet file; pyarrow is only loaded when there is one."""

    def __init__(self, path: str, inputs: Inputs) -> None:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        self._stream = inputs.open(path)
        try:
            # Spark's timestamps; nanoseconds would come as pandas' own class where there is pandas.
            unit = {"coerce_int96_timestamp_unit": "us"}
            self._file: Any = parquet.ParquetFile(self._stream, **unit)
            metadata = self._file.metadata
            sizes = (
                metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)
            )
            if max(sizes, default=0) > _LARGE_GROUP:
                buffers = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
                self._file = parquet.ParquetFile(self._stream, metadata=metadata, **unit, **buffers)
        except Exception as error:
            self._stream.close()
            # What storage does not give now it may give later; pyarrow's own errors are values.
            kind = InputError if isinstance(error, ValueError) else JobExecutionError
            raise kind(f"{path} cannot be read as Parquet: {error}.") from error

    @property
    def metadata(self) -> Any:
        return self._file.metadata

    @property
    def names(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    def group(self, number: int, columns: list[str] | None) -> _Group:
        """Returns the rows of one row group."""
        described = self.metadata.row_group(number)
        size = described.total_byte_size
        rows = described.num_rows
        if size > _LARGE_GROUP:
            rows = max(_LEAST_ROWS, rows * _PIECE_BYTES // size)

        def decode() -> Iterator[Any]:
            return self._file.iter_batches(rows, row_groups=[number], columns=columns)  # type: ignore[no-any-return]

        def whole() -> Iterator[Any]:
            return iter((self._file.read_row_group(number, columns=columns),))

        return _Group(decode if size > _LARGE_GROUP else whole, columns)

    def close(self) -> None:
        self._file.close()
        self._stream.close()

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Group:
    """Rows of a row group, decoded in order; those before the last ones asked for are dropped.

    Args:
        decode: Begins to decode the row group; gives its pieces.
        columns: Their order; None for that of the file.
    """

    def __init__(self, decode: Callable[[], Iterator[Any]], columns: list[str] | None) -> None:
        self._decode = decode
        self._columns = columns
        self._pieces: Iterator[Any] = iter(())
        self._table: Any = None
        self._first = 0
        """Number of the first row of the table."""

    def slice(self, skipped: int, length: int) -> Any:
        """Returns some rows as an Arrow table."""
        if self._table is None or skipped < self._first:
            # An epoch that failed is read again.
            self._pieces, self._table, self._first = self._decode(), None, 0
        arrow: Any = importlib.import_module("pyarrow")
        while self._table is None or self._first + len(self._table) < skipped + length:
            piece = next(self._pieces)
            if not isinstance(piece, arrow.Table):
                piece = arrow.Table.from_batches([piece])
            if self._columns is not None:
                piece = piece.select(self._columns)
            if self._table is None or skipped >= self._first + len(self._table):
                self._first += 0 if self._table is None else len(self._table)
                self._table = piece
            else:
                kept = self._table.slice(skipped - self._first)
                self._table = arrow.concat_tables([kept, piece])
                self._first = skipped
        return self._table.slice(skipped - self._first, length)


class _ParquetReader(FileReader[_ParquetFile]):
    def __init__(self, record_format: ParquetFormat, inputs: Inputs) -> None:
        super().__init__(inputs)
        self._columns = record_format.columns
        self._records = record_format.records
        self._finish = record_format.finish
        self._number = -1
        self._group: Any = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        file = self.opened(split.data)
        pieces, position, finished = _pieces(file.metadata, split.data["groups"], position, budget)
        values: list[Any] = []
        for group, skipped, length in pieces:
            values += self._rows(file, group, skipped, length)
        return ReadResult(values, position, finished=finished, has_more=not finished)

    def _rows(self, file: _ParquetFile, group: int, skipped: int, length: int) -> list[Any]:
        if self._number != group:
            self._group = file.group(group, self._columns)
            self._number = group
        part = self._group.slice(skipped, length)
        columns = [column.to_pylist() for column in part.columns]
        if self._finish is not None:
            self._finish.of_lists(columns)
        rows = list(zip(*columns, strict=True)) if columns else [()] * length
        return self._make(rows)

    def open_file(self, path: str) -> _ParquetFile:
        file = _ParquetFile(path, self._inputs)
        self._make: RecordMaker = record_maker(self._records, self._columns or file.names)
        return file

    def close(self) -> None:
        self._number, self._group = -1, None
        super().close()


def _pieces(
    metadata: Any, groups: Sequence[int], position: int, budget: Budget
) -> tuple[list[tuple[int, int, int]], int, bool]:
    """Returns what to read: pieces (row group, first row, rows), where to go on, if at all."""
    pieces = []
    first = 0
    left = budget.max_records
    for group in groups:
        described = metadata.row_group(group)
        rows = described.num_rows
        skipped = position - first
        if left > 0 and skipped < rows:
            width = max(1, described.total_byte_size // rows)
            length = min(left, rows - skipped)
            # The bound on bytes holds for one row group; few reads span more than one.
            length = min(length, max(_LEAST_ROWS, budget.max_bytes // width))
            pieces.append((group, skipped, length))
            position += length
            left -= length
            if skipped + length < rows:
                left = 0
        first += rows
    return pieces, position, position >= first


def _is_wide(metadata: Any, groups: Sequence[int], budget: Budget) -> bool:
    """Whether the bound on bytes may end a read, which it must then do where it always does."""
    for group in groups:
        described = metadata.row_group(group)
        if described.total_byte_size * READ_RECORDS > budget.max_bytes * described.num_rows:
            return True
    return False


class _ColumnReader(_ParquetReader):
    """Gives Arrow columns; the other columns are read when records are asked for."""

    def __init__(
        self, record_format: ParquetFormat, inputs: Inputs, arrow: tuple[ColumnName, ...]
    ) -> None:
        super().__init__(record_format, inputs)
        self._arrow = arrow
        self._needed_number = -1
        self._needed: Any = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        file = self.opened(split.data)
        names = self._columns or file.names
        fields = [names[name] if isinstance(name, int) else name for name in self._arrow]
        if any(name not in names for name in fields) or len(set(names)) != len(names):
            # A file without the column fails as it does record by record.
            return super().read(split, position, budget)
        metadata, groups = file.metadata, split.data["groups"]
        if _is_wide(metadata, groups, budget.single()):
            return super().read(split, position, budget.single())
        pieces, position, finished = _pieces(metadata, groups, position, budget)

        def rows() -> list[Any]:
            opened = self.opened(split.data)
            return [row for piece in pieces for row in self._rows(opened, *piece)]

        parts = [self._part(file, fields, *piece) for piece in pieces]
        columns = None
        if parts:
            arrow: Any = importlib.import_module("pyarrow")
            table = arrow.concat_tables(parts) if len(parts) > 1 else parts[0]
            columns = ColumnBatch(_one_batch(table, arrow), self._arrow, LazyRows(rows))
        return ReadResult([], position, finished=finished, has_more=not finished, columns=columns)

    def _part(
        self, file: _ParquetFile, fields: list[str], group: int, skipped: int, length: int
    ) -> Any:
        if self._needed_number != group:
            self._needed = file.group(group, list(dict.fromkeys(fields)))
            self._needed_number = group
        part = self._needed.slice(skipped, length)
        if self._finish is not None:
            part = self._finish.of_table(part)
        return part.select(fields)

    def close(self) -> None:
        self._needed_number, self._needed = -1, None
        super().close()


def _one_batch(table: Any, arrow: Any) -> Any:
    """Returns a table as one record batch; names do not matter and may repeat."""
    columns = [column.combine_chunks() for column in table.columns]
    return arrow.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])
