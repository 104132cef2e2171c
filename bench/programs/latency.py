r"""10,000 events a second through two stages with state: when was each of them done?

    python latency.py OUTPUT SECONDS [KEY=VALUE ...]

Penstock only. An output line is `index \t epoch \t seen`: the processing time of the epoch, which
is stamped when it begins, and the wall time at which the second stage had the event.
"""

import sys
import time

from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.python import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

RATE = 10_000
USERS = 10_000


class CountPerUser(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        epoch_ms = ctx.timer_service().current_processing_time()
        yield f"{value}\t{epoch_ms}\t{time.time_ns() // 1_000_000}"


def main(target, seconds, *settings):
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    # One split, so that event n is due n / RATE seconds after the first.
    events = DataGeneratorSource(
        lambda index: index, RATE * int(seconds), rate_per_second=RATE, num_splits=1
    )
    (
        env.from_source(events, WatermarkStrategy.no_watermarks(), "events")
        .key_by(lambda event: event % USERS, key_type=Types.LONG())
        .process(CountPerUser(), Types.STRING())
        .sink_to(FileSink.for_row_format(target, Encoder.simple_string_encoder()).build())
    )
    env.execute("latency")


if __name__ == "__main__":
    main(*sys.argv[1:])
