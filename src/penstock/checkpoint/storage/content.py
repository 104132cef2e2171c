"""Bytes to be stored, with the length and checksum they must have; read as often as asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.checkpoint.errors import ContentError

PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes somewhere."""

    size_bytes: int
    sha256: str  # Hex digest.
    # Starts reading from the beginning; a retry calls it again.
    open: Callable[[], Iterator[bytes]]

    @classmethod
    def of_bytes(cls, data: bytes) -> Content:
        """Bytes in memory."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), lambda: iter((data,)))

    @classmethod
    def of_file(cls, path: Path, size_bytes: int, sha256: str) -> Content:
        """A local file that must still be what its handle says."""
        return cls(size_bytes, sha256, lambda: _pieces_of_file(path))

    def pieces(self, what: str) -> Iterator[bytes]:
        """Reads all pieces and raises instead of ending when they are not what they must be.

        Raises:
            ContentError: Length or checksum differ.
        """
        return checked(self.open(), self.size_bytes, self.sha256, what)

    def read(self, what: str) -> bytes:
        """Reads everything, checked."""
        return b"".join(self.pieces(what))


def checked(pieces: Iterator[bytes], size_bytes: int, sha256: str, what: str) -> Iterator[bytes]:
    """Passes pieces on and compares length and checksum at the end.

    Raises:
        ContentError: They differ; the text has both.
    """
    digest = hashlib.sha256()
    size = 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        if size > size_bytes:
            break
        yield piece
    if size != size_bytes:
        more = "more than " if size > size_bytes else ""
        raise ContentError(
            f"{what} has {more}{min(size, size_bytes):,} bytes, expected {size_bytes:,}. It was "
            "truncated or replaced; choose another checkpoint."
        )
    if digest.hexdigest() != sha256:
        raise ContentError(
            f"{what} has SHA-256 {digest.hexdigest()}, expected {sha256} ({size:,} bytes). Its "
            "content is damaged; choose another checkpoint."
        )


def _pieces_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
