"""The counts of `windows.py` in terms of columns, so that no record is ever a Python object.

python windows_lowered.py INPUT OUTPUT [KEY=VALUE ...]
"""

import sys

from penstock.common import Configuration, Duration, Encoder, Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.aggregates import count, window_row
from penstock.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    StreamFormat,
)
from penstock.datastream.window import TumblingEventTimeWindows


def line(row):
    return f"{row.window_start}\t{row.window_end}\t{row.channel}\t{row.behavior}\t{row.value}"


def main(source, target, *settings):
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    table = StreamFormat.csv_format(
        delimiter="\t",
        header=False,
        columns=["ts", "channel", "id", "behavior"],
        types={"ts": int},
    )
    events = (
        FileSource.for_record_stream_format(table, source)
        .set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
        .build()
    )
    counts = FileSink.for_row_format(target, Encoder.simple_string_encoder()).build()
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(50)
    ).with_timestamp_column("ts")

    (
        env.from_source(events, watermarks, "events")
        .key_by("channel", "behavior")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .aggregate(count(), window_row("channel", "behavior"))
        .map(line)
        .sink_to(counts)
    )
    env.execute("windows")


if __name__ == "__main__":
    main(*sys.argv[1:])
