r"""Counts events per minute, channel and behaviour, from a source that is late and out of order.

Lines are `ts\tchannel\tid\tbehavior`; watermarks stay 50 seconds behind the newest event.
"""

from collections.abc import Iterable, Iterator

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.python import DemoEventSource
from penstock.datastream.window import TumblingEventTimeWindows

Event = tuple[int, str, str]


def parse(line: str) -> Event:
    ts, channel, _, behavior = line.split("\t")
    return int(ts), channel, behavior


class CountEvents(ProcessWindowFunction):
    """Sees each record of a window."""

    def process(
        self,
        key: tuple[str, str],
        context: ProcessWindowFunction.Context,
        elements: Iterable[Event],
    ) -> Iterator[str]:
        window, count = context.window(), sum(1 for _ in elements)
        yield f"{window.start}\t{window.end}\t{key[0]}\t{key[1]}\t{count}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    late_by_50_s = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(50)
    ).with_timestamp_assigner(lambda event, _: event[0])
    (
        env.from_source(DemoEventSource(20_000), WatermarkStrategy.no_watermarks(), "events")
        .map(parse)
        .assign_timestamps_and_watermarks(late_by_50_s)
        .key_by(lambda event: (event[1], event[2]))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents())
        .set_parallelism(1)
        .print()
    )
    env.execute("events per minute")


if __name__ == "__main__":
    main()
