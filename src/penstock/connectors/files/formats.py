"""What record formats have in common: a parser turns bytes into records, C loops first.

A stream format sees a file as bytes in which records follow each other; `range_reader` decides
which bytes a parser gets. A bulk format reads files by itself.
"""

from __future__ import annotations

import codecs
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec

from penstock.connectors.files.inputs import PLAIN, ByteWindow, InputFile, Inputs
from penstock.core.errors import InputError, ProgramError
from penstock.core.records import ColumnName, NotColumnar
from penstock.core.row import Row

if TYPE_CHECKING:
    from penstock.connectors.source import SourceReader, Split

_STATEFUL_CHARSETS: Final = ("utf-7", "hz", "iso2022")
"""Charsets in which a byte means something else after an escape."""


class Parsed(NamedTuple):
    """What a parser made of a block."""

    values: list[Any]
    consumed: int  # Bytes of the block that they took; the next record begins there.
    records: int  # How many records it took, blank lines included.


class Block(NamedTuple):
    """Bytes for a parser."""

    data: bytes  # From the beginning of a record to behind a newline, or to the end of the file.
    where: str  # `path at byte position`, for errors.
    is_final: bool  # The block ends where the range ends: what is not complete now never will be.
    at_file_end: bool  # The block ends where the file ends.


class RecordParser(ABC):
    """Parses blocks of one file."""

    def skip_header(self, window: ByteWindow, path: str) -> int:
        """Reads what precedes the records of the file; returns the position of the first."""
        return 0

    @abstractmethod
    def parse(self, block: Block, max_records: int) -> Parsed:
        """Parses whole records; one that goes on behind the block is left, unless it is final."""


class StreamFormat(ABC):
    """A format in which records follow each other in a stream of bytes.

    Compressed files (.gz, .bz2, .xz) are read through; they are never cut into ranges.
    """

    charset: str = "utf-8"
    csv_format: ClassVar[Callable[..., StreamFormat]]
    """Records are the rows of CSV files: `CsvFormat`, which sets this."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""Records are lines without their end (`\\n` or `\\r\\n`), as strings."""
        return TextLineFormat(charset_name)

    @staticmethod
    def json_line_format(
        charset_name: str = "UTF-8",
        *,
        on_error: str | Callable[[str, Exception], Any] = "fail",
    ) -> StreamFormat:
        """Records are what the JSON on each line says; blank lines are skipped.

        Args:
            charset_name: Any charset of Python.
            on_error: What happens to a line that is not JSON: `fail` fails the job, `skip` leaves
                the line out with a warning, and a function `(line, error)` returns the record to
                go on with, or None to leave it out.
        """
        return JsonLineFormat(charset_name, on_error=on_error)

    @property
    def needs_transcoding(self) -> bool:
        """Whether files are read as a stream of UTF-8 instead of their own bytes."""
        charset = codecs.lookup(self.charset).name
        return "\n".encode(charset) != b"\n" or charset.startswith(_STATEFUL_CHARSETS)

    @abstractmethod
    def create_parser(self) -> RecordParser:
        """Makes a parser for one file."""

    def with_columns(self, columns: tuple[ColumnName, ...]) -> StreamFormat:
        """Returns the format for reads that give these fields as Arrow columns where they can.

        Raises:
            NotColumnar: Files of the format have no columns; the text says why.
        """
        raise NotColumnar(f"{type(self).__name__} has no columns")

    def cuts(self, window: ByteWindow, file: InputFile, block_bytes: int) -> list[int]:
        """Returns where ranges of a large file begin, from 0.

        A range owns the records that begin inside it, so any position will do where a record
        always ends at a newline.
        """
        return list(range(0, file.size_bytes, block_bytes))


class BulkFormat(ABC):
    """A format that is read in large pieces which only it knows."""

    parquet_format: ClassVar[Callable[..., BulkFormat]]
    """Records are the rows of Parquet files: `ParquetFormat`, which sets this."""

    def with_columns(self, columns: tuple[ColumnName, ...]) -> BulkFormat:
        """Does the same as for a `StreamFormat`."""
        raise NotColumnar(f"{type(self).__name__} has no columns")

    @abstractmethod
    def splits(self, file: InputFile, block_bytes: int, inputs: Inputs = PLAIN) -> list[Split]:
        """Cuts one file."""

    @abstractmethod
    def create_reader(self, inputs: Inputs = PLAIN) -> SourceReader:
        """Makes a reader of these splits."""


def checked_charset(name: str) -> str:
    """Returns the charset's name as Python knows it."""
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise ProgramError(
            f"the charset {name!r} is not known to Python; use for example 'UTF-8' or 'latin-1'."
        ) from error


def check_fields(
    columns: tuple[ColumnName, ...], records: Any, names: Sequence[str] | None
) -> None:
    """Checks that fields mean columns: names in dicts, positions in tuples, both in rows.

    Raises:
        NotColumnar: One does not.
    """
    for column in columns:
        if records == ("tuple" if isinstance(column, str) else "dict"):
            raise NotColumnar(f"records are {records}s, and the field is {column!r}")
        if isinstance(column, str):
            if names is not None and column not in names:
                raise NotColumnar(f"there is no column {column!r}")
        elif column < 0 or (names is not None and column >= len(names)):
            raise NotColumnar(f"the position {column} is not one of a column")


