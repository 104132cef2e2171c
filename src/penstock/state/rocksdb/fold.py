"""A fold in slices: what changed since the base becomes rows of a new base, a part at each commit.

1. The overlays of all tables and timers are frozen: they are what led from the base to version V.
2. They become rows, sorted in pieces. Rows of the base that have expired join them.
3. The rows are merged into SST files, which the database takes in. Memory and database together are
   the running state still; what is frozen is let go.
4. New files are hashed. The next version is this base and the deltas behind V.

Until then, versions have the old base and all deltas. A worker that takes over repeats the fold.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from penstock.state.rocksdb.rows import TIMER_PREFIX, group_start

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from penstock.core.handles import FileHandle, KeyedStateVersion

PIECE_ROWS: Final = 8192
"""Rows that are sorted together, in some milliseconds."""

STEP_ROWS: Final = 256
"""Rows between looks at the clock."""

MOST_LAYERS: Final = 16
"""Files above each other that a read may have to look into, before they are merged."""


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
        """Continues for a slice, and until so many rows are done; returns whether all are."""
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
        """Abandons the fold and removes its files."""
        self._steps.close()


def sorted_pieces(
    rows: Iterator[tuple[bytes, bytes | None]],
    pieces: list[list[tuple[bytes, bytes | None]]],
) -> Generator[int, None, None]:
    """Sorts all rows into pieces; of equal rows, the last one counts."""
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


def stretches_to_compact(files: Iterable[tuple[int, bool, int]]) -> list[int]:
    """Returns the stretches of a base whose layers are to be merged after a fold.

    A fold adds a file for each stretch on top of what is there. Merging one stretch costs as many
    bytes as it has, so a little is merged after each fold, instead of everything now and then.

    Args:
        files: Stretch, whether there are others below it, and size of each file.
    """
    upper: Counter[int] = Counter()
    layers: Counter[int] = Counter()
    lower = 0
    for stretch, is_upper, size_bytes in files:
        if is_upper:
            upper[stretch] += size_bytes
            layers[stretch] += 1
        else:
            lower += size_bytes
    left = upper.total()
    chosen: list[int] = []
    for stretch in sorted(upper, key=lambda each: (layers[each] > MOST_LAYERS, upper[each]))[::-1]:
        if left <= lower and (chosen or (left <= lower / 2 and layers[stretch] <= MOST_LAYERS)):
            break
        chosen.append(stretch)
        left -= upper[stretch]
    return chosen


def stretch_cuts(first_key_group: int, last_key_group: int, count: int) -> list[bytes]:
    """Returns where stretches of about as many key groups begin, but for the first; timers last."""
    groups = last_key_group + 1 - first_key_group
    numbers = {first_key_group + groups * part // count for part in range(1, count)}
    return [*map(group_start, sorted(numbers - {first_key_group})), TIMER_PREFIX]


def overlaid(
    rows: Iterable[tuple[bytes, bytes]], changes: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields rows with changes applied; both are in order, None deletes."""
    position = 0
    for row, data in rows:
        while position < len(changes) and changes[position][0] < row:
            changed, new = changes[position]
            position += 1
            if new is not None:
                yield changed, new
        if position < len(changes) and changes[position][0] == row:
            new = changes[position][1]
            position += 1
            if new is not None:
                yield row, new
        else:
            yield row, data
    for changed, new in changes[position:]:
        if new is not None:
            yield changed, new


def noted_timers(
    rows: Iterable[tuple[bytes, bytes]], domains: set[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Notes the domains of timers that pass."""
    place = len(TIMER_PREFIX)
    for row in rows:
        if row[0].startswith(TIMER_PREFIX):
            domains.add(row[0][place : place + 1])
        yield row
