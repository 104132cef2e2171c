"""What a job's program prints: two files that are bounded, and how a reader goes on in them.

    log.txt    all of it, between the lines that are logged
    out.txt    its standard output alone, which `penstock run` shows while it waits

A reader holds a cursor, `<number of the file>-<bytes read>`. Where a job goes on at another job
manager the file is another one, and is read from its beginning.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.jobmanager.job_directory import FILE_MODE

MAX_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A part of what a program printed."""

    # Whole lines, as long as the job has not ended and they are not longer than was asked.
    data: bytes
    cursor: str  # Where the next part begins.


def read_output(path: Path, cursor: str, max_bytes: int, *, is_complete: bool) -> OutputPiece:
    """Returns what follows a cursor; nothing when there is nothing yet.

    Args:
        path: The file.
        cursor: That of the piece before, or empty for the beginning.
        max_bytes: How much at most.
        is_complete: Whether nothing more will be written, so that the last line needs no end.
    """
    number, _, begin = cursor.partition("-")
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            offset = int(begin or 0) if number == str(found.st_ino) else 0
            if offset > found.st_size:
                moved = _read(_moved(path), offset, max_bytes)
                if moved:
                    return OutputPiece(moved, f"{found.st_ino}-{offset + len(moved)}")
                offset = 0
            file.seek(offset)
            data = file.read(max_bytes)
    except FileNotFoundError:
        return OutputPiece(b"", cursor)
    is_part = len(data) == max_bytes
    if is_part or not is_complete:
        # A line that is longer than a piece comes in pieces.
        data = data[: data.rfind(b"\n") + 1] or (data if is_part else b"")
    return OutputPiece(data, f"{found.st_ino}-{offset + len(data)}")


def bound(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Moves a file that has grown too long aside, over the one that was moved before.

    Its writer appends and so goes on at the new beginning. What it writes between copy and cut is
    lost, which is why this happens at large sizes only.
    """
    try:
        if path.stat().st_size <= max_bytes:
            return
    except FileNotFoundError:
        return
    older = _moved(path)
    with path.open("rb") as source, older.open("wb") as target:
        os.chmod(older, FILE_MODE)
        while piece := source.read(1024 * 1024):
            target.write(piece)
    os.truncate(path, 0)


def _moved(path: Path) -> Path:
    return path.with_suffix(".1.txt")


def _read(path: Path, offset: int, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)
    except FileNotFoundError:
        return b""
