"""Reads ranges of files record by record, whatever the format.

A range owns the records that begin inside it (as in Hadoop): a reader that starts in the middle of
a file goes to the first newline at or behind `start - 1`; the last record may end behind `end`.
What one read returns is defined without any cache: the records from `position` on, at most
`max_records`, and only those that begin less than `max_bytes` behind `position`, but at least one.

Positions are bytes of the file, or of the stream inside a compressed file.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

from penstock.connectors.files.formats import Block, Parsed, RecordParser, StreamFormat
from penstock.connectors.files.inputs import PLAIN, ByteWindow, FileReader, Inputs
from penstock.connectors.source import Budget, ReadResult, Split
from penstock.core.errors import InputError, UnsupportedError

# -- what is inside a file -------------------------------------------------------------------------

_DECOMPRESSORS: Final[dict[str, Callable[[BinaryIO], Any]]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    ".gzip": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
_UNSUPPORTED: Final = (".deflate", ".lz4", ".lzo", ".snappy", ".zip", ".zst", ".zstd")


def is_compressed(path: str) -> bool:
    """Whether a file has to be decompressed, by its suffix.

    Raises:
        UnsupportedError: For compression that is known and not supported.
    """
    lowered = path.lower()
    if lowered.endswith(_UNSUPPORTED):
        raise UnsupportedError(
            f"{path}: this compression is not supported. Use .gz, .bz2 or .xz, or decompress it."
        )
    return lowered.endswith(tuple(_DECOMPRESSORS))


def decompressed(path: str, file: BinaryIO) -> BinaryIO:
    """Returns the stream inside a compressed file."""
    lowered = path.lower()
    make = next(make for suffix, make in _DECOMPRESSORS.items() if lowered.endswith(suffix))
    return _OwningStream(make(file), file)


def transcoded(file: BinaryIO, charset: str) -> BinaryIO:
    """Returns a stream of UTF-8 for a charset in which a newline is not the byte 10."""
    text = io.TextIOWrapper(file, encoding=charset, errors="replace", newline="")
    return cast("BinaryIO", _Utf8Stream(text))


class _OwningStream(io.BufferedReader):
    """A decompressor that closes the file below as well."""

    def __init__(self, stream: Any, file: BinaryIO) -> None:
        super().__init__(stream, 256 * 1024)
        self._file = file

    def close(self) -> None:
        super().close()
        self._file.close()


class _Utf8Stream:
    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text

    def read(self, size: int) -> bytes:
        return self._text.read(max(1, size // 4)).encode()

    def close(self) -> None:
        self._text.close()


_MAX_RECORD_BYTES: Final = 256 * 1024 * 1024
_MIN_PIECE: Final = 4096
_MAX_PIECE: Final = 8 * 1024 * 1024
"""Bytes parsed at a time; a cache size, without influence on what a read returns."""


class RangeReader(FileReader["OpenFile"]):
    """Reads splits of a `StreamFormat`."""

    def __init__(self, record_format: StreamFormat, inputs: Inputs = PLAIN) -> None:
        super().__init__(inputs)
        self._format = record_format

    def open_file(self, path: str) -> OpenFile:
        return OpenFile(self._format, path, self._inputs)

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        file = self.opened(split.data)
        end: int | None = split.data["end"]
        if position == split.start:
            position = file.first_record(position)
        limit = position + max(1, budget.max_bytes)
        values, reached = file.records(
            position, limit if end is None else min(limit, end), end, budget.max_records
        )
        finished = file.is_at_end(reached) if end is None else reached >= end
        return ReadResult(values, reached, finished=finished, has_more=not finished)


class OpenFile:
    """One file, seen through a window and a parser."""

    def __init__(self, record_format: StreamFormat, path: str, inputs: Inputs) -> None:
        self._path = path
        self._window = open_window(record_format, path, inputs)
        self.parser: RecordParser = record_format.create_parser()
        self.column_parser: Any = None
        """Whatever parses the same into columns, kept by the reader that does."""
        self._is_utf8 = record_format.needs_transcoding or record_format.charset == "utf-8"
        try:
            self._header_end = self.parser.skip_header(self._window, path)
        except BaseException:
            self._window.close()
            raise
        self._bytes_per_record = 100.0

    def first_record(self, start: int) -> int:
        """Returns where the first record of a range begins."""
        if start == 0:
            return self._header_end
        position = start - 1
        while True:
            buffer, offset, at_end = self._window.load(position, 1)
            found = buffer.find(b"\n", offset)
            if found >= 0:
                return position + found + 1 - offset
            position += len(buffer) - offset
            if at_end:
                return position

    def records(
        self, position: int, limit: int, end: int | None, max_records: int
    ) -> tuple[list[Any], int]:
        """Reads up to `max_records` records that begin before `limit`."""
        values: list[Any] = []
        count = grown = 0
        while count < max_records and position < limit:
            left = max_records - count
            wanted = min(int(self._bytes_per_record * left * 1.02) + _MIN_PIECE, _MAX_PIECE)
            target = position + max(grown, wanted)
            if count or not grown:
                target = min(target, limit)
            elif target > limit:
                # The first record is longer than the limit: it is read all the same, but alone.
                left = 1
                target = target if end is None else min(target, max(limit, end))
            block = self._block(position, target, is_final=end is not None and target >= end)
            if not block.data:
                break
            parsed = self._parse(block, position, left)
            if parsed.consumed == 0:
                if count and target == limit:
                    break
                grown = 2 * len(block.data) + _MIN_PIECE
                continue
            values = values + parsed.values if values else parsed.values
            count += parsed.records
            position += parsed.consumed
            grown = 0
            if parsed.records:
                self._bytes_per_record = parsed.consumed / parsed.records
        return values, position

    def lines(self, position: int, limit: int, end: int | None, records: int) -> bytes:
        """Returns about so many whole lines that begin before `limit`."""
        wanted = min(int(self._bytes_per_record * records * 1.02) + _MIN_PIECE, _MAX_PIECE)
        target = min(position + wanted, limit)
        return self._block(position, target, is_final=end is not None and target >= end).data

    def took(self, records: int, size: int) -> None:
        """Learns how long records are."""
        if records:
            self._bytes_per_record = size / records

    def is_at_end(self, position: int) -> bool:
        """Whether the stream ends at `position`."""
        buffer, offset, _ = self._window.load(position, 1)
        return offset == len(buffer)

    def _block(self, position: int, target: int, *, is_final: bool) -> Block:
        """Loads the records that begin before `target`, and whatever else precedes a newline."""
        size = target - position
        sought = size - 1
        while True:
            buffer, offset, at_end = self._window.load(position, size)
            found = buffer.find(b"\n", offset + sought)
            if found >= 0 or at_end:
                break
            sought = max(sought, len(buffer) - offset)
            size = 2 * max(size, sought)
            if size > _MAX_RECORD_BYTES + target - position:
                raise InputError(
                    f"{self._path}: no newline in {sought} bytes from position {position} on; a "
                    f"record may have {_MAX_RECORD_BYTES} bytes. Is this a text file?"
                )
        cut = len(buffer) if found < 0 else found + 1
        data = buffer[offset:cut]
        return Block(
            data,
            f"{self._path} at position {position}",
            is_final,
            cut == len(buffer) and self.is_at_end(position + len(data)),
        )

    def _parse(self, block: Block, position: int, max_records: int) -> Parsed:
        if position or not self._is_utf8 or not block.data.startswith(codecs.BOM_UTF8):
            return self.parser.parse(block, max_records)
        marked = len(codecs.BOM_UTF8)
        parsed = self.parser.parse(block._replace(data=block.data[marked:]), max_records)
        return parsed._replace(consumed=parsed.consumed + marked)

    def close(self) -> None:
        self._window.close()


def open_window(record_format: StreamFormat, path: str, inputs: Inputs) -> ByteWindow:
    """Opens a file so that records of the format can be seen in it."""
    compressed, recoded = is_compressed(path), record_format.needs_transcoding

    def open_stream() -> BinaryIO:
        stream = inputs.open(path)
        if compressed:
            stream = decompressed(path, stream)
        return transcoded(stream, record_format.charset) if recoded else stream

    return ByteWindow(open_stream, seekable=not compressed and not recoded)
