r"""Counts events per minute, channel and behaviour; the job that `penstock demo` runs.

Lines `ts\tchannel\tid\tbehavior` come from a source that is two minutes behind and out of order by
up to 50 seconds. Watermarks stay 50 seconds behind the newest event, so nothing is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Duration, Time
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.demo_events import DemoEventSource
from penstock.datastream.functions import MapFunction, ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from penstock.datastream import DataStream, RuntimeContext, StreamExecutionEnvironment

Event = tuple[int, str, str]


def parse(line: str) -> Event:
    """Splits a line; the id is not needed."""
    ts, channel, _, behavior = line.split("\t")
    return int(ts), channel, behavior


class ParseAndFailOnce(MapFunction):
    """Parses lines, and breaks in the middle of the first attempt: the failure that the demo shows.

    Args:
        after: Records that the first subtask parses before that.
    """

    def __init__(self, after: int) -> None:
        self._after = after

    def open(self, runtime_context: RuntimeContext) -> None:
        is_first = runtime_context.get_attempt_number() == 0
        self._breaks = is_first and runtime_context.get_index_of_this_subtask() == 0
        self._seen = 0

    def map(self, value: str) -> Event:
        if self._breaks:
            self._seen += 1
            if self._seen > self._after:
                raise RuntimeError("the demo breaks here once, on purpose")
        return parse(value)


class EventTime(TimestampAssigner):
    """The first field of an event."""

    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value[0]


class CountEvents(ProcessWindowFunction):
    """Emits `start, end, channel, behavior, count`, tab-separated."""

    def process(
        self, key: tuple[str, str], context: Any, elements: Iterable[Event]
    ) -> Iterator[str]:
        window, count = context.window(), sum(1 for _ in elements)
        yield f"{window.start}\t{window.end}\t{key[0]}\t{key[1]}\t{count}"


def build(
    env: StreamExecutionEnvironment, count: int, seed: int = 0, fail_after: int | None = None
) -> DataStream:
    """Appends the job to an environment and returns the stream of counts.

    Args:
        env: Where to.
        count: How many events.
        seed: Chooses them.
        fail_after: Records of the first subtask after which the first attempt fails, or None.
    """
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(50)
    ).with_timestamp_assigner(EventTime())
    return (
        env.from_source(
            DemoEventSource(count, seed=seed), WatermarkStrategy.no_watermarks(), "events"
        )
        .map(
            parse if fail_after is None else ParseAndFailOnce(fail_after),
            Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]),
        )
        .name("parse")
        .assign_timestamps_and_watermarks(watermarks)
        .key_by(lambda event: (event[1], event[2]))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents(), Types.STRING())
        .name("count per minute")
        .uid("counts")
    )
