"""How records become the bytes of output files: rows, and what all formats have in common."""

from __future__ import annotations

import codecs
import contextlib
import csv
import dataclasses
import importlib
import io
import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec

from penstock.core.errors import JobExecutionError, ProgramError
from penstock.core.row import Row
from penstock.files.contract import Content, Storage
from penstock.files.private import make_private

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


# Records as Arrow tables, for sinks that write columns.
#
# Rows, dicts, named tuples and data classes have named columns; tuples and lists have `_1`, `_2`
# ..., as in Spark; anything else is one column `value`. Types are inferred unless a schema is
# given.

Schema = Any
"""A `pyarrow.Schema`, a list of column names, or None."""


def to_table(values: list[Any], schema: Schema = None) -> Any:
    """Returns the records as a `pyarrow.Table`.

    Args:
        values: The records; all of one shape.
        schema: A `pyarrow.Schema`, or names of columns, or None to infer both.
    """
    arrow: Any = importlib.import_module("pyarrow")
    names, columns = _columns(values, _names_of(schema))
    types = {field.name: field.type for field in schema} if isinstance(schema, arrow.Schema) else {}
    arrays = []
    for name, column in zip(names, columns, strict=True):
        try:
            arrays.append(_array(arrow, column, types.get(name)))
        except (arrow.ArrowException, TypeError, OverflowError) as error:
            wanted = f" as {types[name]}" if name in types else ""
            raise JobExecutionError(
                f"column {name!r} cannot be written{wanted}: {error}. Give the sink a "
                "pyarrow.Schema that fits, or convert the records before."
            ) from error
    if types:
        return arrow.Table.from_arrays(arrays, schema=schema)
    return arrow.Table.from_arrays(arrays, names=names)


def _array(arrow: Any, column: list[Any], kind: Any) -> Any:
    try:
        return arrow.array(column, type=kind)
    except (arrow.ArrowException, TypeError):
        plain = list(map(_without_rows, column))
        if plain == column:
            raise
        return arrow.array(plain, type=kind)


def _without_rows(value: Any) -> Any:
    """Returns a value with dicts in place of the rows in it, which pyarrow does not know."""
    kind = type(value)
    if kind is Row:
        return {name: _without_rows(each) for name, each in value.as_dict().items()}
    if kind is list:
        return list(map(_without_rows, value))
    if kind is dict:
        return {name: _without_rows(each) for name, each in value.items()}
    return value


def checked_schema(schema: Schema) -> Schema:
    """Returns a schema; a text is refused, whose letters would be taken for columns."""
    if isinstance(schema, str):
        raise ProgramError(
            f"the schema is the text {schema!r:.80}; give a list of column names, or a "
            "pyarrow.Schema."
        )
    return schema


def _names_of(schema: Schema) -> list[str] | None:
    if schema is None:
        return None
    return list(schema.names) if hasattr(schema, "names") else list(schema)


def _columns(values: list[Any], names: list[str] | None) -> tuple[list[str], list[list[Any]]]:
    """Returns names and columns of records of one shape."""
    first = values[0] if values else {}
    if isinstance(first, dict):
        return _of_dicts(values, names)
    found, rows = _rows(values, first)
    if names is None:
        names = found
    width = len(names)
    if set(map(len, rows)) - {width}:
        row = next(row for row in rows if len(row) != width)
        raise JobExecutionError(
            f"a record has {len(row)} fields instead of {width}: {row!r:.200}. All records of a "
            "table have the same columns."
        )
    return names, [list(column) for column in zip(*rows, strict=True)]


def _of_dicts(
    values: list[dict[str, Any]], names: list[str] | None
) -> tuple[list[str], list[list[Any]]]:
    known = dict.fromkeys(name for value in values for name in value)
    if names is None:
        names = list(known)
    unknown = [name for name in known if name not in names]
    if unknown:
        raise JobExecutionError(
            f"a record has a column {unknown[0]!r} that the schema does not: {', '.join(names)}."
        )
    return names, [[value.get(name) for value in values] for name in names]


def _rows(values: list[Any], first: Any) -> tuple[list[str], Sequence[Any]]:
    """Returns names and rows; the first record says what all are."""
    if hasattr(first, "get_row_kind"):
        named = getattr(first, "_fields", None)
        return list(named) if named else _numbered(len(first)), [tuple(value) for value in values]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return list(first._fields), values
    if isinstance(first, tuple | list):
        return _numbered(len(first)), values
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        return names, [tuple(getattr(value, name) for name in names) for value in values]
    return ["value"], [(value,) for value in values]


def _numbered(count: int) -> list[str]:
    return [f"_{number}" for number in range(1, count + 1)]


_SPOOLED_BYTES: Final = 4 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024


class PendingBytes:
    """Keeps what does not fit into memory until an epoch is prepared: one file without a name.

    An epoch may write to more buckets than there are file descriptors.

    Args:
        directory: Where the file is; empty for the system's directory of temporary files.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        self._end = 0

    def append(self, pieces: list[bytes]) -> tuple[int, int]:
        """Keeps bytes; returns where they begin and end."""
        if self._file is None:
            if self._directory:
                make_private(Path(self._directory))
            file = tempfile.TemporaryFile(dir=self._directory or None)  # noqa: SIM115
            self._file = cast("BinaryIO", file)
        start = self._end
        self._file.seek(start)
        self._file.writelines(pieces)
        self._end = self._file.tell()
        return start, self._end

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Returns what was kept."""
        assert self._file is not None
        self._file.flush()
        for at in range(start, end, _PIECE_BYTES):
            yield os.pread(self._file.fileno(), min(_PIECE_BYTES, end - at), at)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class OutputFormat(ABC):
    """Makes pending files and joins them to part files."""

    is_complete: bool = True  # Whether a pending file alone is a part file already.

    @abstractmethod
    def open(self, spool: PendingBytes) -> PendingFile:
        """Begins a pending file."""

    @abstractmethod
    def join(
        self, storage: Storage, keys: list[str], size_bytes: int
    ) -> AbstractContextManager[Content]:
        """Gives one part file made from pending files, in their order.

        Args:
            storage: Where they are.
            keys: Their keys.
            size_bytes: Of all of them.
        """


