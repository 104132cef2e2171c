"""The job of the soak: events at a steady rate, counted, with timers, in windows, to files.

    soak_job.py <directory> <seconds> <rate> <users> <attempt>

What its output has to be follows from `user_of` and `time_of` alone.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Encoder, Time, Types, WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, PythonSource, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.job.start import set_launcher, start_job

JOB_ID = "50a4" + 28 * "0"
SPLITS = 2
GROUPS = 50
WINDOW_MS = 10_000
MINUTE_MS = 60_000
MINUTES = OutputTag("minutes", Types.STRING())


def user_of(number: int, users: int) -> int:
    """Spread like chance, and the same at each reading."""
    return (number * 2_654_435_761 >> 7) % users


class Events(PythonSource):
    """Number `n` is due `n / rate` seconds after the time in the file `began`."""

    bounded = True

    def __init__(self, directory: Path, seconds: int, rate: int, users: int) -> None:
        self.began = float((directory / "began").read_text())
        self.end = seconds * rate
        self.rate = rate
        self.users = users

    def splits(self) -> list[str]:
        return [str(number) for number in range(SPLITS)]

    def end_offset(self, split: str) -> int:
        return self.end // SPLITS

    def latest_offset(self, split: str) -> int:
        return min(int((time.time() - self.began) * self.rate), self.end) // SPLITS

    def read(self, split: str, start: int, end: int) -> list[tuple[int, int]]:
        return [
            (user_of(number, self.users), number * 1_000 // self.rate)
            for number in range(start * SPLITS + int(split), end * SPLITS, SPLITS)
        ]


class Counted(KeyedProcessFunction):
    """Says the count so far of each record's user, and by a timer how many each minute had."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.minutes = context.get_map_state(
            MapStateDescriptor("minutes", Types.LONG(), Types.LONG())
        )

    def process_element(self, value: tuple[int, int], context: Any) -> Any:
        user, time_ms = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        minute = time_ms // MINUTE_MS
        so_far = self.minutes.get(minute)
        if so_far is None:
            context.timer_service().register_event_time_timer((minute + 1) * MINUTE_MS)
        self.minutes.put(minute, (so_far or 0) + 1)
        yield user, count

    def on_timer(self, timestamp: int, context: Any) -> Any:
        minute = timestamp // MINUTE_MS - 1
        yield MINUTES, f"{context.get_current_key()}\t{minute}\t{self.minutes.get(minute)}"
        self.minutes.remove(minute)


class Epochs:
    """Notes when each epoch ended, how many records it read, and how long it took."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", buffering=1)

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        self.file.write(f"{time.time():.3f}\t{progress.numInputRows}\t{progress.batchDuration}\n")


def sink(directory: Path) -> Any:
    policy = RollingPolicy.default_rolling_policy(rollover_interval=30_000)
    encoder = Encoder.simple_string_encoder()
    return FileSink.for_row_format(str(directory), encoder).with_rolling_policy(policy).build()


def main(directory: Path, seconds: int, rate: int, users: int, attempt: int) -> None:
    set_launcher(functools.partial(start_job, job_id=JOB_ID, leader_epoch=attempt))
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "local[2]",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "1 s",
        "state.backend.type": "rocksdb",
        "io.tmp.dirs": str(directory / "tmp"),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
        Time.milliseconds(1_000)
    ).with_timestamp_assigner(lambda event, _: event[1])
    counted = (
        env.from_source(Events(directory, seconds, rate, users), watermarks, "events")
        .uid("events")
        .key_by(lambda event: event[0], key_type=Types.LONG())
        .process(Counted())
        .uid("counted")
    )
    lines = counted.map(lambda pair: f"{pair[0]}\t{pair[1]}", Types.STRING())
    lines.sink_to(sink(directory / "counts")).uid("counts")
    counted.get_side_output(MINUTES).sink_to(sink(directory / "minutes")).uid("minutes")
    (
        counted.map(lambda pair: (pair[0] % GROUPS, 1))
        .key_by(lambda pair: pair[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .reduce(
            lambda a, b: (a[0], a[1] + b[1]),
            lambda group, context, pairs: [
                f"{group}\t{context.window().start // WINDOW_MS}\t{pair[1]}" for pair in pairs
            ],
        )
        .uid("windows")
        .sink_to(sink(directory / "windows"))
        .uid("windows-out")
    )
    job = env.execute_async("soak")
    job.add_listener(Epochs(directory / "epochs.tsv"))
    job.get_job_execution_result().result()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(each) for each in sys.argv[2:]))
