r"""A counter per user with a state of so many keys, steady changes, and frequent checkpoints.

    python checkpoints.py steady   FOLDER KEYS SECONDS [KEY=VALUE ...]
    python checkpoints.py restore  FOLDER KEYS SECONDS [KEY=VALUE ...]
    python checkpoints.py backlog  FOLDER KEYS SECONDS [KEY=VALUE ...]
    python checkpoints.py epochs   FOLDER KEYS SECONDS [KEY=VALUE ...]

Penstock only. Every user is counted once; after that, users drawn at random follow:

    steady    10,000 a second; checkpoints are noted. The last one is kept.
    restore   goes on from there, in another process, after two jobs that start without state.
    backlog   as many as the job takes; epochs are noted.
    epochs    5,000 a second, 1 kB of state a user; epochs and checkpoints are noted.

What was measured is printed as one line of JSON. Files of output hold `user \t count`.
"""

import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, PythonSource, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor

RATE = 10_000
EPOCHS_RATE = 5_000
USER_BYTES = 1_000
SPLITS = 2
WARM_UP_SECONDS = 5
NO_LIMIT = 1 << 40


class Users(PythonSource):
    """Every user once, then, once the file `gate` says when, users at random."""

    def __init__(self, keys, gate, rate):
        self.keys = keys
        self.gate = gate
        self.rate = rate
        self.opened_at = None

    def splits(self):
        return [str(number) for number in range(SPLITS)]

    def latest_offset(self, split):
        if self.opened_at is None:
            with contextlib.suppress(FileNotFoundError):
                self.opened_at = float(self.gate.read_text())
        due = 0 if self.opened_at is None else (time.time() - self.opened_at) * self.rate
        return (self.keys + min(int(due), NO_LIMIT)) // SPLITS

    def read(self, split, start, end):
        numbers = range(start * SPLITS + int(split), end * SPLITS, SPLITS)
        # An odd multiplier and a mixed shift: spread like chance, and the same at each reading.
        return [
            number if number < self.keys else (number * 2_654_435_761 >> 7) % self.keys
            for number in numbers
        ]


