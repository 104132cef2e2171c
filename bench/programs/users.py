"""A running count per user in ValueState, with Python row functions.

PyFlink runs this file as it stands; Penstock runs it with `pyflink` replaced by `penstock` in the
imports, and nothing else.

    python users.py INPUT OUTPUT [KEY=VALUE ...]
"""

import sys

from pyflink.common import Configuration, Encoder, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.state import ValueStateDescriptor


class CountPerUser(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}\t{count}"


def main(source, target, *settings):
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source).build()
    counts = FileSink.for_row_format(target, Encoder.simple_string_encoder()).build()

    (
        env.from_source(lines, WatermarkStrategy.no_watermarks(), "events")
        .map(lambda line: int(line.split("\t")[2]), Types.LONG())
        .key_by(lambda user: user, key_type=Types.LONG())
        .process(CountPerUser(), Types.STRING())
        .sink_to(counts)
    )
    env.execute("users")


if __name__ == "__main__":
    main(*sys.argv[1:])
