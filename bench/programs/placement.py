"""The job of `bench.placement`: a count per user, whose epochs are measured from their listener.

python placement.py DIRECTORY ARGUMENTS-AS-JSON
"""

from __future__ import annotations

import json
import os
import shutil
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
COPIES = 4


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
    """Counts for each user; the first time it also keeps some bytes that no one can compress."""

    def __init__(self, kept_bytes: int) -> None:
        self.kept_bytes = kept_bytes

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.kept = runtime_context.get_state(
            ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: int, ctx: Any) -> Any:
        count = self.count.value() or 0
        if not count and self.kept_bytes:
            self.kept.update(os.urandom(self.kept_bytes))
        self.count.update(count + 1)
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

    def rate(self, since_s: float, until_s: float) -> float:
        """Returns records per second of the epochs that ended in some time."""
        first, *rest = [mark for mark in self.marks if since_s <= mark[0] <= until_s]
        return sum(mark[3] for mark in rest) / (rest[-1][0] - first[0])

    def memory_mb(self) -> dict[str, float]:
        """Returns the resident memory of the driver: its Python and its JVM."""
        found = {}
        for name, pid in (("python", os.getpid()), ("jvm", self.jvm)):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[name] = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        return found

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


def copied(epochs: Epochs, job: Any, seconds: float, directory: Path) -> dict[str, Any]:
    """Measures epochs before, while and after all state is copied, the stop, and memory.

    First by a checkpoint, since all state is new, then by savepoints.
    """
    copies = []
    for number in range(COPIES):
        wait_for(epochs, len(epochs.marks) + WARM_UP_EPOCHS, job)
        began_s = time.monotonic()
        time.sleep(seconds)
        asked_s = time.monotonic()
        (job.trigger_savepoint(str(directory)) if number else job.trigger_checkpoint()).result()
        done_s = time.monotonic()
        wait_for(epochs, len(epochs.marks) + 1, job)
        ended_s = time.monotonic()
        time.sleep(seconds)
        quiet = (epochs.rate(began_s, asked_s) + epochs.rate(ended_s, time.monotonic())) / 2
        # Of epochs that overlap with it; the last one ended behind it.
        copies.append((done_s - asked_s, epochs.rate(asked_s, ended_s) / quiet))
        for savepoint in directory.glob("savepoint-*"):
            shutil.rmtree(savepoint)
    memory_mb = epochs.memory_mb()
    written = sum(each.stat().st_size for each in directory.rglob("*") if each.is_file())
    asked_s = time.monotonic()
    job.stop_with_savepoint(False).result()
    stop_s = time.monotonic() - asked_s
    return {"bytes": written, "copies": copies, "stop_s": stop_s, "memory_mb": memory_mb}


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
        # Copies are what is measured, and on one file system nothing is copied.
        **(
            {
                "execution.checkpointing.dir": wanted["copies"],
                "execution.checkpointing.savepoint-dir": wanted["copies"],
            }
            if "copies" in wanted
            else {}
        ),
    }.items():
        if value:
            configuration.set_string(key, value)
    if width > 2:
        configuration.set_string("penstock.epoch.max-records", "20000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(width)
    users = env.add_source(Users(wanted["keys"], width, None)).uid("users")
    count = Count(wanted.get("kept_bytes", 0))
    counts = users.key_by(lambda user: user, key_type=Types.LONG()).process(count).uid("count")
    counts.print().uid("out")
    job = env.execute_async("placement")
    if wanted.get("fill") or "copies" in wanted:
        while sum(mark[3] for mark in epochs.marks) < wanted["keys"]:
            wait_for(epochs, len(epochs.marks) + 1, job)
    if "copies" in wanted:
        print(json.dumps(copied(epochs, job, wanted["seconds"], Path(wanted["copies"]))))
        return
    if wanted.get("fill"):
        place = job.stop_with_savepoint(False).result()
        print(json.dumps({"snapshot": place, **epochs.figures(2 * width)}))
        return
    wait_for(epochs, 1 if wanted.get("restore") else WARM_UP_EPOCHS + 1, job)
    time.sleep(wanted["seconds"])
    job.cancel().result()
    print(json.dumps(epochs.figures(2 * width)))


if __name__ == "__main__":
    main(*sys.argv[1:])
