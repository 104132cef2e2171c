"""A job whose input, output and checkpoints are elsewhere; run as a program, to be killed.

remote_job.py <url> <parallelism> <snapshot to start from> <settings as JSON>
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, FileSource, RollingPolicy, StreamFormat
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 7
EPOCH = 100


class Count(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()},{count},{value}"


def main(url: str, parallelism: int, start_from: str, settings: dict[str, str]) -> None:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "penstock.epoch.max-records": str(EPOCH),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": f"{url}/checkpoints",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.state-recovery.path": start_from,
        **settings,
    }.items():
        if value:
            configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{url}/in")
    policy = RollingPolicy.default_rolling_policy(rollover_interval=300)
    encoder = Encoder.simple_string_encoder()
    sink = FileSink.for_row_format(f"{url}/out", encoder).with_rolling_policy(policy).build()
    (
        env.from_source(lines.build(), WatermarkStrategy.no_watermarks(), "lines")
        .uid("lines")
        .map(int)
        .key_by(lambda value: value % KEYS)
        .process(Count())
        .uid("count")
        .sink_to(sink)
        .uid("out")
    )
    env.execute("remote")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
