"""The job of `bench.placement`: a count per user, whose epochs are measured from their listener.

python placement.py DIRECTORY ARGUMENTS-AS-JSON
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.job.start import set_launcher, start_job

WARM_UP_EPOCHS = 5


class Users(PythonSource):
    """User n of some keys at offset n, in splits that share the keys."""

    def __init__(self, keys: int, width: int, end: int | None) -> None:
        self.keys = keys
        self.width = width
        self.end = end
        self.bounded = end is not None

    def splits(self) -> list[str]:
        return [str(number) for number in range(self.width)]

    def end_offset(self, split: str) -> int:
        return (self.end or sys.maxsize) // self.width

    def latest_offset(self, split: str) -> int:
        return self.end_offset(split)

    def read(self, split: str, start: int, end: int) -> list[int]:
        first, step, keys = int(split), self.width, self.keys
        return [(first + step * offset) % keys for offset in range(start, end)]


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return ()


class Epochs:
    """Measures epochs in the driver's thread."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float, float, int, int]] = []
        self.jvm = 0

    def __call__(self, summary: Any) -> None:
        self.marks.append(
            (
                time.monotonic(),
                time.thread_time(),
                self._jvm_s(),
                summary.records_read,
                summary.duration_ms,
            )
        )

    def _jvm_s(self) -> float:
        if not self.jvm:
            from pyspark import SparkContext

            self.jvm = SparkContext._gateway.proc.pid
        fields = Path(f"/proc/{self.jvm}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def figures(self, tasks: int) -> dict[str, Any]:
        first, *rest = self.marks[WARM_UP_EPOCHS:] or self.marks[-1:]
        if not rest:
            return {"first_epoch_ms": self.marks[0][4]}
        last, count = rest[-1], len(rest) * tasks
        return {
            "rate": sum(mark[3] for mark in rest) / (last[0] - first[0]),
            "python_ms": (last[1] - first[1]) * 1000 / count,
            "jvm_ms": (last[2] - first[2]) * 1000 / count,
            "epoch_ms": statistics.median(mark[4] for mark in rest),
            "epochs": len(rest),
            "first_epoch_ms": self.marks[0][4],
        }


def wait_for(epochs: Epochs, count: int, job: Any) -> None:
    """Waits for epochs; raises what the job failed with."""
    result = job.get_job_execution_result()
    while len(epochs.marks) < count:
        if result.done():
            result.result()
        time.sleep(0.05)


def main(directory: str, arguments: str) -> None:
    wanted = json.loads(arguments)
    width = wanted.get("width", 2)
    epochs = Epochs()
    set_launcher(lambda graph, settings, _: start_job(graph, settings, epochs))
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": wanted["master"],
        "penstock.state.local.shared": "true" if wanted["master"].startswith("local[") else "false",
        "penstock.spark.conf.spark.executor.memory": "700m",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{directory}/savepoints",
        "execution.checkpointing.incremental": "true",
        "execution.state-recovery.path": wanted.get("restore", ""),
    }.items():
        if value:
            configuration.set_string(key, value)
    if width > 2:
        configuration.set_string("penstock.epoch.max-records", "20000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(width)
    users = env.add_source(Users(wanted["keys"], width, None)).uid("users")
    counts = users.key_by(lambda user: user, key_type=Types.LONG()).process(Count()).uid("count")
    counts.print().uid("out")
    job = env.execute_async("placement")
    if wanted.get("fill"):
        while sum(mark[3] for mark in epochs.marks) < wanted["keys"]:
            wait_for(epochs, len(epochs.marks) + 1, job)
        place = job.stop_with_savepoint(False).result()
        print(json.dumps({"snapshot": place, **epochs.figures(2 * width)}))
        return
    wait_for(epochs, 1 if wanted.get("restore") else WARM_UP_EPOCHS + 1, job)
    time.sleep(wanted["seconds"])
    job.cancel().result()
    print(json.dumps(epochs.figures(2 * width)))


if __name__ == "__main__":
    main(*sys.argv[1:])
