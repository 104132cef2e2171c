"""Exactly once without open transactions: pending output is published behind a checkpoint.

1. A subtask writes the messages of an epoch to a pending file (`PendingWriter`), small ones into
   the committable itself. Checkpoints name it; readers of Kafka see nothing.
2. When the epoch is final, the driver publishes what is pending (`Publishing`) in one short
   transaction, which also commits a *marker*: an offset of the sink's own consumer group, whose
   metadata say up to which committable everything has been published.
3. What is repeated after a failure finds the marker, and publishes only what lies behind it.

A transaction is never open longer than it takes to send what is pending, so nothing expires while
the job is away, and readers wait for nobody. Its id is that of job and sink, and belongs to the
output: a job that goes on from another one's savepoint publishes what that one owed under the id of
that one. `init_transactions` ends whatever another process has begun under the id, and fences it,
before the marker is read. So two processes that publish the same output publish it once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from penstock.connectors.kafka.client import (
    Connection,
    committed_offsets,
    is_lasting,
    library,
    produce_all,
    refused,
    translated,
)
from penstock.connectors.kafka.serializers import Encoded, KafkaRecordSerializationSchema
from penstock.connectors.sink import (
    CommitContext,
    Committer,
    DeliveryGuarantee,
    SinkWriter,
    WriterContext,
)
from penstock.core.errors import JobExecutionError
from penstock.core.fault_points import fault_span
from penstock.core.redaction import shown_value

_log = logging.getLogger("penstock.kafka")

_INLINE_BYTES: Final = 16 << 10
"""Up to so many bytes of an epoch travel inside the committable, and so inside the checkpoint."""
_TRANSACTION_BYTES: Final = 64 << 20
"""About so much is published in one transaction, so that none takes long."""
_BUFFER_KBYTES: Final = 64 << 10
_TIMEOUT_S: Final = 30.0
_FENCED_TRIES: Final = 3
_REMEMBERED: Final = 16
_SUFFIX: Final = ".kafka"
_COMMIT: Final = fault_span("kafka.commit")

Item = dict[str, Any]
"""A committable: the pending output of one subtask and epoch."""


@dataclass(frozen=True, slots=True)
class KafkaSinkSettings:
    """What the program says about a sink."""

    serializer: KafkaRecordSerializationSchema
    properties: dict[str, str]
    guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    prefix: str = "penstock-sink"
    logs_failures: bool = False  # What Kafka does not take is logged, not raised.
    writes_timestamps: bool = True  # The event time of a record is the message's timestamp.

    def __repr__(self) -> str:
        shown = {key: shown_value(key, value) for key, value in self.properties.items()}
        return f"KafkaSinkSettings({self.guarantee.name}, {shown})"

    def producer_properties(self) -> dict[str, Any]:
        """Returns the settings of a producer."""
        guaranteed = self.guarantee is not DeliveryGuarantee.NONE
        idempotent = {"enable.idempotence": True} if guaranteed else {}
        if self.properties.get("acks", "all") not in ("all", "-1"):
            idempotent = {}
        return {
            # As Java's client: the same key goes to the same partition, whoever writes it.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": _BUFFER_KBYTES,
            **idempotent,
            **translated(self.properties),
        }


# -- pending output, in the worker -----------------------------------------------------------------


class PendingWriter(SinkWriter):
    """Writes the pending output of one subtask and epoch."""

    def __init__(self, settings: KafkaSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._context = context
        self._frames = bytearray()
        self._records = 0
        self._topic = ""
        self._bytes = 0
        self._file: BinaryIO | None = None
        self._path = Path(
            pending_folder(context.scratch_dir, context.job_id, context.uid),
            f"{context.attempt_id}-{context.subtask}{_SUFFIX}",
        )
        self._is_prepared = False

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        stamps = timestamps if self._settings.writes_timestamps else None
        encoded = self._settings.serializer.encode(values, stamps)
        if not encoded.values:
            return
        if not self._records:
            topics = encoded.topics
            self._topic = topics if isinstance(topics, str) else topics[0]
        self._records += len(encoded.values)
        frame = msgspec.msgpack.encode(tuple(encoded))
        self._frames += len(frame).to_bytes(8, "big")
        self._frames += frame
        if len(self._frames) > _INLINE_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("xb")
            except OSError as error:
                raise JobExecutionError(
                    f"the Kafka sink cannot make the file {self._path}: {error.strerror}. Its "
                    "directory is below io.tmp.dirs."
                ) from None
        self._file.write(self._frames)
        self._bytes += len(self._frames)
        self._frames = bytearray()

    def prepare_commit(self) -> list[Any]:
        if not self._records:
            return []
        if self._file is not None:
            self._spill()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            _make_durable(self._path.parent)
        self._is_prepared = True
        context = self._context
        digest = hashlib.sha256(f"{context.job_id}/{context.uid}".encode()).hexdigest()[:24]
        return [
            {
                "transaction": f"{self._settings.prefix}-{digest}",
                "place": [*context.attempt, context.epoch, context.subtask],
                "name": f"{context.attempt_id}-{context.subtask}",
                "topic": self._topic,
                "records": self._records,
                "size": self._bytes + len(self._frames),
                "path": "" if self._file is None else str(self._path),
                "frames": bytes(self._frames),
            }
        ]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            if not self._is_prepared:
                self._path.unlink(missing_ok=True)


def pending_folder(scratch_dir: str, job_id: str, uid: str) -> Path:
    """Returns where the pending output of a sink lies; jobs leave folders of this name alone."""
    digest = hashlib.sha256(f"{job_id}/{uid}".encode()).hexdigest()[:16]
    return Path(scratch_dir, f"sink-{digest}")


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encoded(item: Item) -> Iterator[Encoded]:
    """Yields what a committable names, in the order in which it was written."""
    frames = item["frames"]
    if item["path"]:
        try:
            frames = Path(item["path"]).read_bytes()
        except FileNotFoundError:
            raise JobExecutionError(
                f"{item['records']} records for Kafka are lost: the pending file {item['path']} is "
                "not there, and its records have not been published. Put the file back; it lies "
                "below io.tmp.dirs of the job that wrote it."
            ) from None
    start, view = 0, memoryview(frames)
    while start < len(frames):
        length = int.from_bytes(view[start : start + 8], "big")
        start += 8
        yield Encoded(*_decoder.decode(view[start : start + length]))
        start += length


_Headers = list[list[tuple[str, bytes | None]] | None]
_Frame = tuple[
    list[str] | str,
    list[bytes | None],
    list[bytes | None] | None,
    list[int] | None,
    list[int] | None,
    _Headers | None,
]
_decoder: Final = msgspec.msgpack.Decoder(_Frame)


# -- publishing, in the driver ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """Up to where the output of a sink has been published."""

    place: tuple[int, ...]  # Process of the job, attempt, epoch, subtask: they only rise.
    name: str
    topics: tuple[str, ...] = ()  # Those whose first partition has it as an offset of the group.

    def covers(self, item: Item) -> bool:
        """Whether a committable has been published."""
        place = tuple(item["place"])
        return place < self.place or (place == self.place and item["name"] == self.name)

    @staticmethod
    def behind(items: list[Item]) -> Marker:
        """Returns the marker behind committables."""
        # A topic for each, so that whatever publishes one of them again finds the marker.
        topics = tuple(sorted({item["topic"] for item in items}))
        return Marker(tuple(items[-1]["place"]), items[-1]["name"], topics)


_NOTHING: Final = Marker((), "")


class Publishing(Committer):
    """Publishes pending output."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._published: dict[str, Marker] = {}
        self._publishers: dict[str, _Publisher] = {}

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        owed: dict[str, list[Item]] = {}
        for item in sorted(committables, key=lambda item: tuple(item["place"])):
            owed.setdefault(item["transaction"], []).append(item)
        for transaction, items in owed.items():
            self._publish(transaction, items)
        _delete(committables)
        for transaction in self._publishers.keys() - owed.keys():
            # Of a job that this one goes on from: it is needed no more.
            self._publishers.pop(transaction).close()

    def _publish(self, transaction: str, items: list[Item]) -> None:
        publisher = self._publishers.get(transaction)
        if publisher is None:
            publisher = _Publisher(self._settings, transaction)
            self._publishers[transaction] = publisher
        marker = publisher.publish(items, self._published.get(transaction, _NOTHING))
        self._published.pop(transaction, None)
        self._published[transaction] = marker
        while len(self._published) > _REMEMBERED:
            del self._published[next(iter(self._published))]

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        _delete(committables)

    def snapshot(self) -> Any:
        return {
            transaction: [list(each.place), each.name, list(each.topics)]
            for transaction, each in self._published.items()
        }

    def restore(self, state: Any) -> None:
        self._published = {
            transaction: Marker(tuple(place), name, tuple(topics))
            for transaction, (place, name, topics) in (state or {}).items()
        }

    def close(self) -> None:
        for publisher in self._publishers.values():
            publisher.close()
        self._publishers = {}


