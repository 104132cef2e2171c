"""A job for the test on YARN: yarn_job.py <URL> <records> <gate> <key>=<value> …

It numbers the records of each key. Until the file `gate` exists it reads on for a checkpoint at a
time only.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Encoder
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor

KEYS = 100
EPOCH = 200


class Numbers(PythonSource):
    """0, 1, 2 …"""

    bounded = True

    def __init__(self, end: int, gate: str) -> None:
        self.end = end
        self.gate = gate
        self.asked = 0

    def splits(self) -> list[str]:
        return ["all"]

    def end_offset(self, split: str) -> int:
        return self.end

    def latest_offset(self, split: str) -> int:
        self.asked += 1
        return self.end if Path(self.gate).exists() else min(self.asked * EPOCH, self.end - EPOCH)

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


class Numbered(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()},{count},{value}"


def main(url: str, end: str, gate: str, *more: str) -> None:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "yarn",
        "penstock.epoch.max-records": str(EPOCH),
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": f"{url}/checkpoints",
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.incremental": "true",
        "state.backend.type": "rocksdb",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "0 s",
        **dict(each.split("=", 1) for each in more),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.add_source(Numbers(int(end), gate)).uid("numbers")
    counted = numbers.key_by(lambda value: value % KEYS).process(Numbered()).uid("numbered")
    files = (
        FileSink.for_row_format(f"{url}/out", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    counted.sink_to(files).uid("out")
    env.execute("on yarn")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    main(*sys.argv[1:])
