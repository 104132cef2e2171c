"""A job for the tests that kill its process; run as a program, it knows nothing of the test.

    kill_job.py <directory> <records> <master> <backend> <start> [<more settings as JSON>]

`start` is empty, the path of a snapshot, or `own:<n>`: the n-th process of one job, which finds its
own latest checkpoint as under a job manager.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kill_oracle import checkpoints, is_paced, shapes
from kill_shapes import SHAPES

from penstock.checkpoint import executor, service
from penstock.checkpoint.coordination.instructions import Publish
from penstock.common import Configuration, Encoder, Time, WatermarkStrategy
from penstock.core.errors import PenstockError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, PythonSource, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.job.start import set_launcher, start_job
from penstock.runtime.sinks import SinkCommits
from penstock.state.timers import TimerTable

JOB_ID = "c0ffee" + 26 * "0"
KEYS = 50
EPOCH = 2_000
WINDOW_MS = 1_000


class Numbers(PythonSource):
    """0, 1, 2 …, in two splits; while the job is paced, one epoch's worth for each checkpoint."""

    bounded = True

    def __init__(self, end: int, directory: Path) -> None:
        self.end = end
        self.directory = directory

    def splits(self) -> list[str]:
        return ["0", "1"]

    def end_offset(self, split: str) -> int:
        return self.end // 2

    def latest_offset(self, split: str) -> int:
        done = 2 + max(checkpoints(self.directory), default=0)
        return min(done * EPOCH, self.end) // 2 if is_paced(self.directory) else self.end // 2

    def read(self, split: str, start: int, end: int) -> list[int]:
        return [2 * offset + int(split) for offset in range(start, end)]


class Numbered(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()},{count},{value}"


def sink(directory: Path, policy: RollingPolicy) -> Any:
    encoder = Encoder.simple_string_encoder()
    return FileSink.for_row_format(str(directory), encoder).with_rolling_policy(policy).build()


def commit_before_publish() -> None:
    execute = executor.execute

    def broken(instruction: Any, files: Any, sinks: Any, host: Any) -> Any:
        if isinstance(instruction, Publish):
            sinks.commit(instruction.retained[-1].epoch, instruction.checkpoint_id)
        return execute(instruction, files, sinks, host)

    service.execute = broken


def forget_owed_output() -> None:
    SinkCommits.restore = lambda *_: None  # type: ignore[method-assign]


def forget_restored_timers() -> None:
    TimerTable.apply = lambda *_, **__: None  # type: ignore[method-assign]


BREAKS = {
    each.__name__: each
    for each in (commit_before_publish, forget_owed_output, forget_restored_timers)
}
"""Deliberately broken builds, which the tests have to notice."""


def take_savepoints(job: Any, directory: Path) -> None:
    """One after the other, beside the checkpoints, until the job ends."""
    while True:
        try:
            job.trigger_savepoint(str(directory / "savepoints")).result()
        except PenstockError:
            if job.get_job_status().result().is_terminal_state():
                return
        time.sleep(0.05)


def main(
    directory: Path, end: int, master: str, backend: str, start_from: str, more: str = "{}"
) -> None:
    if start_from.startswith("own:"):
        number = int(start_from.removeprefix("own:"))
        set_launcher(functools.partial(start_job, job_id=JOB_ID, leader_epoch=number))
        start_from = ""
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": master,
        "penstock.epoch.max-records": str(EPOCH),
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.data-inline-threshold": "1 kb",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "state.backend.type": backend,
        "io.tmp.dirs": str(directory / "tmp"),
        "execution.state-recovery.path": start_from,
        **json.loads(more),
    }.items():
        if value:
            configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.add_source(Numbers(end, directory)).uid("numbers")
    keyed = numbers.key_by(lambda value: value % KEYS)
    keyed.process(Numbered()).uid("numbered").sink_to(
        # Every checkpoint makes its output visible: what is committed too early is seen.
        sink(directory / "numbered", RollingPolicy.on_checkpoint_rolling_policy())
    ).uid("out")
    timed = numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(
            Time.milliseconds(20_000)
        ).with_timestamp_assigner(lambda value, _: value)
    )
    timed.key_by(lambda value: value % 3).window(
        TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    ).reduce(lambda a, b: a + b).uid("sums").map(str).sink_to(
        # Here output of several checkpoints is joined.
        sink(directory / "sums", RollingPolicy.default_rolling_policy(rollover_interval=150))
    ).uid("sums-out")
    for shape in shapes(directory):
        SHAPES[shape](timed, env).uid(shape).map(str).sink_to(
            sink(directory / shape, RollingPolicy.on_checkpoint_rolling_policy())
        ).uid(f"{shape}-out")
    steered = os.environ.get("KILL_JOB_STEERED", "")
    if not steered:
        env.execute("kill me")
        return
    job = env.execute_async("kill me")
    if steered == "stopped":
        job.stop_with_savepoint(False, str(directory / "stopped")).result()
        job.get_job_execution_result().result()
        return
    threading.Thread(target=take_savepoints, args=(job, directory), daemon=True).start()
    job.get_job_execution_result().result()


if __name__ == "__main__":
    if broken := os.environ.get("KILL_JOB_BREAK"):
        BREAKS[broken]()
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:7])
