"""Records that the program holds itself: `from_collection`.

The records are pickled when the program is built, so that later changes to the list do not count,
and unpickled anew by each read, so that a function that changes a record does not change the input.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
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

    def default_name(self) -> str:
        return "Collection Source"


class _CollectionReader(SourceReader):
    def __init__(self, chunks: list[bytes | list[Any]], sizes: list[int]) -> None:
        self._chunks = chunks
        self._sizes = sizes

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        size = self._sizes[split.data]
        end = min(size, position + budget.max_records)
        values = _thaw(self._chunks[split.data])
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


def _thaw(chunk: bytes | list[Any]) -> list[Any]:
    if isinstance(chunk, bytes):
        values: list[Any] = pickle.loads(chunk)
        return values
    return copy.deepcopy(chunk)
