r"""Events per minute, channel and behaviour, from a source that is two minutes behind.

Lines are `ts\tchannel\tid\tbehavior`, out of order by up to 50 seconds; watermarks stay 50 seconds
behind, so nothing is late. The expected counts are made by a loop over the lines.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors import PythonSource
from penstock.datastream.connectors.python import Timestamped, Watermark
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

from . import program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOW_MS = 1_700_000_000_000
LAG_MS = 120_000
DISORDER_MS = 50_000
MINUTE_MS = 60_000


def made_lines() -> list[str]:
    """One event each 1.5 seconds, for five minutes."""
    random = Random(3)
    return [
        f"{NOW_MS + n * 1_500 - LAG_MS - random.randint(0, DISORDER_MS)}\t"
        f"{random.choice(['app', 'web'])}\t{random.randrange(50)}\t{random.choice(['view', 'pay'])}"
        for n in range(200)
    ]


LINES = made_lines()


def counted() -> list[str]:
    """What the job must give."""
    counts: Counter[tuple[int, str, str]] = Counter()
    for line in LINES:
        ts, channel, _, behavior = line.split("\t")
        counts[int(ts) // MINUTE_MS * MINUTE_MS, channel, behavior] += 1
    return [
        f"{start}\t{start + MINUTE_MS}\t{channel}\t{behavior}\t{count}"
        for (start, channel, behavior), count in counts.items()
    ]


class LineSource(PythonSource):
    """The lines, without event time."""

    bounded = True

    def splits(self) -> list[str]:
        return ["lines"]

    def end_offset(self, split: str) -> int:
        return len(LINES)

    def read(self, split: str, start: int, end: int) -> Iterable[Any]:
        return LINES[start:end]


class TimedLineSource(LineSource):
    """The lines with event time and watermarks."""

    emits_own_watermarks = True

    def read(self, split: str, start: int, end: int) -> Iterator[Any]:
        for line in LINES[start:end]:
            yield Timestamped(line, time_of(line))
        newest = max(map(time_of, LINES[:end]))
        yield Watermark(newest - DISORDER_MS - 1)


def time_of(line: str) -> int:
    return int(line.split("\t", maxsplit=1)[0])


def parse(line: str) -> tuple[int, str, str]:
    ts, channel, _, behavior = line.split("\t")
    return int(ts), channel, behavior


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[0]


class LineTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return time_of(value)


class CountEvents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        window, count = context.window(), sum(1 for _ in elements)
        yield f"{window.start}\t{window.end}\t{key[0]}\t{key[1]}\t{count}"


FIFTY_SECONDS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))


def counts_of(events: Any) -> Any:
    """The second half of the job: windows in two subtasks, whatever came before."""
    return (
        events.key_by(lambda event: (event[1], event[2]))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents(), Types.STRING())
        .set_parallelism(2)
    )


@program(spark=True)
def timestamps_after_the_source(env):
    lines = env.from_source(LineSource(), WatermarkStrategy.no_watermarks(), "lines")
    events = (
        lines.set_parallelism(1)
        .map(parse, Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]))
        .set_parallelism(3)
        .assign_timestamps_and_watermarks(FIFTY_SECONDS.with_timestamp_assigner(EventTime()))
        .set_parallelism(3)
    )
    return counts_of(events), counted()


@program(spark=True)
def timestamps_at_the_source(env):
    strategy = FIFTY_SECONDS.with_timestamp_assigner(LineTime())
    lines = env.from_source(LineSource(), strategy, "lines").set_parallelism(1)
    return counts_of(lines.map(parse).set_parallelism(3)), counted()


@program()
def timestamps_in_the_source(env):
    lines = env.from_source(TimedLineSource(), WatermarkStrategy.no_watermarks(), "lines")
    return counts_of(lines.set_parallelism(1).map(parse).set_parallelism(3)), counted()
