r"""CSV files, with the semantics of Python's `csv` module.

A quoted field may contain newlines, so a newline does not always end a record, and a large file may
not be cut at any newline. Three cases:

1. Files up to one block, and compressed ones, are one range. Nothing needs to be known.
2. `multiline=True` (the default) and a larger file: when the file is found, its quote characters
   are counted, block by block (some GB/s). A newline with an even number before it ends a record,
   and ranges begin behind such newlines only. A stray quote inside an unquoted field (`5" pipe`)
   can spoil the count; then the range before the wrong cut ends inside a field, which its reader
   notices: the job fails with the position, it never returns wrong records.
3. `multiline=False`: the program promises that no field contains a newline. Files are cut anywhere
   without being read first; a field with a newline is an error.
"""

from __future__ import annotations

import codecs
import copy
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.formats import (
    Block,
    Parsed,
    RecordMaker,
    RecordParser,
    StreamFormat,
    check_fields,
    checked_charset,
    record_maker,
    size_before,
)
from penstock.core.errors import InputError, ProgramError, UnsupportedError
from penstock.core.records import ColumnName, NotColumnar

if TYPE_CHECKING:
    from penstock.connectors.files.inputs import ByteWindow, InputFile

_DIALECT: Final = {"delimiter": ",", "quotechar": '"', "escapechar": None}
ARROW_TYPES: Final = {None: "string", str: "string", int: "int64", float: "double"}
_HEADER_LIMIT: Final = 256 * 1024
_PROBE: Final = "\x1f"
"""A record of one field, put behind a block: when it comes back alone, all before it was whole."""


class CsvFormat(StreamFormat):
    r"""Rows of CSV files.

    Args:
        header: Whether the first row of each file names the columns. Files may order them
            differently; records follow the names.
        columns: Names of the columns; needed for dicts without a header. With a header they choose
            and order the columns.
        records: `dict`, `tuple`, `row`, or a function that takes a dict.
        types: What to call with a column's text, by name, such as `{"price": float}`.
        multiline: Whether quoted fields may contain newlines; see the module.
        charset_name: Any charset of Python.
        dialect: `delimiter`, `quotechar` and `escapechar` as for `csv.reader`. With an escapechar
            quotes cannot be counted, so large files are cut with `multiline=False` only.
    """

    def __init__(  # noqa: PLR0913 - one argument per property of the files
        self,
        *,
        header: bool = True,
        columns: Sequence[str] | None = None,
        records: str | Callable[[dict[str, Any]], Any] = "dict",
        types: Mapping[str, Callable[[str], Any]] | None = None,
        multiline: bool = True,
        charset_name: str = "UTF-8",
        **dialect: str | None,
    ) -> None:
        if not header and columns is None and (records != "tuple" or types):
            raise ProgramError(
                "CSV files without a header need columns=[...], or records='tuple' without types."
            )
        record_maker(records, ())  # A wrong name fails here, in the program.
        self.charset = checked_charset(charset_name)
        self.header = header
        self.columns = None if columns is None else tuple(columns)
        self.records = records
        self.types = dict(types or {})
        self.multiline = multiline
        if unknown := [name for name in dialect if name not in _DIALECT]:
            raise ProgramError(
                f"csv_format() got {unknown[0]}=; of the dialect there are {', '.join(_DIALECT)}."
            )
        self.dialect: dict[str, Any] = {**_DIALECT, **dialect}
        csv.reader((), **self.dialect)
        self.arrow: tuple[ColumnName, ...] | None = None
        """The fields that reads give as Arrow columns, or None: they give records."""

    def with_columns(self, columns: tuple[ColumnName, ...]) -> CsvFormat:
        check_columns(self, columns)
        lowered = copy.copy(self)
        lowered.arrow = columns
        return lowered

    def create_parser(self) -> RecordParser:
        return CsvParser(self, "utf-8" if self.needs_transcoding else self.charset)

    def cuts(self, window: ByteWindow, file: InputFile, block_bytes: int) -> list[int]:
        if not self.multiline:
            return super().cuts(window, file, block_bytes)
        if self.dialect["escapechar"] is not None:
            raise UnsupportedError(
                f"{file.path} has {file.size_bytes} bytes and would be cut into ranges, but with "
                "an escapechar the ends of records cannot be found. Set multiline=False if no "
                "field contains a newline, or cut_bytes of the source above the size of the file."
            )
        quote = self.dialect["quotechar"].encode(self.charset)
        cuts, position, is_inside = [0], 0, False
        for nominal in range(block_bytes, file.size_bytes, block_bytes):
            if nominal < position:
                continue
            position, is_inside = _count(window, quote, position, nominal, is_inside)
            position = _next_record(window, quote, position, is_inside)
            is_inside = False
            if position >= file.size_bytes:
                break
            cuts.append(position)
        return cuts


