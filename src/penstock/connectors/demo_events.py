r"""Events of the demo job: lines `ts\tchannel\tid\tbehavior`, late and out of order.

A record is a function of its index and the seed. Small tables of channels, behaviours and delays
are drawn once from the seed; ids and times are arithmetic. A line costs well below a microsecond,
so that a benchmark measures the job and not its input.

Event times lag the clock by `lag_ms` and are out of order by up to `disorder_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from random import Random  # noqa: TID251 - only an instance with the user's seed
from typing import Any, Final

from penstock.connectors.generator import (
    BLOCK,
    GeneratedSource,
    check_rate,
    index_ranges,
    plan_read,
)
from penstock.connectors.source import Budget, ReadResult, SourceReader, Split
from penstock.core.errors import ProgramError

CHANNELS: Final = ("app", "web", "mini", "ads", "mail", "store", "partner", "sms")
BEHAVIORS: Final = ("view", "click", "cart", "order", "pay", "refund")
_WEIGHTS: Final = (55, 25, 10, 5, 4, 1)
_STEP: Final = 2_654_435_761
"""Knuth's multiplier; made coprime to the ids, so that all come before one comes again."""


class DemoEvents:
    """Makes the lines; the same arguments always give the same lines.

    Args:
        seed: Chooses channels, behaviours, delays and ids.
        events_per_second: How many events one second of event time holds.
        lag_ms: How far event time lags behind.
        disorder_ms: Further delay of a single event, drawn evenly from 0 to this.
        ids: Number of distinct ids.
        start_ms: Time of event 0 before its delay.
    """

    def __init__(  # noqa: PLR0913 - one argument per property of the data
        self,
        *,
        seed: int = 0,
        events_per_second: float = 10_000,
        lag_ms: int = 120_000,
        disorder_ms: int = 50_000,
        ids: int = 1_000_000,
        start_ms: int = 1_700_000_000_000,
    ) -> None:
        if ids < 1 or disorder_ms < 0:
            raise ProgramError(f"ids is {ids}, disorder_ms {disorder_ms}; at least 1 and 0.")
        check_rate(events_per_second)
        random = Random(seed)
        self._nanos = max(1, round(1_000_000_000 / events_per_second))
        self._ids = ids
        self._shift = random.randrange(ids)
        self._step = _STEP % ids or 1
        while gcd(self._step, ids) != 1:
            self._step += 1
        self._lag_ms = lag_ms
        self._start_ms = start_ms
        self._delays = [random.randint(0, disorder_ms) for _ in range(BLOCK)]
        self._heads = [f"\t{name}\t" for name in random.choices(CHANNELS, k=BLOCK)]
        self._tails = [f"\t{name}" for name in random.choices(BEHAVIORS, _WEIGHTS, k=BLOCK)]
        self._based: tuple[int, list[int]] = (start_ms, self._times_of_event_0(start_ms))

    def lines(
        self, low: int, high: int, start_ms: int | None = None, turns: tuple[int, int] | None = None
    ) -> list[str]:
        """Returns lines `low` to `high - 1`, which must lie in one block of 1024.

        Args:
            low: Index of the first line.
            high: Index behind the last line.
            start_ms: Replaces the time of event 0.
            turns: Turn in the schedule of the first line, and turns from line to line, where these
                are not the index and 1.
        """
        first, last = low % BLOCK, (high - 1) % BLOCK + 1
        if start_ms is None:
            start_ms = self._start_ms
        if self._based[0] != start_ms:
            self._based = (start_ms, self._times_of_event_0(start_ms))
        times, heads, tails = self._based[1], self._heads, self._tails
        # Neighbouring blocks use the tables from other places, or lines would rhyme.
        turn = (low // BLOCK * 389) % BLOCK
        if turn:
            heads, tails = heads[turn:] + heads[:turn], tails[-turn:] + tails[:-turn]
        if last - first < BLOCK:
            times, heads, tails = times[first:last], heads[first:last], tails[first:last]
        count, ids, step = high - low, self._ids, self._step
        begin, stride = (low, 1) if turns is None else turns
        begin, stride = begin * self._nanos, stride * self._nanos
        number = low * step + self._shift
        return [
            f"{time + nanos // 1_000_000}{head}{number % ids}{tail}"
            for time, nanos, head, number, tail in zip(
                times,
                range(begin, begin + count * stride, stride),
                heads,
                range(number, number + count * step, step),
                tails,
                strict=True,
            )
        ]

    def _times_of_event_0(self, start_ms: int) -> list[int]:
        """Returns what event 0 would have for a time, with each of the delays."""
        return [start_ms - self._lag_ms - delay for delay in self._delays]

    def blocks(self, count: int) -> Iterator[list[str]]:
        """Yields all of `count` lines, block by block."""
        for low in range(0, count, BLOCK):
            yield self.lines(low, min(low + BLOCK, count))


class DemoEventSource(GeneratedSource):
    """The demo's events as a source.

    Args:
        count: How many lines; None = without end.
        rate_per_second: Lines a second over all splits; None = as fast as possible. With a rate,
            event time follows the clock: it starts when the split is first read.
        num_splits: Splits, read side by side; None = as many as subtasks.
        settings: As for `DemoEvents`; with a rate, it is the speed of event time too.
    """

    _default_name = "Demo Events"

    def __init__(
        self,
        count: int | None = None,
        *,
        rate_per_second: float | None = None,
        num_splits: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(count, rate_per_second, num_splits)
        self._settings = settings
        if rate_per_second:
            self._settings = {**settings, "events_per_second": rate_per_second}
        DemoEvents(**self._settings)  # Wrong arguments fail here, in the program.

    def create_reader(self) -> SourceReader:
        return _DemoReader(DemoEvents(**self._settings), self._count, self._rate)


class _DemoReader(SourceReader):
    def __init__(self, events: DemoEvents, count: int | None, rate: float | None) -> None:
        self._events = events
        self._count = count
        self._rate = rate

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        reading = plan_read(split, position, budget, count=self._count, rate=self._rate)
        number, splits = split.data
        values: list[Any] = []
        record = reading.first
        for low, high in index_ranges(split, reading.first, reading.end):
            if self._rate is None:
                values += self._events.lines(low, high)
            else:
                # Due times follow the split's own count, so event times must do so as well.
                turns = (record * splits + number, splits)
                values += self._events.lines(low, high, reading.started_ms, turns)
            record += high - low
        return reading.result(values)
