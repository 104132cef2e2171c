"""Records that the program holds itself, or makes by a function of their index.

Those of a collection are pickled when the program is built, so that later changes to the list do
not count, and unpickled by each read, so that a function that changes a record does not change
the input.

Of generated records, index space is dealt out to `num_splits` splits in blocks of 1024, so that all
splits advance together. A rate is a schedule: record *n* of a split is due `n / rate` after the
split was first read. That start is part of the position, so a replay sees the same schedule, and
what fell due while the job was down is made up for.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random  # noqa: TID251 - only instances with the user's seed
from typing import Any, Final

from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.errors import ProgramError
from penstock.core.records import mean_bytes

_CHUNK: Final = 8192
_CHUNK_BYTES: Final = 8 << 20
"""About so many bytes at most: each read unpickles a whole chunk."""


class CollectionSource(Source):
    """Reads a collection in its order; several subtasks share it by chunks.

    Args:
        items: The records.
        chunking: Records of one split, at most.
    """

    _default_name = "Collection Source"
    boundedness = Boundedness.BOUNDED

    def __init__(self, items: Iterable[Any], chunking: int = _CHUNK) -> None:
        if chunking < 1:
            raise ProgramError(f"chunking is {chunking}; it must be 1 or more.")
        listed = [item if type(item) in IMMUTABLE else snapshot(item) for item in items]
        self._sizes: list[int] = []
        self._chunks: list[bytes | list[Any]] = []
        at = 0
        while at < len(listed):
            chunk = listed[at : at + chunking]
            chunk = chunk[: max(1, int(_CHUNK_BYTES / mean_bytes(chunk)))]
            self._sizes.append(len(chunk))
            self._chunks.append(_freeze(chunk, at))
            at += len(chunk)

    def discover(self, state: Any, now_ms: int) -> Discovery:
        if state is not None:
            return Discovery((), state, complete=True)
        splits = tuple(Split(f"chunk-{number}", number) for number in range(len(self._chunks)))
        return Discovery(splits, {"chunks": len(splits)}, complete=True)

    def create_reader(self) -> SourceReader:
        return _CollectionReader(self._chunks, self._sizes)


class _CollectionReader(SourceReader):
    def __init__(self, chunks: list[bytes | list[Any]], sizes: list[int]) -> None:
        self._chunks = chunks
        self._sizes = sizes

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        size = self._sizes[split.data]
        end = min(size, position + budget.max_records)
        chunk = self._chunks[split.data]
        values = pickle.loads(chunk) if isinstance(chunk, bytes) else copy.deepcopy(chunk)
        if position > 0 or end < size:
            values = values[position:end]
        return ReadResult(values, end, finished=end == size, has_more=end < size)


def _freeze(items: list[Any], first: int) -> bytes | list[Any]:
    try:
        frozen = pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ProgramError(
            f"a record of the collection, one of numbers {first} to {first + len(items) - 1}, "
            f"cannot be pickled: {error}. Use plain values, or classes defined in a module."
        ) from error
    # A class of the user's script is known to a worker by value only, through the pickled job.
    return items if b"__main__" in frozen else frozen


_SPLITS_OF_A_SUBTASK: Final = 4
"""More than one, so that a subtask that is done early can take over from a slower one."""


class NumberSequenceSource(Source):
    """Emits `start`, `start + 1`, ... `end`, both included.

    Each subtask emits ascending ranges; with parallelism 1 the whole sequence is in order.

    Args:
        start: First number.
        end: Last number, at least `start`.
    """

    _default_name = "Sequence Source"
    boundedness = Boundedness.BOUNDED

    def __init__(self, start: int, end: int) -> None:
        if end < start:
            raise ProgramError(
                f"NumberSequenceSource({start}, {end}): the end is below the start. "
                "Both are included, so the smallest sequence has start == end."
            )
        self.start = start
        self.end = end
        self._parallelism = 1

    def with_parallelism(self, parallelism: int) -> NumberSequenceSource:
        source = NumberSequenceSource(self.start, self.end)
        source._parallelism = parallelism
        return source

    def discover(self, state: Any, now_ms: int) -> Discovery:
        if state is not None:
            return Discovery((), state, complete=True)
        total = self.end - self.start + 1
        count = min(total, max(1, self._parallelism) * _SPLITS_OF_A_SUBTASK)
        cuts = [self.start + total * number // count for number in range(count + 1)]
        splits = tuple(
            Split(f"{low}..{high - 1}", (low, high), start=low) for low, high in pairwise(cuts)
        )
        return Discovery(splits, {"splits": count}, complete=True)

    def create_reader(self) -> SourceReader:
        return _NumberReader()


class _NumberReader(SourceReader):
    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        high = split.data[1]
        end = min(high, position + budget.max_records)
        return ReadResult(
            list(range(position, end)), end, finished=end == high, has_more=end < high
        )


BLOCK: Final = 1024
"""Indexes that stay together in one split; with a seed, one random generator serves a block."""


class GeneratedSource(Source):
    """Base of sources that make records of their index.

    Args:
        count: How many records; None = without end.
        rate_per_second: Upper bound over all splits; None = as fast as possible.
        num_splits: Splits, read side by side; None = as many as subtasks.
    """

    def __init__(
        self, count: int | None, rate_per_second: float | None, num_splits: int | None
    ) -> None:
        if count is not None and count < 0:
            raise ProgramError(f"count is {count}; it must be 0 or more, or None for no end.")
        check_rate(rate_per_second)
        self._count = count
        self._rate = rate_per_second
        self._num_splits = num_splits

    @property
    def boundedness(self) -> Boundedness:
        bounded = self._count is not None
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def with_parallelism(self, parallelism: int) -> Source:
        if self._num_splits is not None:
            return self
        cut = copy.copy(self)
        cut._num_splits = parallelism
        return cut

    def discover(self, state: Any, now_ms: int) -> Discovery:
        if state is not None:
            return Discovery((), state, complete=True)
        count = self._num_splits or 1
        splits = tuple(
            Split(f"generator-{number}-of-{count}", (number, count), (0, None), True)
            for number in range(count)
        )
        return Discovery(splits, {"splits": count}, complete=True)


class DataGeneratorSource(GeneratedSource):
    """Generates records; replayable because each is a function of its index.

    Args:
        function: Makes the record: `function(index)`, or `function(index, random)` with a seed.
        count: How many records; None = without end.
        rate_per_second: Upper bound over all splits; None = as fast as possible.
        seed: Seed of the `random.Random` handed to the function. It is set again for every block of
            1024 indexes, so that a replay may begin anywhere.
        num_splits: Splits, read side by side; None = as many as subtasks.
    """

    _default_name = "Data Generator Source"

    def __init__(
        self,
        function: Callable[..., Any],
        count: int | None = None,
        *,
        rate_per_second: float | None = None,
        seed: int | None = None,
        num_splits: int | None = None,
    ) -> None:
        super().__init__(count, rate_per_second, num_splits)
        self._function = function
        self._seed = seed

    def create_reader(self) -> SourceReader:
        return _GeneratorReader(self._function, self._count, self._rate, self._seed)


class _GeneratorReader(SourceReader):
    def __init__(
        self, function: Callable[..., Any], count: int | None, rate: float | None, seed: int | None
    ) -> None:
        self._function = function
        self._count = count
        self._rate = rate
        self._seed = seed
        self._within: dict[str, tuple[int, Random]] = {}
        """For splits whose last read ended inside a block: the next index, and the generator."""

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        reading = plan_read(split, position, budget, count=self._count, rate=self._rate)
        values: list[Any] = []
        for low, high in index_ranges(split, reading.first, reading.end):
            values += self._make(split.split_id, low, high)
        return reading.result(values)

    def _make(self, split_id: str, low: int, high: int) -> list[Any]:
        """Makes records of one block."""
        function = self._function
        if self._seed is None:
            return [
                item if type(item := function(index)) in IMMUTABLE else snapshot(item)
                for index in range(low, high)
            ]
        # Not kept if the function raises: it may have taken numbers by then.
        following, random = self._within.pop(split_id, (None, None))
        if random is None or following != low:
            block = low // BLOCK
            random = Random(f"{self._seed}:{block}")
            # Where a generator stands inside a block is only known by running it from its start.
            for index in range(block * BLOCK, low):
                function(index, random)
        made = [snapshot(function(index, random)) for index in range(low, high)]
        if high % BLOCK:
            self._within[split_id] = high, random
        return made


# -- index arithmetic, shared with the demo's events ----------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """Which records of a split one read makes."""

    first: int  # Number of the first record, counted within the split.
    end: int  # Number behind the last one.
    started_ms: int  # When the split was first read.
    finished: bool  # The split has no further record.
    has_more: bool  # A further record is due already.

    def result(self, values: list[Any]) -> ReadResult:
        """Returns the result of the read."""
        position = (self.end, self.started_ms)
        return ReadResult(values, position, finished=self.finished, has_more=self.has_more)


def check_rate(rate_per_second: float | None) -> None:
    """Refuses a rate that never emits."""
    if rate_per_second is not None and not rate_per_second > 0:
        raise ProgramError(f"rate_per_second is {rate_per_second}; it must be above 0, or None.")


def plan_read(
    split: Split, position: Any, budget: Budget, *, count: int | None, rate: float | None
) -> PlannedRead:
    """Says what to make from `position`: within the budget, the count and the schedule."""
    first, started_ms = position
    if started_ms is None:
        started_ms = budget.now_ms
    total = None if count is None else _records_of(split, count)
    available = first + budget.max_records + 1 if total is None else total
    if rate is not None:
        elapsed_ms = max(0, budget.now_ms - started_ms)
        due = int(elapsed_ms * rate / split.data[1] / 1000) + 1
        available = min(available, max(first, due))
    end = min(first + budget.max_records, available)
    finished = total is not None and end >= total
    return PlannedRead(first, end, started_ms, finished, end < available)


def index_ranges(split: Split, first: int, end: int) -> list[tuple[int, int]]:
    """Translates record numbers of a split into ranges of indexes, each inside one block."""
    number, splits = split.data
    ranges: list[tuple[int, int]] = []
    while first < end:
        block, offset = divmod(first, BLOCK)
        length = min(end - first, BLOCK - offset)
        low = (block * splits + number) * BLOCK + offset
        ranges.append((low, low + length))
        first += length
    return ranges


def _records_of(split: Split, count: int) -> int:
    """Returns how many of `count` records belong to a split."""
    number: int = split.data[0]
    splits: int = split.data[1]
    rounds, rest = divmod(count, BLOCK * splits)
    return rounds * BLOCK + min(BLOCK, max(0, rest - number * BLOCK))
