"""Kills a job between two topics, its workers and its broker, and checks every record it wrote.

The oracle reads both topics with Kafka's own client, the output with `read_committed`, and shares
no code with the job: of each key there must be the counts 1, 2, 3 … once, in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kill_campaign import Fault, Tally, all_points
from kill_oracle import PATIENCE_S, check_counts, checkpoints, log_of, waited
from kill_processes import JVM, WORKER, kill_one

from kafka_broker import dies_with_its_parent

if TYPE_CHECKING:
    import random

    from kafka_broker import Broker

PROGRAM: Final = Path(__file__).with_name("kafka_kill_job.py")
KEYS: Final = 20
_REACHED_S: Final = 10.0
"""A fault that was not reached by then is none; the process is killed where it is."""


def start(
    directory: Path, end: int, master: str, backend: str, start_from: str, faults: str, **more: str
) -> subprocess.Popen[bytes]:
    """Starts the job in a process; as `ForkedJobs` does, which makes it cheaper."""
    options = json.dumps({key.replace("__", "."): value for key, value in more.items()})
    with (directory / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, PROGRAM, directory, str(end), master, backend, start_from, options],
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_its_parent,
            env={**os.environ, "PENSTOCK_FAULT_POINTS": faults},
        )


def random_fault(rng: random.Random) -> Fault:
    """Draws a fault; the points of Kafka are as likely as all others together."""
    chance = rng.random()
    if chance < 0.1:
        return Fault("", "broker", rng.randint(1, 3))
    if chance < 0.2:
        return Fault("", "zombie", rng.randint(1, 3))
    if chance < 0.4:
        return Fault("", "kill", rng.randint(1, 4))
    points = [point for point in all_points() if point != "storage.write"]
    if chance < 0.7:
        points = [point for point in points if point.startswith(("kafka.", "sink."))]
    kind = rng.choices(["kill", "exit", "hang", "raise"], [70, 10, 10, 10])[0]
    return Fault(rng.choice(points), kind, rng.randint(1, 4))


def random_spark_fault(rng: random.Random) -> Fault:
    """Draws a fault of a job on Spark: of a worker, of the JVM, of the process or the broker."""
    (kind,) = rng.choices(["worker", "jvm", "kill", "broker"], [50, 20, 15, 15])
    return Fault("", kind, rng.randint(1, 3))


class KafkaRun:
    """One job that is killed again and again while records keep coming.

    Args:
        directory: Empty.
        broker: Its own; topics `in` and `out` are made anew.
        rng: Chooses settings.
        tally: Is added to.
        starter: Starts a process of the job.
        master: Where it runs.
    """

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        rng: random.Random,
        tally: Tally,
        starter: Any = start,
        master: str = "in-process",
    ) -> None:
        self.directory, self.broker, self.tally = directory, broker, tally
        self._starter = starter
        self._epoch = 0
        self._jobs: list[Any] = []
        broker.create_topic("in", 4)
        broker.create_topic("out", 2)
        self._more = {
            "brokers": broker.address,
            # In the committables, or in files that have to be in the checkpoint storage.
            "padding": rng.choice(["0", "2000"]),
            "execution__checkpointing__incremental": rng.choice(["true", "false"]),
            "execution__checkpointing__num-retained": rng.choice(["1", "2"]),
        }
        self._parallelism, self._master = rng.choice([1, 2, 3]), master
        self._backend = rng.choice(["hashmap", "rocksdb"])
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._is_fed = threading.Event()
        self._feeding.start()
        tally.runs += 1

    def _feed(self) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.broker.address, "enable.idempotence": True}
        producer = Producer(settings, logger=_Silent())
        number = 0
        while not self._is_fed.wait(0.05):
            for _ in range(10):
                producer.produce("in", str(number))
                number += 1
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    # -- faults -----------------------------------------------------------------------------------

    def suffer(self, fault: Fault) -> None:
        """Has a process of the job, its broker or its worker fail in this way."""
        once = self.directory / f"struck-{self._epoch}"
        job = self._job(fault.armed(once))
        name = fault.kind
        if fault.point:
            name = f"{fault.point}={fault.kind}"
            if not waited(lambda: once.exists() or job.poll() is not None, _REACHED_S):
                self.tally.missed += 1
                name = "progress=kill"
            elif fault.kind == "raise":
                # It goes on by itself, or ends with the error, and another process goes on.
                self._progress(job, 1, may_end=True)
        else:
            self._progress(job, fault.nth)
        if fault.kind == "broker":
            self.broker.kill()
            time.sleep(0.2)
            self.broker.start()
            self._progress(job, 1)
        elif fault.kind == "worker":
            assert kill_one(job, WORKER), log_of(self.directory)
            self._progress(job, 1)
        elif fault.kind == "jvm":
            # The driver ends with an error, or has another one; the victim was there or is gone.
            kill_one(job, JVM)
            self._progress(job, 1, may_end=True)
        elif fault.kind == "zombie":
            # Another process takes over while this one stands still; then both go on.
            os.kill(job.pid, signal.SIGSTOP)
            other = self._started("")
            self._jobs = [other, job]
            self._progress(other, 1)
            os.kill(job.pid, signal.SIGCONT)
            self._progress(other, 2)
            _kill(job)
            self._jobs = [other]
        elif fault.kind != "raise":
            _kill(job)
            self._jobs = []
        self.tally.struck[name] += 1

    def _job(self, faults: str) -> Any:
        """Returns the process of the job: a new one, where faults are armed or none is there."""
        if self._jobs and not faults and self._jobs[0].poll() is None:
            return self._jobs[0]
        for job in self._jobs:
            _kill(job)
        return self._started(faults)

    def _started(self, faults: str) -> Any:
        self._epoch += 1
        self.tally.starts += 1
        job = self._starter(
            self.directory,
            self._parallelism,
            self._master,
            self._backend,
            f"own:{self._epoch}",
            faults,
            **self._more,
        )
        self._jobs = [job]
        return job

    def _progress(self, job: Any, number: int, *, may_end: bool = False) -> None:
        """Waits for new checkpoints."""
        known = max(checkpoints(self.directory), default=0)
        assert waited(
            lambda: (
                job.poll() is not None
                or max(checkpoints(self.directory), default=0) >= known + number
            ),
            PATIENCE_S,
        ), self._stands_still(job)
        assert may_end or job.poll() is None, f"the job ended: {log_of(self.directory)}"

    def _stands_still(self, job: Any) -> str:
        """Returns what the log says, with the place of each thread of the process."""
        os.kill(job.pid, signal.SIGUSR1)
        time.sleep(1.0)
        return log_of(self.directory)

    # -- the oracle -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Lets the job come to the end of its input, restarts it once more, and checks it all."""
        self._is_fed.set()
        self._feeding.join()
        expected = Counter(int(value) % KEYS for value in self.broker.values("in"))
        self._job("")
        total = expected.total()
        assert waited(lambda: self._written() >= total, PATIENCE_S), (
            f"{self._written()} of {total} records: {log_of(self.directory)}"
        )
        for job in self._jobs:
            _kill(job)
        self._progress(self._started(""), 1)
        self.close()
        verify(self.broker, expected)

    def _written(self) -> int:
        return len(self.broker.values("out"))

    def close(self) -> None:
        self._is_fed.set()
        for job in self._jobs:
            _kill(job)
        self._feeding.join(PATIENCE_S)


def verify(broker: Broker, expected: Counter[int]) -> None:
    """Compares the output as a reader of committed records sees it: once each, in order by key."""
    found: dict[str, list[int]] = {}
    homes: dict[str, set[int]] = {}
    for message in broker.messages("out"):
        key, count = message.value().decode().rstrip().split(",")
        assert message.key().decode() == key
        found.setdefault(key, []).append(int(count))
        homes.setdefault(key, set()).add(message.partition())
    for number, total in expected.items():
        check_counts(number, found.pop(str(number), []), list(range(1, total + 1)))
    assert not found, f"nobody wrote keys {list(found)}"
    assert all(len(each) == 1 for each in homes.values()), homes


def _kill(job: Any) -> None:
    """Kills a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        if job.poll() is None:
            os.kill(job.pid, signal.SIGKILL)
    job.wait(60)


class _Silent:
    def log(self, *_: object) -> None:
        pass
