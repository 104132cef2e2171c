"""A fold in slices: what changed since the base becomes rows of a new base, a part at each commit.

1. The overlays of all tables and timers are frozen: they are what led from the base to version V.
2. They become rows, sorted in pieces. Rows of the base that have expired join them.
3. The rows are merged into SST files, which the database takes in. Memory and database together are
   the running state still; what is frozen is let go.
4. New files are hashed. The next version is this base and the deltas behind V.

Until then versions have the old base and all deltas, so whoever takes over loses nothing but work.
"""

from __future__ import annotations

import heapq
import itertools
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from penstock.core.handles import FileHandle, KeyedStateVersion

PIECE_ROWS: Final = 8192
"""Rows that are sorted together, in some milliseconds."""

STEP_ROWS: Final = 256
"""Rows between looks at the clock."""


class Fold:
    """A fold under way.

    Attributes:
        version: What is frozen.
        files: The files of the new base by their names for RocksDB, once the work is done.
    """

    def __init__(
        self, version: KeyedStateVersion, steps: Generator[int, None, tuple[FileHandle, ...]]
    ) -> None:
        self.version = version
        self.files: tuple[FileHandle, ...] = ()
        self._steps = steps

    def work(self, least: float, slice_ms: float) -> bool:
        """Goes on for a slice, and until so many rows are done; returns whether everything is."""
        ends = time.perf_counter() + slice_ms / 1000
        done = 0
        while True:
            try:
                done += next(self._steps)
            except StopIteration as end:
                self.files = end.value
                return True
            if done >= least and time.perf_counter() >= ends:
                return False

    def close(self) -> None:
        """Gives the fold up, and removes its files."""
        self._steps.close()


def sorted_pieces(
    rows: Iterator[tuple[bytes, bytes | None]],
    pieces: list[list[tuple[bytes, bytes | None]]],
) -> Generator[int, None, None]:
    """Takes all rows into sorted pieces; a later one of a row counts."""
    piece: dict[bytes, bytes | None] = {}
    while part := list(itertools.islice(rows, STEP_ROWS)):
        piece.update(part)
        if len(piece) >= PIECE_ROWS:
            pieces.append(sorted(piece.items()))
            piece = {}
        yield len(part)
    if piece:
        pieces.append(sorted(piece.items()))


def merged_pieces(
    pieces: Iterable[list[tuple[bytes, bytes | None]]],
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields the rows of sorted pieces in order; that of a later piece counts."""
    last: tuple[bytes, bytes | None] | None = None
    for item in heapq.merge(*pieces, key=itemgetter(0)):
        if last is not None and last[0] != item[0]:
            yield last
        last = item
    if last is not None:
        yield last