def _delete(items: Iterable[Item]) -> None:
    for item in items:
        if item["path"]:
            Path(item["path"]).unlink(missing_ok=True)


class _Publisher:
    """Publishes under one transactional id; after any failure it begins with the marker again."""

    def __init__(self, settings: KafkaSinkSettings, transaction: str) -> None:
        self._transaction = transaction
        properties = {
            **settings.producer_properties(),
            "transactional.id": transaction,
            "enable.idempotence": True,
        }
        properties.pop("acks", None)
        self._brokers = settings.properties["bootstrap.servers"]
        self._connection = Connection(properties)
        client = translated(settings.properties)
        kept = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.", "socket.")
        shared = {key: value for key, value in client.items() if key.startswith(kept)}
        self._reading = Connection({**shared, "group.id": transaction})
        self._producer: Any = None
        self._group: Any = None
        self._marker = _NOTHING

    def publish(self, items: list[Item], known: Marker) -> Marker:
        """Publishes what has not been, and returns the marker behind it.

        Args:
            items: In their order.
            known: What the checkpoint says has been published before.
        """
        kafka = library()
        for tries_left in reversed(range(_FENCED_TRIES)):
            try:
                self._open(items, known)
                for part in self._parts(items):
                    self._send(part)
                return self._marker
            except kafka.KafkaException as failed:
                self.close()
                error = failed.args[0]
                # Another process publishes the same output: the marker tells how far it came.
                is_fenced = error.name() in ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
                if not is_fenced or not tries_left:
                    raise self._failed(error) from failed
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable")

    def _failed(self, error: Any) -> JobExecutionError:
        if is_lasting(error):
            return refused(f"the output of transaction '{self._transaction}'", error)
        return JobExecutionError(
            f"Kafka at {self._brokers} has not confirmed the transaction '{self._transaction}': "
            f"{error.str()} ({error.name()}). Its output is kept, and is published once."
        )

    def _open(self, items: list[Item], known: Marker) -> None:
        if self._producer is None:
            self._producer = self._connection.producer()
            # Ends what another process has begun, so that the marker says what became of it.
            self._producer.init_transactions(_TIMEOUT_S)
            self._marker = self._read_marker({*known.topics, *(item["topic"] for item in items)})
            if self._marker == _NOTHING != known:
                self._lost_marker(items, known)

    def _lost_marker(self, items: list[Item], known: Marker) -> None:
        if all(map(known.covers, items)):
            self._marker = known
            return
        raise JobExecutionError(
            f"Kafka has lost the marker of transaction '{self._transaction}', so nobody knows "
            f"whether {sum(item['records'] for item in items)} records of the checkpoint have been "
            "published. It is an offset of the consumer group of that name, and the broker's "
            "offsets.retention.minutes were over, or the group was deleted. Look into the topic. "
            "If the records are there, commit an offset of the group with the metadata "
            f"'{_metadata(Marker.behind(items))}'; if not, with '{_metadata(known)}'."
        )

    def _read_marker(self, topics: set[str]) -> Marker:
        kafka = library()
        consumer = self._reading.consumer()
        try:
            self._group = consumer.consumer_group_metadata()
            asked = [kafka.TopicPartition(topic, 0) for topic in sorted(topics)]
            offsets = committed_offsets(consumer, asked, _TIMEOUT_S)
        finally:
            consumer.close()
        found = [_marker(each.metadata) for each in offsets if each.offset >= 0]
        return max(found, key=lambda marker: marker.place, default=_NOTHING)

    def _parts(self, items: list[Item]) -> Iterator[list[Item]]:
        """Yields what belongs into one transaction each."""
        part: list[Item] = []
        size = 0
        for item in items:
            if self._marker.covers(item):
                continue
            part.append(item)
            size += item["size"]
            if size >= _TRANSACTION_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _send(self, part: list[Item]) -> None:
        kafka, producer = library(), self._producer
        marker = Marker.behind(part)
        producer.begin_transaction()
        for item in part:
            for encoded in _encoded(item):
                produce_all(producer, encoded.rows())
                producer.poll(0)
                self._connection.check()
        offsets = [
            kafka.TopicPartition(topic, 0, marker.place[-2], _metadata(marker))
            for topic in marker.topics
        ]
        producer.send_offsets_to_transaction(offsets, self._group, _TIMEOUT_S)
        with _COMMIT:
            producer.commit_transaction(_TIMEOUT_S)
        self._marker = marker

    def close(self) -> None:
        """Drops the producer; its open transaction ends with the next `init_transactions`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # One that was fenced says so once more.
            with contextlib.suppress(library().KafkaException):
                producer.purge()
                producer.close()


def _metadata(marker: Marker) -> str:
    return json.dumps([*marker.place, marker.name])


def _marker(metadata: str) -> Marker:
    *place, name = json.loads(metadata)
    return Marker(tuple(place), name)