class PendingFile(ABC):
    """Records of one bucket and epoch."""

    @abstractmethod
    def write(self, values: list[Any]) -> None:
        """Adds records."""

    @abstractmethod
    def size(self) -> int:
        """Returns its size so far, roughly."""

    @abstractmethod
    def content(self) -> Content:
        """Returns what the file holds; nothing is written to it any more."""


# -- formats in which files can be put one behind the other ---------------------------------------


class Encoder(OutputFormat):
    """Turns records into bytes, one after the other: a row format.

    Args:
        encode: Takes a list of records and returns their bytes.
        header: What each part file begins with.
    """

    def __init__(self, encode: Callable[[list[Any]], bytes], header: bytes = b"") -> None:
        self._encode = encode
        self._header = header
        self.is_complete = not header

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Writes the text of each record, as `print()` does, and a newline."""
        try:
            charset = codecs.lookup(charset_name).name
        except LookupError as error:
            raise ProgramError(f"the charset {charset_name!r} is not known to Python.") from error
        return Encoder(_StringEncoder(charset))

    def with_text(self, text: Callable[[Any], str]) -> Encoder:
        """Returns the encoder that writes the text of records so, if it writes their text."""
        if isinstance(self._encode, _StringEncoder):
            return Encoder(self._encode.with_text(text), self._header)
        return self

    def open(self, spool: PendingBytes) -> PendingFile:
        return _EncodedFile(self._encode, spool)

    @contextlib.contextmanager
    def join(self, storage: Storage, keys: list[str], size_bytes: int) -> Iterator[Content]:
        def pieces() -> Iterator[bytes]:
            if self._header:
                yield self._header
            for key in keys:
                yield from storage.pieces(key)

        yield Content(len(self._header) + size_bytes, "", pieces)


class _EncodedFile(PendingFile):
    def __init__(self, encode: Callable[[list[Any]], bytes], spool: PendingBytes) -> None:
        self._encode = encode
        self._spool = spool
        self._spooled: list[tuple[int, int]] = []
        self._parts: list[bytes] = []
        self._buffered = 0
        self._size = 0

    def write(self, values: list[Any]) -> None:
        data = self._encode(values)
        self._parts.append(data)
        self._size += len(data)
        self._buffered += len(data)
        if self._buffered >= _SPOOLED_BYTES:
            self._spooled.append(self._spool.append(self._parts))
            self._parts, self._buffered = [], 0

    def size(self) -> int:
        return self._size

    def content(self) -> Content:
        return Content(self._size, "", self._pieces)

    def _pieces(self) -> Iterator[bytes]:
        for start, end in self._spooled:
            yield from self._spool.pieces(start, end)
        if self._parts:
            yield b"".join(self._parts)


class _StringEncoder:
    def __init__(self, charset: str, text: Callable[[Any], str] = str) -> None:
        self._charset = charset
        self._text = text

    def __call__(self, values: list[Any]) -> bytes:
        try:
            text = "\n".join(values)
        except TypeError:
            text = "\n".join([self._text(value) for value in values])
        return (text + "\n").encode(self._charset)

    def with_text(self, text: Callable[[Any], str]) -> _StringEncoder:
        return _StringEncoder(self._charset, text)


class JsonEncoder:
    """One JSON document on each line."""

    def __call__(self, values: list[Any]) -> bytes:
        plain = [value.as_dict(True) if hasattr(value, "as_dict") else value for value in values]
        try:
            return b"\n".join(map(msgspec.json.encode, plain)) + b"\n"
        except (msgspec.MsgspecError, TypeError, ValueError):
            # Slower, but its error names what it cannot encode, and it takes subclasses of dict.
            return "".join(json.dumps(value) + "\n" for value in plain).encode()


class CsvEncoder:
    """Lines of CSV."""

    def __init__(self, columns: Sequence[str] | None, delimiter: str) -> None:
        self._columns = None if columns is None else list(columns)
        self._delimiter = delimiter

    def __call__(self, values: list[Any]) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self._delimiter, lineterminator="\n")
        writer.writerows(map(self._row, values))
        return text.getvalue().encode()

    def _row(self, value: Any) -> Sequence[Any]:
        if hasattr(value, "get_row_kind"):
            row: list[Any] = list(value)
        elif isinstance(value, dict):
            if self._columns is None:
                raise JobExecutionError("dicts need BulkWriterFactory.csv(columns=[...]).")
            unknown = [name for name in value if name not in self._columns]
            if unknown:
                raise JobExecutionError(
                    f"a record has a column {unknown[0]!r}; the columns are "
                    f"{', '.join(self._columns)}."
                )
            return [value.get(name) for name in self._columns]
        elif isinstance(value, tuple | list):
            row = list(value)
        else:
            row = [value]
        if self._columns is not None and len(row) != len(self._columns):
            raise JobExecutionError(
                f"a record has {len(row)} fields instead of {len(self._columns)}: {value!r:.200}."
            )
        return row
