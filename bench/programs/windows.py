"""Counts per one-minute window, channel and behaviour, with Python row functions.

PyFlink runs this file as it stands; Penstock runs it with `pyflink` replaced by `penstock` in the
imports, and nothing else.

    python windows.py INPUT OUTPUT [KEY=VALUE ...]
"""

import sys

from pyflink.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    StreamFormat,
)
from pyflink.datastream.window import TumblingEventTimeWindows


def parse(line):
    ts, channel, _, behavior = line.split("\t")
    return int(ts), channel, behavior


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class CountEvents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        count = sum(1 for _ in elements)
        yield f"{window.start}\t{window.end}\t{key[0]}\t{key[1]}\t{count}"


def main(source, target, *settings):
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    # Each file spans the whole time, so it is read as one split, in order.
    lines = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), source)
        .set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
        .build()
    )
    counts = FileSink.for_row_format(target, Encoder.simple_string_encoder()).build()
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(50)
    ).with_timestamp_assigner(EventTime())

    (
        env.from_source(lines, WatermarkStrategy.no_watermarks(), "events")
        .map(parse, Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]))
        .assign_timestamps_and_watermarks(watermarks)
        .key_by(
            lambda event: (event[1], event[2]),
            key_type=Types.TUPLE([Types.STRING(), Types.STRING()]),
        )
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents(), Types.STRING())
        .sink_to(counts)
    )
    env.execute("windows")


if __name__ == "__main__":
    main(*sys.argv[1:])
