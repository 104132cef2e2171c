"""Topics of a Kafka broker as input and output of contenders, and how long an event waits there.

The broker runs on the machine that is measured, as it does for the peers. Its jars, and those that
PyFlink and PySpark need to reach it, come from Maven (`tools/install_jars.sh`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.contenders import PROGRAMS
from bench.environments import REQUIREMENTS, ROOT, WORK, environment_of, ported, python_of
from bench.latency import RATE, WARM_UP_SECONDS, percentiles
from bench.measure import RunError, processes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4
RECORD_BYTES = 100
USERS = 10_000
INTERVAL_MS = 1_000
PATIENCE_SECONDS = 120.0
# A broker's own defaults for its compilers, unlike the short-lived ones of the tests.
JAVA = ("java", "-XX:+UseG1GC")


class Topics:
    """A broker that starts when the first contender needs it."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._broker: Any = None
        self._inputs: dict[Path, str] = {}
        self._outputs = 0

    def __enter__(self) -> Topics:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    @property
    def broker(self) -> Any:
        """The broker; started at the first call."""
        if self._broker is None:
            sys.path.append(str(ROOT / "tests"))
            from kafka_broker import Broker, missing  # type: ignore[import-not-found]

            if reason := missing():
                raise RunError(reason)
            WORK.mkdir(exist_ok=True)
            folder = self._open.enter_context(TemporaryDirectory(dir=WORK, prefix="broker-"))
            self._broker = self._open.enter_context(Broker(Path(folder), java=JAVA))
        return self._broker

    def input_of(self, source: Path) -> str:
        """Returns a topic with the lines of the files, each filled up to 100 bytes."""
        if source not in self._inputs:
            name = self.broker.create_topic(source.name, PARTITIONS)
            producer = self._producer()
            lines = (line for path in sorted(source.glob("*.tsv")) for line in path.open("rb"))
            for number, line in enumerate(lines):
                self._send(producer, name, line.rstrip().ljust(RECORD_BYTES), number % PARTITIONS)
            if producer.flush(PATIENCE_SECONDS):
                raise RunError(f"the topic {name} cannot be filled")
            self._inputs[source] = name
        return self._inputs[source]

    def new_output(self) -> str:
        """Creates an empty topic."""
        self._outputs += 1
        name = f"results-{self._outputs}"
        return str(self.broker.create_topic(name, PARTITIONS))

    def write_results(self, topic: str, folder: Path) -> None:
        """Writes what readers of committed records see of a topic into a file, and removes it."""
        folder.mkdir()
        with (folder / "results").open("wb") as results:
            for messages in self._read_all(topic):
                results.writelines(message.value() + b"\n" for message in messages)
        self.broker.delete_topic(topic)

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self.broker.address,
                "queue.buffering.max.messages": 500_000,
                "linger.ms": 5,
            }
        )

    @staticmethod
    def _send(producer: Any, topic: str, value: bytes, partition: int) -> None:
        while True:
            try:
                producer.produce(topic, value, partition=partition)
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def _consumer(self, topic: str) -> Any:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 10,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        return consumer

    def _read_all(self, topic: str) -> Iterator[list[Any]]:
        consumer, left = self._consumer(topic), set(range(PARTITIONS))
        try:
            waited_since = time.monotonic()
            while left:
                # It waits for so many messages, or until the time is over: the last are fewer.
                found = consumer.consume(10_000, 1.0)
                if found:
                    waited_since = time.monotonic()
                elif time.monotonic() - waited_since > PATIENCE_SECONDS:
                    raise RunError(f"the topic {topic} cannot be read to its end")
                left -= {each.partition() for each in found if each.error() is not None}
                yield [each for each in found if each.error() is None]
        finally:
            consumer.close()

    # -- latency ----------------------------------------------------------------------------------

    def latencies(self, source: str, target: str, seconds: int) -> list[int]:
        """Sends events as they are due; returns how late each was visible, in milliseconds.

        Event n is of user n % USERS, and all events of a user are in one partition: so the line
        `user, count` says which event it answers.
        """
        total, began_s = RATE * seconds, time.time() + 1.0
        sending = threading.Thread(target=self._feed, args=(source, total, began_s), daemon=True)
        consumer = self._consumer(target)
        late: dict[int, int] = {}
        sending.start()
        try:
            while len(late) < total:
                found = consumer.consume(1_000, 0.02)
                now_s = time.time()
                for message in found:
                    if message.error() is None:
                        user, count = map(int, message.value().split())
                        event = (count - 1) * USERS + user
                        if event in late:
                            raise RunError(f"latency: event {event} was answered twice")
                        late[event] = round((now_s - began_s - event / RATE) * 1000)
                if now_s - began_s > seconds + PATIENCE_SECONDS:
                    raise RunError(f"latency: {len(late):,} of {total:,} events were answered")
        finally:
            consumer.close()
            sending.join(PATIENCE_SECONDS)
        return [late[event] for event in range(RATE * WARM_UP_SECONDS, total)]

    def _feed(self, topic: str, total: int, began_s: float) -> None:
        producer = self._producer()
        for event in range(total):
            if event % 100 == 0:
                producer.poll(0)
                time.sleep(max(began_s + event / RATE - time.time(), 0))
            user = event % USERS
            line = f"{event}\tchannel\t{user}\topen".ljust(RECORD_BYTES)
            self._send(producer, topic, line.encode(), user % PARTITIONS)
        producer.flush(PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class KafkaLatency:
    """Median and 99th percentile, in milliseconds, under one guarantee."""

    guarantee: str
    seconds: int
    events: tuple[int, int]

    def __str__(self) -> str:
        return f"| {self.guarantee} | {self.events[0]} ms | {self.events[1]} ms |"


def measure_kafka_latency(topics: Topics, guarantee: str, *, quick: bool) -> KafkaLatency:
    """Runs `programs/kafka.py` of Penstock at a steady rate, with a checkpoint every second."""
    seconds = 25 if quick else 75
    source = topics.broker.create_topic(f"steady-{guarantee}", PARTITIONS)
    target = topics.new_output()
    (WORK / "run").mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=WORK / "run") as folder:
        command = [
            str(python_of("penstock")),
            str(ported(PROGRAMS / "kafka.py")),
            topics.broker.address,
        ]
        command += [source, target, "follow", guarantee]
        command += [f"execution.checkpointing.interval={INTERVAL_MS} ms"]
        with (Path(folder) / "log").open("wb") as log:
            job = subprocess.Popen(
                command,
                cwd=folder,
                env=environment_of("penstock"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                late = topics.latencies(source, target, seconds)
            finally:
                for process_id, _ in processes_of(job.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process_id, signal.SIGKILL)
                job.wait()
    name = guarantee.replace("_", "-").lower()
    return KafkaLatency(name, seconds - WARM_UP_SECONDS, percentiles(late))


def jars(name: str) -> list[str]:
    """Returns the jars of a peer's connector for Kafka; fetches them at the first call."""
    if name not in REQUIREMENTS:
        return []
    done = subprocess.run([ROOT / "tools" / "install_jars.sh", f"{name}-kafka"], check=False)
    if done.returncode:
        raise RunError(f"the connector of {name} for Kafka cannot be had, see above")
    return [str(path) for path in sorted((WORK / f"{name}-kafka").glob("*.jar"))]
