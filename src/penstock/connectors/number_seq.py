"""Whole numbers from a range."""

from __future__ import annotations

from itertools import pairwise
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
from penstock.core.errors import ProgramError

_SPLITS_OF_A_SUBTASK: Final = 4
"""More than one, so that a subtask that is done early can take over from a slower one."""


class NumberSequenceSource(Source):
    """Emits `start`, `start + 1`, ... `end`, both included.

    Each subtask emits ascending ranges; with parallelism 1 the whole sequence is in order.

    Args:
        start: First number.
        end: Last number, at least `start`.
    """

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

    def default_name(self) -> str:
        return "Sequence Source"


class _NumberReader(SourceReader):
    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        high = split.data[1]
        end = min(high, position + budget.max_records)
        return ReadResult(
            list(range(position, end)), end, finished=end == high, has_more=end < high
        )
