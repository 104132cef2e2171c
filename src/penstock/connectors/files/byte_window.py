"""A stretch of a file in memory, so that small reads in order cost few system calls.

The window is a cache only: `load` gives the same bytes whatever was loaded before. Compressed and
transcoded files are seen through it as the plain stream inside; going back opens them again.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

from penstock.core.errors import JobExecutionError, UnsupportedError

_FETCH_BYTES: Final = 2 * 1024 * 1024


class ByteWindow:
    """Random access to a stream, cheap in ascending order.

    Args:
        open_stream: Opens the stream at its beginning.
        seekable: Whether the stream may be positioned; otherwise it is read forwards.
    """

    def __init__(self, open_stream: Callable[[], BinaryIO], *, seekable: bool) -> None:
        self._open_stream = open_stream
        self._seekable = seekable
        self._stream: BinaryIO | None = None
        self._stream_at = 0
        self._buffer = b""
        self._start = 0
        self._at_end = False

    def load(self, position: int, size: int) -> tuple[bytes, int, bool]:
        """Makes `size` bytes from `position` available, or all that there are.

        Returns:
            A buffer, the index of `position` in it, and whether the buffer ends where the stream
            ends.
        """
        offset = position - self._start
        if not 0 <= offset <= len(self._buffer):
            self._buffer, self._start, self._at_end = b"", position, False
            offset = 0
        missing = size - (len(self._buffer) - offset)
        if missing > 0 and not self._at_end:
            more = self._fetch(self._start + len(self._buffer), max(missing, _FETCH_BYTES))
            self._buffer = self._buffer[offset:] + more
            self._start = position
            offset = 0
        return self._buffer, offset, self._at_end

    def _fetch(self, position: int, size: int) -> bytes:
        stream = self._positioned(position)
        parts: list[bytes] = []
        while size > 0:
            part = stream.read(size)
            if not part:
                self._at_end = True
                break
            parts.append(part)
            size -= len(part)
            self._stream_at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _positioned(self, position: int) -> BinaryIO:
        if self._stream is not None and not self._seekable and position < self._stream_at:
            self.close()
        if self._stream is None:
            self._stream = self._open_stream()
            self._stream_at = 0
        if self._stream_at != position:
            if self._seekable:
                self._stream.seek(position)
                self._stream_at = position
            else:
                self._skip(self._stream, position)
        return self._stream

    def _skip(self, stream: BinaryIO, position: int) -> None:
        while self._stream_at < position:
            part = stream.read(min(position - self._stream_at, _FETCH_BYTES))
            if not part:
                raise JobExecutionError(
                    f"position {position} is behind the end of the file, at {self._stream_at}; "
                    "the file became shorter since it was read last."
                )
            self._stream_at += len(part)

    def close(self) -> None:
        """Closes the stream; the next `load` opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._stream_at = 0


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
