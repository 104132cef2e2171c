r"""CSV as Arrow columns, where the text is so plain that Arrow reads what the row parser reads.

A block with a quote, a carriage return, a blank line, an odd number of fields, or a number that
Python and Arrow might read differently gives no columns, and is read record by record.
"""

from __future__ import annotations

import codecs
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final

from penstock.connectors.files.csv_format import ARROW_TYPES, CsvFormat, column_name
from penstock.connectors.files.formats import size_before
from penstock.connectors.files.inputs import PLAIN, Inputs
from penstock.connectors.files.range_reader import OpenFile, RangeReader
from penstock.connectors.source import Budget, ReadResult, Split
from penstock.core.records import ColumnBatch, LazyRows

_RECORD_READS: Final = 8
"""Reads without columns before they are tried again, as failing costs time; results are equal."""


class ColumnRangeReader(RangeReader):
    """Reads ranges of CSV files as columns, or as records where it must."""

    def __init__(self, spec: CsvFormat, inputs: Inputs = PLAIN) -> None:
        super().__init__(spec, inputs)
        self._spec = spec
        self._columns = spec.arrow or ()
        self._skip_reads = 0

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        file = self.opened(split.data)
        end: int | None = split.data["end"]
        if position == split.start:
            position = file.first_record(position)
        one = budget.single()
        limit = position + max(1, one.max_bytes)
        parser = self._parser_of(file)
        found = None
        if parser is not None and not self._skip_reads:
            stop = limit if end is None else min(limit, end)
            found = _columns(file, parser, position, stop, end, budget.max_records)
            self._skip_reads = 0 if found else _RECORD_READS
        # The bound on bytes may end a read, which it must then do where it always does.
        if found is None or found[1] >= limit:
            self._skip_reads = max(0, self._skip_reads - 1)
            return super().read(split, position, one)
        batches, reached = found
        finished = file.is_at_end(reached) if end is None else reached >= end
        count = sum(batch.num_rows for batch in batches)
        columns = None
        if count:
            rows = LazyRows(lambda: self._records(split, position, end, count))
            columns = ColumnBatch(_concatenated(batches), self._columns, rows)
        return ReadResult([], reached, finished=finished, has_more=not finished, columns=columns)

    def _records(self, split: Split, position: int, end: int | None, count: int) -> list[Any]:
        limit = sys.maxsize if end is None else end
        return self.opened(split.data).records(position, limit, end, count)[0]

    def _parser_of(self, file: OpenFile) -> ColumnParser | None:
        names = file.parser.file_columns  # type: ignore[attr-defined]
        wanted = [column_name(self._spec, column) for column in self._columns]
        if len(set(names)) != len(names) or not set(wanted) <= set(names):
            return None
        if file.column_parser is None:
            positions = [names.index(name) for name in wanted]
            kinds = [ARROW_TYPES[self._spec.types.get(name)] for name in wanted]  # type: ignore[index]
            dialect = self._spec.dialect
            file.column_parser = ColumnParser(
                len(names), positions, kinds, dialect["delimiter"], dialect["quotechar"].encode()
            )
        return file.column_parser  # type: ignore[no-any-return]


class ColumnParser:
    """Parses blocks of one file into record batches."""

    def __init__(
        self, width: int, positions: list[int], kinds: Sequence[str], delimiter: str, quote: bytes
    ) -> None:
        self._arrow: Any = importlib.import_module("pyarrow")
        self._csv: Any = importlib.import_module("pyarrow.csv")
        importlib.import_module("pyarrow.compute")
        self._quote = quote
        names = [f"c{at}" for at in range(width)]
        self._chosen = [names[at] for at in positions]
        self._names = names
        self._doubles = [at for at, kind in enumerate(kinds) if kind == "double"]
        self._parse_options = self._csv.ParseOptions(
            delimiter=delimiter,
            quote_char=False,
            double_quote=False,
            escape_char=False,
            newlines_in_values=False,
            ignore_empty_lines=False,
        )
        self._convert_options = self._csv.ConvertOptions(
            column_types=dict(
                zip(self._chosen, map(self._arrow.type_for_alias, kinds), strict=False)
            ),
            include_columns=list(dict.fromkeys(self._chosen)),
            null_values=[],
            strings_can_be_null=False,
        )

    def parse(self, data: bytes) -> Any | None:
        """Returns the columns of whole lines, or None where records must be read."""
        if self._quote in data or b"\r" in data or data.startswith(codecs.BOM_UTF8):
            return None
        # Arrow takes hexadecimal numbers for integers, Python does not.
        if (b"x" in data or b"X" in data) and (b"0x" in data or b"0X" in data):
            return None
        arrow, csv = self._arrow, self._csv
        options = csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=self._names
        )
        try:
            table = csv.read_csv(
                arrow.BufferReader(data), options, self._parse_options, self._convert_options
            )
        except arrow.ArrowInvalid:
            return None
        columns = [table.column(name).combine_chunks() for name in self._chosen]
        for at in self._doubles:
            if arrow.compute.any(arrow.compute.is_nan(columns[at])).as_py():
                return None
        return arrow.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])


def _columns(  # noqa: PLR0913, PLR0917 - as `OpenFile.records`
    file: OpenFile,
    parser: ColumnParser,
    position: int,
    limit: int,
    end: int | None,
    max_records: int,
) -> tuple[list[Any], int] | None:
    """Reads what `OpenFile.records` reads, or returns None where columns will not do."""
    batches: list[Any] = []
    left = max_records
    while left > 0 and position < limit:
        data = file.lines(position, limit, end, left)
        if not data:
            break
        batch = parser.parse(data)
        if batch is None:
            return None
        rows = batch.num_rows
        consumed = len(data)
        if rows > left:
            batch = batch.slice(0, left)
            consumed = size_before(data, rows - left - (not data.endswith(b"\n")))
            rows = left
        file.took(rows, consumed)
        batches.append(batch)
        left -= rows
        position += consumed
    return batches, position


def _concatenated(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    arrow: Any = importlib.import_module("pyarrow")
    return arrow.concat_batches(batches)
