"""The source contract: splits are found by the driver and read by subtasks, from a position.

1. The driver calls `discover` from time to time; new splits are assigned to subtasks.
2. In each epoch a subtask reads its splits, one after the other, from their positions, within a
   budget of records, bytes and time; the result names the next position. A `read` is a function of
   (split, position, budget) only. How many of them an epoch makes depends on how long they take,
   so a task that is tried again may read less or more: its report says how far it came.
3. The driver keeps the positions; they are part of every checkpoint, by the source's uid.

Positions are plain data (int, str, tuple, dict of these), never objects of a class.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.core.records import ColumnBatch, ColumnName, NotColumnar, mean_bytes
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.types import TypeInformation


READ_RECORDS: Final = 16_384
"""Records of one read, at whose end periodic watermarks rise."""


class Boundedness(Enum):
    """Whether a source ends."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the input that one subtask reads in order."""

    split_id: str  # Unique within the source, stable over restarts.
    data: Any  # What the reader needs to find it; plain data.
    start: Any = 0  # Position to begin at.
    # True when the split must be read in every epoch beside all others of its subtask (a partition
    # of a log); False when splits are worked off one after the other (a range of a file).
    concurrent: bool = False


@dataclass(frozen=True, slots=True)
class Discovery:
    """Result of looking for splits."""

    splits: tuple[Split, ...]  # New splits, in the order in which they should be read.
    state: Any = None  # Plain data handed to the next `discover`, also after a restore.
    complete: bool = False  # No further split will ever appear.


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one `read` may take."""

    max_records: int  # Upper bound on records.
    max_bytes: int  # Bound on bytes read, where the source knows bytes.
    now_ms: int  # Processing time of the epoch; a source with a rate computes from it.
    # For sources with columns: the bounds are those of so many reads together. What is read must be
    # what these reads would have given one after the other.
    reads: int = 1
    # How long the subtask may read and hand on. It looks at the time between reads, and asks for as
    # many records as fit: a reader need not look.
    max_ms: float = math.inf

    def single(self) -> Budget:
        """Returns the budget of one of the reads."""
        records, size = self.max_records, self.max_bytes // self.reads
        return Budget(min(records, READ_RECORDS), size, self.now_ms, max_ms=self.max_ms)


@dataclass(slots=True)
class ReadResult:
    """What one `read` gave."""

    values: list[Any]
    position: Any  # Where to go on.
    timestamps: list[int] | None = None  # Event times that the source itself knows, or None.
    finished: bool = False  # The split has no more records.
    # More could be read right now (the budget was the limit): there is a backlog.
    has_more: bool = False
    # A watermark that the source itself knows, valid behind these records, or None.
    watermark: int | None = None
    # Further watermarks of the source inside the values: pairs (number of values before it,
    # watermark), in order.
    punctuated: list[tuple[int, int]] = field(default_factory=list)
    # The records as columns; `values` is then empty. Only from sources that `with_columns`
    # returned.
    columns: ColumnBatch | None = None
    # Records that could not be decoded, with timestamps, by the id of a side output's tag.
    rejected: dict[str, tuple[list[Any], list[int]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.values) if self.columns is None else len(self.columns)

    def extend(self, more: ReadResult) -> None:
        """Appends what the next read gave; for records, not for columns."""
        before = len(self.values)
        if self.timestamps is not None or more.timestamps is not None:
            unknown = itertools.repeat(NO_TIMESTAMP)
            self.timestamps = list(self.timestamps or itertools.islice(unknown, before))
            self.timestamps += more.timestamps or itertools.islice(unknown, len(more.values))
        if self.watermark is not None:
            self.punctuated.append((before, self.watermark))
        self.punctuated += [(before + count, watermark) for count, watermark in more.punctuated]
        for tag, (values, timestamps) in more.rejected.items():
            known = self.rejected.setdefault(tag, ([], []))
            known[0].extend(values)
            known[1].extend(timestamps)
        self.values = [*self.values, *more.values]
        self.watermark, self.position = more.watermark, more.position
        self.finished, self.has_more = more.finished, more.has_more


class SourceReader(ABC):
    """Reads splits inside a worker. Kept open between epochs, as a cache only."""

    @abstractmethod
    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        """Reads from `position`; must not depend on what was read before."""

    def register_metrics(self, metrics: Any) -> None:
        """Adds what the reader measures to a `MetricGroup`; names are not the user's own."""

    def close(self) -> None:
        """Releases files and connections."""


READ_BYTES: Final = 32 << 20
"""About so many bytes at most are read at once, unless one record has more."""


