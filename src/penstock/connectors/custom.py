"""The base of a user's own source: say which splits exist and read a range of offsets.

    class Ticks(PythonSource):
        bounded = True

        def splits(self):
            return ["even", "odd"]

        def end_offset(self, split):
            return 1000

        def read(self, split, start, end):
            for number in range(start, end):
                yield Timestamped(number, number * 1000)

A source is replayable when the records between two offsets are always the same. That is the whole
contract; how far one read goes may differ from run to run.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Generator, Iterable
from typing import Any, ClassVar, Final

from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.copies import IMMUTABLE, never_copy, snapshot
from penstock.core.errors import ProgramError
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP

_log = logging.getLogger("penstock.operators")


class Timestamped:
    """A record with the event time that the source knows for it.

    Attributes:
        value: The record.
        timestamp: Event time in milliseconds.
    """

    __slots__ = ("timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp

    def __repr__(self) -> str:
        return f"Timestamped({self.value!r}, {self.timestamp!r})"


class Watermark:
    """Yielded between records: no later record has this event time or an earlier one.

    Attributes:
        timestamp: Event time in milliseconds.
    """

    __slots__ = ("timestamp",)

    def __init__(self, timestamp: int) -> None:
        if not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
            raise ProgramError(f"watermark {timestamp} is outside the int64 range.")
        self.timestamp = timestamp

    def __repr__(self) -> str:
        return f"Watermark({self.timestamp!r})"


never_copy(Watermark)
_MARKERS: Final = frozenset((Timestamped, Watermark))


class PythonSource(Source):
    """Base of sources written in Python; instances are pickled and sent to the workers.

    `splits`, `start_offset` run in the driver; `open`, `latest_offset`, `end_offset`, `read` and
    `close` run in the workers, in parallel for different splits. What `open` creates, such as a
    connection, is never pickled.

    Attributes:
        bounded: Whether every split ends, at `end_offset`.
        emits_own_watermarks: Whether `read` yields `Watermark`; then a watermark strategy of the
            program is not needed.
        offsets_per_record: Roughly how far a record advances the offset; 1 for row numbers, the
            mean length for byte offsets. Only the size of reads depends on it.
    """

    bounded: ClassVar[bool] = False
    emits_own_watermarks: ClassVar[bool] = False
    offsets_per_record: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "run" in vars(cls) and cls.read is PythonSource.read:
            raise ProgramError(
                f"class {cls.__name__}: a source has splits() and read(split, start, end), which "
                "can read the same records again after a failure; run(ctx), as Java's sources have "
                "it, cannot."
            )

    @abstractmethod
    def splits(self) -> Iterable[str]:
        """Returns the names of all splits; later calls may return more, never fewer."""

    @abstractmethod
    def read(self, split: str, start: int, end: int) -> Iterable[Any]:
        """Yields the records with `start <= offset < end`: values, `Timestamped`, `Watermark`.

        The next read begins at `end`, unless this is a generator that returns another offset:
        `return offset` says how far it got. A list of values may be returned as well and is faster.
        """

    def start_offset(self, split: str) -> int:
        """Returns where a split begins when it is seen for the first time."""
        return 0

    def end_offset(self, split: str) -> int | None:
        """Returns where a split ends; needed when `bounded` is true."""
        return None

    def latest_offset(self, split: str) -> int | None:
        """Returns how far the split can be read now, or None when `read` finds out itself."""
        return None

    def open(self) -> None:
        """Opens connections, in the worker."""

    def close(self) -> None:
        """Closes connections, in the worker."""

    # -- the contract of sources, in terms of the above -------------------------------------------

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def emits_watermarks(self) -> bool:
        return self.emits_own_watermarks

    def discover(self, state: Any, now_ms: int) -> Discovery:
        known = state or {}
        found = dict.fromkeys(self.splits())
        for name in found:
            if not isinstance(name, str):
                raise ProgramError(
                    f"{type(self).__name__}.splits() returned {name!r}; split names are strings."
                )
        new = {name: self.start_offset(name) for name in found if name not in known}
        splits = tuple(
            Split(name, name, start=start, concurrent=not self.bounded)
            for name, start in new.items()
        )
        return Discovery(splits, {**known, **new} if new else known, complete=self.bounded)

    def create_reader(self) -> SourceReader:
        return _PythonReader(self)


class _PythonReader(SourceReader):
    def __init__(self, source: PythonSource) -> None:
        self._source = source
        self._is_open = False
        self._behind: set[str] = set()  # Splits that end before the position of the job.

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        source, name = self._source, split.data
        if not self._is_open:
            source.open()
            self._is_open = True
        final = source.end_offset(name)
        if final is None and source.bounded:
            raise ProgramError(
                f"{type(source).__name__} is bounded, but end_offset({name!r}) returned None. "
                "Return the offset behind the last record, or set bounded = False."
            )
        limit = source.latest_offset(name)
        if limit is not None and limit < position and name not in self._behind:
            self._behind.add(name)
            _log.warning(
                "%s.latest_offset(%r) is %s, but the job has read up to %s: it reads nothing "
                "until the offset is higher. If the input was replaced, start the job without its "
                "snapshot.",
                *(type(source).__name__, name, limit, position),
            )
        if limit is None or (final is not None and final < limit):
            limit = final
        end = position + budget.max_records * max(1, source.offsets_per_record)
        if limit is not None:
            end = min(end, limit)
        if end <= position:
            return ReadResult([], position, finished=final is not None and position >= final)
        items, reached = _collect(source.read(name, position, end))
        reached = self._checked(name, position, end, reached, bool(items))
        result = ReadResult(
            items,
            reached,
            finished=final is not None and reached >= final,
            has_more=reached > position and (limit is None or reached < limit),
        )
        if not _MARKERS.isdisjoint(map(type, items)):
            self._separate(items, result)
        return result

    def _checked(self, name: str, start: int, end: int, reached: Any, has_items: bool) -> int:
        if reached is None:
            return end
        if not isinstance(reached, int) or not start <= reached:
            raise ProgramError(
                f"{type(self._source).__name__}.read({name!r}, {start}, {end}) returned the offset "
                f"{reached!r}; it must be a whole number, at least {start}."
            )
        if reached == start and has_items:
            raise ProgramError(
                f"{type(self._source).__name__}.read({name!r}, {start}, {end}) gave records but "
                f"returned offset {start} again, so they would be read without end."
            )
        return reached

    def _separate(self, items: list[Any], result: ReadResult) -> None:
        """Takes event times and watermarks out of the items."""
        if set(map(type, items)) == {Timestamped}:
            result.values = [item.value for item in items]
            result.timestamps = [item.timestamp for item in items]
            return
        values: list[Any] = []
        timestamps: list[int] = []
        for item in items:
            if type(item) is Timestamped:
                values.append(item.value)
                timestamps.append(item.timestamp)
            elif type(item) is Watermark:
                result.punctuated.append((len(values), item.timestamp))
            else:
                values.append(item)
                timestamps.append(NO_TIMESTAMP)
        if result.punctuated and not self._source.emits_own_watermarks:
            name = type(self._source).__name__
            raise ProgramError(
                f"{name}.read yielded a Watermark; set emits_own_watermarks = True in {name}."
            )
        result.values = values
        if any(timestamp != NO_TIMESTAMP for timestamp in timestamps):
            result.timestamps = timestamps

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._source.close()


def _collect(found: Iterable[Any]) -> tuple[list[Any], Any]:
    """Returns the items and what the generator returned."""
    if not isinstance(found, Generator):
        return [item if type(item) in IMMUTABLE else _kept(item) for item in found], None
    returned: list[Any] = []

    def relay() -> Generator[Any, None, None]:
        returned.append((yield from found))

    items = [item if type(item) in IMMUTABLE else _kept(item) for item in relay()]
    return items, returned[0]


def _kept(item: Any) -> Any:
    """Returns an item as it is now; a source may go on filling the same object."""
    if type(item) is Timestamped:
        return Timestamped(snapshot(item.value), item.timestamp)
    return snapshot(item)