class CountPerUser(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count > 1:
            yield f"{value}\t{count}"


class CountInLargeState(CountPerUser):
    """The same, in state of some size that no compression makes smaller."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        count = (self.count.value() or (0,))[0] + 1
        self.count.update((count, os.urandom(USER_BYTES)))
        if count > 1:
            yield f"{value}\t{count}"


class Epochs:
    """Listens: when each epoch ended, how many records it read, and how long it took."""

    def __init__(self):
        self.ended = []

    def onQueryProgress(self, event):
        progress = event.progress
        self.ended.append((time.monotonic(), progress.numInputRows, progress.batchDuration))


def execute(folder, keys, gate, settings, *, work=(RATE, CountPerUser), **more):
    rate, function = work
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "io.tmp.dirs": str(folder / "tmp"),
        **dict(setting.split("=", 1) for setting in settings),
        **more,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    sink = (
        FileSink.for_row_format(str(folder / "output"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    (
        env.from_source(Users(keys, gate, rate), WatermarkStrategy.no_watermarks(), "users")
        .uid("users")
        .key_by(lambda user: user, key_type=Types.LONG())
        .process(function(), Types.STRING())
        .uid("counts")
        .sink_to(sink)
        .uid("output")
    )
    return env.execute_async("checkpoints")


def wait_until(job, condition):
    while not condition():
        if job.get_job_status().result().is_terminal_state():
            job.get_job_execution_result().result()
            raise SystemExit("the job ended")
        time.sleep(0.005)


def counted(job):
    return job.metrics()["counts"].records_in


def stop(job):
    job.cancel()
    with contextlib.suppress(Exception):
        job.get_job_execution_result().result()


def noted(record):
    """The phases of one checkpoint, by the slowest of its subtasks."""
    rows = [row for task in record.figures.tasks for row in task.subtasks]
    acknowledged = record.latest_ack_ms - record.triggered_ms
    return {
        "whole_ms": record.duration_ms,
        "delay_ms": max(row.start_delay_ms for row in rows),
        "flush_ms": max(row.sync_ms for row in rows),
        "upload_ms": max(row.async_ms for row in rows),
        "commit_ms": record.duration_ms - acknowledged,
        "new_bytes": record.figures.checkpointed_bytes,
        "state_bytes": record.figures.state_bytes,
    }


def steady(folder, keys, seconds, settings):
    gate = folder / "gate"
    job = execute(folder, keys, gate, settings)
    began = time.monotonic()
    wait_until(job, lambda: counted(job) >= keys)
    filled = time.monotonic() - began
    # Files of the fill are on durable storage before the measurement begins.
    job.trigger_checkpoint().result()
    gate.write_text(str(time.time()))
    time.sleep(WARM_UP_SECONDS)
    first_ms = time.time() * 1000
    time.sleep(seconds)
    found = [record for record in job.checkpoints() if record.triggered_ms >= first_ms]
    done = [noted(record) for record in found if record.status == "COMPLETED"]
    last = job.trigger_checkpoint().result()
    stopped = time.time()
    place = next(each.location for each in job.checkpoints() if each.checkpoint_id == last)
    stop(job)
    (folder / "last").write_text(f"{place}\n{stopped}")
    failed = sum(record.status == "FAILED" for record in found)
    return {"fill_seconds": filled, "checkpoints": done, "failed": failed}


def first_epoch(folder, keys, gate, settings, **more):
    began = time.monotonic()
    job = execute(folder, keys, gate, settings, **more)
    wait_until(job, lambda: job.last_epoch > 0)
    return job, time.monotonic() - began


def restore(folder, keys, seconds, settings):
    place, stopped = (folder / "last").read_text().splitlines()
    gate = folder / "gate"
    without = []
    for number in range(3):
        empty = folder / f"empty-{number}"
        empty.mkdir()
        (empty / "gate").write_text(str(time.time()))
        job, took = first_epoch(empty, 1_000, empty / "gate", settings)
        without.append(took)
        stop(job)
    # Not a backlog of what was due while nobody ran.
    gate.write_text(str(float(gate.read_text()) + time.time() - float(stopped)))
    start = {"execution.state-recovery.path": place}
    job, took = first_epoch(folder, keys, gate, settings, **start)
    time.sleep(seconds)
    job.trigger_checkpoint().result()
    stop(job)
    # The first of them starts Spark and the workers.
    return {"restored_seconds": took, "empty_seconds": statistics.mean(without[1:])}


def backlog(folder, keys, seconds, settings):
    gate = folder / "gate"
    gate.write_text("0")
    job = execute(folder, keys, gate, settings)
    epochs = Epochs()
    wait_until(job, lambda: counted(job) >= 2 * keys)
    job.add_listener(epochs)
    time.sleep(seconds)
    wait_until(job, lambda: len(epochs.ended) > 1)
    number = len(job.checkpoints())
    stop(job)
    (first, _, _), *rest = epochs.ended
    taken = sum(records for _, records, _ in rest)
    return {"rate": taken / (rest[-1][0] - first), "checkpoints": number}


def large(folder, keys, seconds, settings):
    gate = folder / "gate"
    job = execute(folder, keys, gate, settings, work=(EPOCHS_RATE, CountInLargeState))
    began = time.monotonic()
    wait_until(job, lambda: counted(job) >= keys)
    filled = time.monotonic() - began
    job.trigger_checkpoint().result()
    gate.write_text(str(time.time()))
    time.sleep(WARM_UP_SECONDS)
    epochs = Epochs()
    job.add_listener(epochs)
    first_ms = time.time() * 1000
    time.sleep(seconds)
    noted_epochs = list(epochs.ended)
    found = [record for record in job.checkpoints() if record.triggered_ms >= first_ms]
    done = [noted(record) for record in found if record.status == "COMPLETED"]
    job.trigger_checkpoint().result()
    stop(job)
    return {
        "fill_seconds": filled,
        "epoch_ms": [took for _, _, took in noted_epochs],
        "records": sum(records for _, records, _ in noted_epochs),
        "checkpoints": done,
        "failed": sum(record.status == "FAILED" for record in found),
    }


def main(what, folder, keys, seconds, *settings):
    measures = {"steady": steady, "restore": restore, "backlog": backlog, "epochs": large}
    measure = measures[what]
    print(json.dumps(measure(Path(folder), int(keys), float(seconds), settings)))


if __name__ == "__main__":
    main(*sys.argv[1:])