def check_columns(spec: CsvFormat, columns: tuple[ColumnName, ...]) -> None:
    """Checks what can be known without a file.

    Raises:
        NotColumnar: Some field is no plain column, or the files are not plain UTF-8.
    """
    if spec.records not in ("dict", "row", "tuple"):
        raise NotColumnar("records are made by a function")
    if spec.charset != "utf-8" or spec.dialect["escapechar"] is not None:
        raise NotColumnar("only UTF-8 without an escape character has columns")
    if not all(len(spec.dialect[which].encode()) == 1 for which in ("delimiter", "quotechar")):
        raise NotColumnar("only ASCII delimiters and quotes have columns")
    if spec.columns is None and not spec.header:
        raise NotColumnar("the files do not name their columns")
    check_fields(columns, spec.records, spec.columns)
    if spec.columns is None and not all(isinstance(column, str) for column in columns):
        raise NotColumnar("types go by name; give the format columns=[...]")
    kinds = [spec.types.get(column_name(spec, column)) for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if kind not in ARROW_TYPES:
            raise NotColumnar(f"column {column!r} is converted by {kind!r:.80}")
    if int not in kinds:
        # Blank lines are noticed because they are no number.
        raise NotColumnar("no column is an int; say so with types={...}")


def column_name(spec: CsvFormat, column: ColumnName) -> str:
    """Returns the name of a column that may be given by position."""
    if isinstance(column, str):
        return column
    assert spec.columns is not None
    return spec.columns[column]


StreamFormat.csv_format = CsvFormat


def _count(
    window: ByteWindow, quote: bytes, position: int, end: int, is_inside: bool
) -> tuple[int, bool]:
    """Goes on to `end`; returns whether a quoted field is open there."""
    quotes = 0
    while position < end:
        buffer, offset, _ = window.load(position, 1)
        length = min(end - position, len(buffer) - offset)
        if length == 0:
            break
        quotes += buffer.count(quote, offset, offset + length)
        position += length
    return position, is_inside ^ bool(quotes % 2)


def _next_record(window: ByteWindow, quote: bytes, position: int, is_inside: bool) -> int:
    """Returns the position behind the first newline outside quotes."""
    while True:
        buffer, offset, _ = window.load(position, 1)
        if offset == len(buffer):
            return position
        sought = quote if is_inside else b"\n"
        found = buffer.find(sought, offset)
        stop = len(buffer) if found < 0 else found
        other = buffer.find(quote, offset, stop) if not is_inside else -1
        if other >= 0:
            position, is_inside = position + other + 1 - offset, True
        elif found < 0:
            position += len(buffer) - offset
        elif is_inside:
            position, is_inside = position + found + 1 - offset, False
        else:
            return position + found + 1 - offset


class CsvParser(RecordParser):
    """Parses one file."""

    def __init__(self, spec: CsvFormat, charset: str) -> None:
        self._spec = spec
        self._charset = charset
        self._names: Sequence[str] = spec.columns or ()
        self._width = len(self._names)
        self._chosen: list[int] | None = None
        self.file_columns: Sequence[str] = self._names
        """What the file itself calls its columns."""
        self._converters: list[tuple[int, Callable[[str], Any]]] = []
        self._make: RecordMaker = record_maker(spec.records, self._names)
        if not spec.header:
            self._set_converters(self._names)

    def skip_header(self, window: ByteWindow, path: str) -> int:
        if not self._spec.header:
            return 0
        buffer, offset, at_end = window.load(0, _HEADER_LIMIT)
        whole = buffer[offset : offset + _HEADER_LIMIT]
        data = whole.removeprefix(codecs.BOM_UTF8) if self._charset == "utf-8" else whole
        reader = self._reader(str(data, self._charset, "replace"))
        names = next(reader, None)
        while names == []:
            names = next(reader, None)
        if names is None:
            return len(whole)
        self._use(names, path)
        newlines = data.count(b"\n")
        if newlines >= reader.line_num:
            size = size_before(data, newlines - reader.line_num)
        elif at_end:
            size = len(data)
        else:
            raise InputError(f"{path}: the header is longer than {_HEADER_LIMIT} bytes.")
        return size + len(whole) - len(data)

    def _reader(self, text: str) -> Any:
        return csv.reader(io.StringIO(text, newline="\n"), **self._spec.dialect)

    def _use(self, names: list[str], path: str) -> None:
        """Takes the header of one file."""
        self.file_columns = names
        self._width = len(names)
        wanted = list(self._spec.columns or names)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise InputError(
                f"{path} has no column {missing[0]!r}; its header names {', '.join(names)}."
            )
        chosen = [names.index(name) for name in wanted]
        self._chosen = None if chosen == list(range(len(names))) else chosen
        self._names = wanted
        self._make = record_maker(self._spec.records, wanted)
        self._set_converters(wanted)

    def _set_converters(self, names: Sequence[str]) -> None:
        unknown = [name for name in self._spec.types if name not in names]
        if unknown:
            raise InputError(
                f"types name the column {unknown[0]!r}; the columns are {', '.join(names)}."
            )
        types = self._spec.types
        self._converters = [(at, types[name]) for at, name in enumerate(names) if name in types]

    def parse(self, block: Block, max_records: int) -> Parsed:
        data = block.data
        text = str(data, self._charset, "replace")
        try:
            rows, lines = self._whole_rows(text, block, max_records)
        except csv.Error as error:
            raise InputError(f"{block.where}: {error}.") from error
        newlines = text.count("\n")
        consumed = len(data)
        if lines <= newlines:
            consumed = size_before(data, newlines - lines) if lines else 0
        if not self._spec.multiline and len(rows) < lines:
            raise InputError(
                f"{block.where}: a quoted field contains a newline. Set multiline=True."
            )
        return Parsed(self._records(rows, block), consumed, len(rows))

    def _whole_rows(self, text: str, block: Block, max_records: int) -> tuple[list[list[str]], int]:
        """Returns rows that do not go on behind the block, and the lines they take."""
        dialect = self._spec.dialect
        if dialect["quotechar"] not in text and "\r" not in text and not dialect["escapechar"]:
            delimiter = dialect["delimiter"]
            lines = text.split("\n", max_records)
            if len(lines) > max_records or not lines[-1]:
                lines.pop()
            return [line.split(delimiter) if line else [] for line in lines], len(lines)
        if block.at_file_end:
            reader = self._reader(text)
            return list(islice(reader, max_records)), reader.line_num
        reader = self._reader(f"{text}{_PROBE}\n")
        rows: list[list[str]] = list(islice(reader, max_records))
        if reader.line_num <= text.count("\n"):
            return rows, reader.line_num
        if rows.pop() == [_PROBE]:
            return rows, reader.line_num - 1
        if block.is_final:
            raise InputError(
                f"{block.where}: a quoted field is still open at the end of the range. "
                + (
                    "There is a stray quote before it, which misleads the search for the ends of "
                    "records. Set cut_bytes of the source above the size of the file."
                    if self._spec.multiline
                    else "It contains a newline; set multiline=True."
                )
            )
        reader = self._reader(text)
        rows = list(islice(reader, len(rows)))
        return rows, reader.line_num

    def _records(self, rows: list[list[str]], block: Block) -> list[Any]:
        if [] in rows:
            rows = [row for row in rows if row]
        if self._width and rows and set(map(len, rows)) != {self._width}:
            row = next(row for row in rows if len(row) != self._width)
            raise InputError(
                f"{block.where}: a row has {len(row)} fields instead of {self._width}: "
                f"{row!r:.200}."
            )
        if self._chosen is not None:
            chosen = self._chosen
            rows = [[row[at] for at in chosen] for row in rows]
        for at, convert in self._converters:
            self._convert(rows, at, convert, block)
        return self._make(rows)

    def _convert(
        self, rows: list[list[str]], at: int, convert: Callable[[str], Any], block: Block
    ) -> None:
        row: list[Any]
        for row in rows:
            try:
                row[at] = convert(row[at])
            except Exception as error:
                raise InputError(
                    f"{block.where}: column {self._names[at]!r} is {row[at]!r:.200}, which "
                    f"{getattr(convert, '__name__', convert)} refuses: {error}."
                ) from error