def size_before(data: bytes, newlines: int) -> int:
    """Returns how many bytes precede the rest of `data`, which holds that many newlines."""
    return len(data.rsplit(b"\n", newlines + 1)[0]) + 1


RecordMaker = Callable[[list[Any]], list[Any]]
"""Makes records of rows (sequences of values)."""


def record_maker(
    records: str | Callable[[dict[str, Any]], Any], names: Sequence[str]
) -> RecordMaker:
    """Returns what turns rows into `dict`, `tuple` or `row`, or calls a converter with dicts."""
    if callable(records):
        convert, make_dicts = records, _dict_maker(names)
        return lambda rows: list(map(convert, make_dicts(rows)))
    if records == "dict":
        return _dict_maker(names)
    if records == "tuple":
        return lambda rows: list(map(tuple, rows))
    if records == "row":
        row_names = tuple(names)
        return lambda rows: [Row.of_names(row_names, row) for row in rows]
    raise ProgramError(
        f"records={records!r}; choose 'dict', 'tuple' or 'row', or give a function of a dict."
    )


def _dict_maker(names: Sequence[str]) -> RecordMaker:
    """Compiles a dict display for these names, which takes a third of the time of `dict(zip())`."""
    fields = ", ".join(f"v{at}" for at in range(len(names)))
    items = ", ".join(f"{name!r}: v{at}" for at, name in enumerate(names))
    code = f"lambda rows: [{{{items}}} for ({fields},) in rows]" if names else "lambda rows: []"
    maker: RecordMaker = eval(code)
    return maker


_log = logging.getLogger("penstock.files")


class TextLineFormat(StreamFormat):
    r"""Lines end with `\n` or `\r\n`; the last one may lack it.

    Bytes that the charset does not know become U+FFFD, as in Java's readers. A byte order mark at
    the beginning of the file is not part of the first line.

    Args:
        charset_name: Any charset of Python.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self.charset = checked_charset(charset_name)

    def create_parser(self) -> RecordParser:
        return _LineParser("utf-8" if self.needs_transcoding else self.charset)


class JsonLineFormat(StreamFormat):
    """One JSON document on each line; numbers, strings, lists and dicts of Python.

    Args:
        charset_name: Any charset of Python.
        on_error: What becomes of a line that is not JSON; see `StreamFormat.json_line_format`.
    """

    def __init__(
        self,
        charset_name: str = "UTF-8",
        *,
        on_error: str | Callable[[str, Exception], Any] = "fail",
    ) -> None:
        self.charset = checked_charset(charset_name)
        if on_error not in ("fail", "skip") and not callable(on_error):
            raise ProgramError(
                f"json_line_format() got on_error={on_error!r:.80}; it must be 'fail', 'skip' or a "
                "function (line, error) -> record, or None to leave the line out."
            )
        self.on_error = on_error

    def create_parser(self) -> RecordParser:
        return _JsonParser("utf-8" if self.needs_transcoding else self.charset, self.on_error)


class _LineParser(RecordParser):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def parse(self, block: Block, max_records: int) -> Parsed:
        data = block.data
        text = str(data, self._charset, "replace")
        lines = text.split("\n", max_records)
        consumed = len(data)
        if len(lines) > max_records:
            rest = lines.pop()
            if text.isascii():
                consumed -= len(rest)
            else:
                # To encode the rest again would not do: what was replaced comes back longer.
                consumed = size_before(data, rest.count("\n"))
        elif not lines[-1]:
            lines.pop()
        if "\r" in text:
            lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        return Parsed(lines, consumed, len(lines))


class _JsonParser(_LineParser):
    def __init__(self, charset: str, on_error: str | Callable[[str, Exception], Any]) -> None:
        super().__init__(charset)
        self._decode = msgspec.json.Decoder().decode
        self._on_error = on_error
        self._warned = False

    def parse(self, block: Block, max_records: int) -> Parsed:
        parsed = super().parse(block, max_records)
        lines = [line for line in parsed.values if line and not line.isspace()]
        try:
            values = list(map(self._decode, lines))
        except msgspec.DecodeError:
            values = [value for line in lines for value in self._decode_slowly(line, block)]
        return Parsed(values, parsed.consumed, parsed.records)

    def _decode_slowly(self, line: str, block: Block) -> tuple[Any, ...]:
        """Decodes what msgspec refuses and Python's own decoder takes, such as NaN."""
        try:
            return (json.loads(line),)
        except ValueError as error:
            text = (
                f"a line in the block of {block.where} is not JSON: {error}. Line: {line[:200]!r}"
            )
            if self._on_error == "fail":
                raise InputError(
                    f"{text}. To go on without such lines, or with what a function makes of them, "
                    "use StreamFormat.json_line_format(on_error=...)."
                ) from error
            if callable(self._on_error):
                value = self._on_error(line, error)
                return () if value is None else (value,)
            if not self._warned:
                self._warned = True
                _log.warning("%s. It is left out, and so are others of this file.", text)
            return ()
