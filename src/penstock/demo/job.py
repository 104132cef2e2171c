r"""Counts events per minute, channel and behaviour; the job that `penstock demo` runs.

Lines `ts\tchannel\tid\tbehavior` come from a source that is two minutes behind and out of order by
up to 50 seconds. Watermarks stay 50 seconds behind the newest event, so nothing is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Duration, Time
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.demo_events import DemoEventSource
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.datastream import DataStream, StreamExecutionEnvironment

Event = tuple[int, str, str]


def parse(line: str) -> Event:
    """Splits a line; the id is not needed."""
    ts, channel, _, behavior = line.split("\t")
    return int(ts), channel, behavior


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


def build(env: StreamExecutionEnvironment, count: int, seed: int = 0) -> DataStream:
    """Appends the job to an environment and returns the stream of counts."""
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(50)
    ).with_timestamp_assigner(EventTime())
    return (
        env.from_source(
            DemoEventSource(count, seed=seed), WatermarkStrategy.no_watermarks(), "events"
        )
        .map(parse, Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]))
        .name("parse")
        .assign_timestamps_and_watermarks(watermarks)
        .key_by(lambda event: (event[1], event[2]))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents(), Types.STRING())
        .name("count per minute")
        .uid("counts")
    )
