"""A real Kafka broker in a process of its own: one node, KRaft, loopback, a private directory.

    with Broker(directory) as broker:
        broker.create_topic("words", 3)

As a program it runs a command beside a broker, whose address stands in KAFKA_BOOTSTRAP_SERVERS:

    python tests/kafka_broker.py python examples/kafka_minutes.py
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".bench" / "kafka"
START_SECONDS = 200
_CLUSTER_ID = "cGVuc3RvY2stdGVzdHMtMQ"
_JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # After half a minute a broker removes what is a week old, by the timestamps of the records.
    "log.retention.ms": "-1",
    "num.io.threads": "2",
    "num.network.threads": "2",
    # How often expired transactions are looked for; by default every ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def missing() -> str:
    """Returns why there can be no broker here, or "" if its jars are there now."""
    done = subprocess.run(
        [ROOT / "tools" / "install_jars.sh", "kafka"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr.strip()


def dies_with_its_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Broker:
    """One broker; it can be killed and started again with its data.

    Args:
        directory: For its data and log.
        java: How Java is called.
        settings: More lines of `server.properties`.
    """

    _features: ClassVar[bytes] = b""

    def __init__(self, directory: Path, *, java: tuple[str, ...] = _JAVA, **settings: str) -> None:
        self.directory = directory
        self._command = java
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        lines = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"BROKER://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"BROKER://{self.address}",
            "log.dirs": str(directory / "data"),
            **settings,
        }
        self._properties = directory / "server.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: AdminClient | None = None
        self._format()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def _format(self) -> None:
        """Makes the directory of the data; from the second broker of a process on, without Java."""
        data = self.directory / "data"
        features = data / "bootstrap.checkpoint"
        if Broker._features:
            data.mkdir()
            features.write_bytes(Broker._features)
            meta = f"version=1\ncluster.id={_CLUSTER_ID}\nnode.id=1\n"
            (data / "meta.properties").write_text(meta)
        else:
            self._java(
                "-Xmx128m", "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c"
            ).wait()
            Broker._features = features.read_bytes()

    def _java(self, heap: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [*self._command, heap, "-cp", f"{JARS}/*", *arguments, str(self._properties)],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                preexec_fn=dies_with_its_parent,
            )

    def start(self) -> None:
        """Starts the process, and waits until it serves."""
        assert self._process is None
        self._process = self._java("-Xmx320m", "kafka.Kafka")
        deadline = time.monotonic() + START_SECONDS
        while True:
            log = (self.directory / "broker.log").read_text(errors="replace")[-3000:]
            assert self._process.poll() is None, log
            try:
                if self.admin.list_topics(timeout=2).brokers:
                    return
            except KafkaException:
                assert time.monotonic() < deadline, log

    @property
    def runs(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        """Kills the process as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            # Nothing is logged: that the broker is away is what some tests are about.
            self._admin = AdminClient({"bootstrap.servers": self.address}, logger=_Silent())
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Creates a topic, and waits until it can be used."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        self.admin.create_topics([topic], operation_timeout=30)[name].result()
        self._wait_for(name, partitions)
        return name

    def add_partitions(self, name: str, total: int) -> None:
        """Gives a topic more partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result()
        self._wait_for(name, total)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=30)[name].result()

    def recreate_topic(self, name: str) -> None:
        """Deletes a topic and creates it again, with one partition."""
        self.delete_topic(name)
        deadline = time.monotonic() + START_SECONDS
        while name in self.admin.list_topics(timeout=30).topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.create_topic(name)

    def _wait_for(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = self.admin.list_topics(name, timeout=30).topics[name].partitions
            if len(found) == partitions and all(each.leader >= 0 for each in found.values()):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def produce(self, topic: str, values: Iterable[Any], **fields: Any) -> None:
        """Writes values, which are bytes, text or None; further fields are those of `produce`."""
        producer = Producer({"bootstrap.servers": self.address, "message.max.bytes": 1_500_000})
        for value in values:
            producer.produce(topic, value, **fields)
            producer.poll(0)
        assert producer.flush(60) == 0

    def messages(self, topic: str, *, isolation: str = "read_committed") -> list[Any]:
        """Returns all messages that a topic has now, by partition, in order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "reader of the tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        found: dict[int, list[Any]] = {
            number: []
            for number in self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        }
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        left = set(found)
        deadline = time.monotonic() + START_SECONDS
        while left:
            assert time.monotonic() < deadline, left
            # The mark of a transaction that was just committed may still be on its way.
            for message in consumer.consume(1000, 0.3):
                if message.error() is None:
                    found[message.partition()].append(message)
                else:
                    left.discard(message.partition())
        consumer.close()
        return [message for number in sorted(found) for message in found[number]]

    def values(self, topic: str, **how: str) -> list[bytes]:
        """Returns the values of `messages`."""
        return [message.value() for message in self.messages(topic, **how)]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Returns the offset behind the last record or mark of a transaction."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "offsets"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, partition))[1])
        finally:
            consumer.close()

    def marker(self, group: str, topic: str) -> Any:
        """Returns the offset of a group in partition 0, with its metadata."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        try:
            return consumer.committed([TopicPartition(topic, 0)], 30)[0]
        finally:
            consumer.close()

    @contextlib.contextmanager
    def transaction(self, name: str) -> Iterator[Any]:
        """Gives a producer inside a transaction."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        yield producer
        producer.close()

    def delete_records(self, topic: str, before: int) -> None:
        """Removes the records before an offset, as retention does."""
        place = TopicPartition(topic, 0, before)
        self.admin.delete_records([place])[place].result()

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        """Commits an offset of partition 0 for a group."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int]:
        """Returns the offsets of a group as Kafka has them; below 0 where there is none."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        try:
            asked = [TopicPartition(topic, number) for number in range(partitions)]
            return [each.offset for each in consumer.committed(asked, 30)]
        finally:
            consumer.close()


class _Silent:
    def log(self, *_: object) -> None:
        pass


def main(command: list[str]) -> int:
    """Runs a command beside a broker."""
    if reason := missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory)) as broker:
        settings = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": broker.address}
        return subprocess.run(command, env=settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