class MeteredReader(SourceReader):
    """Reads through another reader and bounds the bytes of a read, whatever the source knows.

    A read is made of several of the other reader's at first, of one record, then of more, as many
    as fit if they are as large as those before.

    Args:
        reader: The other one.
        knows_bytes: It bounds bytes itself: files, of which columns are read.

    Attributes:
        bytes_read: About how many bytes all records had that were read so far.
    """

    def __init__(self, reader: SourceReader, *, knows_bytes: bool = False) -> None:
        self._reader = reader
        self._records = _UNBOUNDED if knows_bytes else 1
        self._record_bytes = 1.0
        self.bytes_read = 0

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        """Reads at most as much as the budget allows, but at least one record if there is one."""
        most = budget.reads * min(budget.max_bytes, READ_BYTES)
        left = budget = replace(budget, max_bytes=most)
        before = self.bytes_read
        result = self._part(split, position, left)
        for _ in range(_MOST_PARTS):
            left = replace(
                budget,
                max_records=budget.max_records - result.count,
                max_bytes=most - (self.bytes_read - before),
            )
            if not result.has_more or result.finished or result.columns is not None:
                break
            if left.max_records <= 0 or left.max_bytes < self._record_bytes:
                break
            result.extend(self._part(split, result.position, left))
        return result

    def _part(self, split: Split, position: Any, left: Budget) -> ReadResult:
        fitting = max(1, int(left.max_bytes / self._record_bytes))
        records = min(left.max_records, self._records, fitting)
        result = self._reader.read(split, position, replace(left, max_records=records))
        count, columns = result.count, result.columns
        size = mean_bytes(result.values) * count if columns is None else columns.arrow.nbytes
        self.bytes_read += int(size)
        self._record_bytes = max(size / max(count, 1), self._record_bytes * 0.8, 1.0)
        self._records = min(self._records * 8, _UNBOUNDED)
        return result

    def emitted(self, records: int, size: int) -> None:
        """Takes in how many bytes so many records became: the next read is as much smaller."""
        if records:
            self._record_bytes = max(self._record_bytes, size / records)

    def close(self) -> None:
        self._reader.close()


_UNBOUNDED: Final = 1 << 40
_MOST_PARTS: Final = 16
"""A source may give nothing for a part of its offsets, and say that there is more."""


class Source(ABC):
    """A replayable source; picklable."""

    _default_name: ClassVar[str] = ""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether it ends."""

    @abstractmethod
    def discover(self, state: Any, now_ms: int) -> Discovery:
        """Looks for splits that are not yet known; runs in the driver.

        Args:
            state: `Discovery.state` of the last call, None at the very first.
            now_ms: Wall time, for sources that are polled.
        """

    @abstractmethod
    def create_reader(self) -> SourceReader:
        """Makes a reader; runs in the worker."""

    def checkpointed(self, positions: Mapping[str, Any], *, by_checkpoint: bool) -> None:
        """Takes positions that a restart will not go back behind; runs in the driver.

        Must not wait, nor raise: what it reports does not matter to the job.

        Args:
            positions: By split id, where they have moved.
            by_checkpoint: A checkpoint contains them; False without checkpointing.
        """

    def job_ended(self) -> None:
        """Releases what `discover` and `checkpointed` hold; runs in the driver."""

    def produced_type(self) -> TypeInformation | None:
        """Returns the type of the records, if the source declares one."""
        return None

    def with_parallelism(self, parallelism: int) -> Source:
        """Returns the source as it should be cut for that many subtasks.

        Called once, before the very first `discover`; after a restore the splits that were found
        then still stand, whatever the parallelism is now. Most sources do not care.
        """
        return self

    def with_settings(self, settings: Mapping[str, str]) -> Source:
        """Returns the source with the settings of the job; most sources do not care."""
        return self

    def with_columns(self, columns: tuple[ColumnName, ...]) -> Source:
        """Returns the same source, whose reads give these fields as Arrow columns where they can.

        Splits, positions and records stay the same. Where a read cannot give columns that say the
        same as the records, it gives records.

        Raises:
            NotColumnar: This source never has columns; the text says why.
        """
        raise NotColumnar(f"{type(self).__name__} has no columns")

    @property
    def has_micro_batches(self) -> bool:
        """Whether the splits of one `discover` are a micro-batch: in no order of event time.

        Watermarks then rise between micro-batches only, as Spark's do, and the driver asks for the
        next one when all splits of the one before have been read.
        """
        return False

    def searches_after_reading(self, state: Any) -> bool:
        """Whether `discover` is called with this state once all known splits have been read."""
        return self.has_micro_batches

    @property
    def emits_watermarks(self) -> bool:
        """Whether `ReadResult` carries watermarks of the source's own."""
        return False

    def default_name(self) -> str:
        """Name of the operator unless the program gives one."""
        return self._default_name or type(self).__name__
