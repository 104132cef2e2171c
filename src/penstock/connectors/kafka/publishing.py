"""Exactly once without open transactions: pending output is published behind a checkpoint.

1. A subtask writes the messages of an epoch to pending files (`PendingWriter`), which checkpoints
   and savepoints hold as they hold files of state. Readers of Kafka see nothing.
2. When the epoch is final, the driver publishes what is pending (`Publishing`) in one short
   transaction, which also commits a *marker*: an offset of the sink's own consumer group, whose
   metadata say up to which committable everything has been published.
3. What is repeated after a failure finds the marker, and publishes only what lies behind it.

Brokers remove markers that are older than their `offsets.retention.minutes`. Where none is found,
what is younger than that cannot have been published, or its marker would be there. What is older is
in doubt, and so is all if a marker is gone that should be there: the job stops.

A transaction is never open longer than it takes to send what is pending, so nothing expires while
the job is away, and readers do not wait. Its id is that of job and sink, and belongs to the
output: a job that goes on from another one's savepoint publishes what that one owed under the id of
that one. `init_transactions` ends whatever another process has begun under the id, and fences it,
before the marker is read. So two processes that publish the same output publish it once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

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
from penstock.connectors.pending_files import (
    Item,
    PendingCommitter,
    PendingFiles,
    by_sink,
    covers,
    frames_of,
    parts_of,
    sink_name,
)
from penstock.connectors.sink import CommitContext, DeliveryGuarantee, SinkWriter, WriterContext
from penstock.core.errors import JobExecutionError
from penstock.core.fault_points import fault_span
from penstock.core.redaction import shown_value

if TYPE_CHECKING:
    from penstock.files.area import FileArea

_BUFFER_KBYTES: Final = 64 << 10
_TRANSACTION_BYTES: Final = 64 << 20
"""About so much is published in one transaction, so that none takes long."""
_TIMEOUT_S: Final = 30.0
_OFFSETS_S: Final = 10.0
_GRACE_S: Final = 5.0
_SURELY_KEPT_MS: Final = 600_000
"""Brokers look for old offsets every ten minutes."""
_KEPT_IF_UNKNOWN_MS: Final = 24 * 3_600_000
"""Kafka's default is a week, and was a day before 2.0."""
_CLOCKS_AGREE: Final = 0.9
_FENCED: Final = ("_FENCED", "_FATAL", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
_FENCED_TRIES: Final = 3
_REMEMBERED: Final = 16
_SEND: Final = fault_span("kafka.send")
_COMMIT: Final = fault_span("kafka.commit")


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
            # As Java's client: the same key goes to the same partition, from every client.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": _BUFFER_KBYTES,
            **idempotent,
            **translated(self.properties),
        }


class PendingWriter(SinkWriter):
    """Writes the pending output of one subtask and epoch.

    Its committables say more than those of other sinks: the `transaction` that publishes them, the
    `topic`, and when they were written.
    """

    def __init__(self, settings: KafkaSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._context = context
        self._pending = PendingFiles(context)
        sink = hashlib.sha256(sink_name(context).encode()).hexdigest()
        self._transaction = f"{settings.prefix}-{sink[:24]}"
        self._topic = ""

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        stamps = timestamps if self._settings.writes_timestamps else None
        encoded = self._settings.serializer.encode(values, stamps)
        if not encoded.values:
            return
        topics = encoded.topics
        self._topic = self._topic or (topics if isinstance(topics, str) else topics[0])
        self._pending.add(msgspec.msgpack.encode(tuple(encoded)), len(encoded.values))

    def prepare_commit(self) -> list[Any]:
        more = {
            "transaction": self._transaction,
            "written_ms": self._context.now_ms,
            "topic": self._topic,
        }
        return [item | more for item in self._pending.committables()]


def _encoded_of(item: Item, area: FileArea) -> Iterator[Encoded]:
    """Yields what a committable names, in the order in which it was written."""
    for frame in frames_of(item, area):
        yield Encoded(*_decoder.decode(frame))


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


@dataclass(frozen=True, slots=True)
class Marker:
    """Up to where the output of a sink has been published."""

    place: tuple[int, ...]  # Process of the job, attempt, epoch, subtask: they only rise.
    name: str
    topics: tuple[str, ...] = ()  # Those whose first partition has it as an offset of the group.
    written_ms: int = 0  # When the last committable was written; the marker is younger.

    def covers(self, item: Item) -> bool:
        """Whether a committable has been published."""
        return covers(self.place, self.name, item)

    @staticmethod
    def behind(items: list[Item]) -> Marker:
        """Returns the marker behind committables."""
        # A topic for each, so that whatever publishes one of them again finds the marker.
        topics = tuple(sorted({item["topic"] for item in items}))
        last = items[-1]
        return Marker(tuple(last["place"]), last["name"], topics, last["written_ms"])


_NOTHING: Final = Marker((), "")
_BEFORE_ALL: Final = Marker((0,), "")


class Publishing(PendingCommitter):
    """Publishes pending output."""

    kind = "kafka"

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._published: dict[str, Marker] = {}
        self._publishers: dict[str, _Publisher] = {}

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        owed = by_sink(committables, "transaction")
        for transaction, items in owed.items():
            self._publish(transaction, items, context)
        for transaction in self._publishers.keys() - owed.keys():
            # Of a job that this one goes on from: it is needed no more.
            self._publishers.pop(transaction).close()

    def _publish(self, transaction: str, items: list[Item], context: CommitContext) -> None:
        assert context.area is not None
        publisher = self._publishers.get(transaction)
        if publisher is None:
            publisher = _Publisher(self._settings, transaction)
            self._publishers[transaction] = publisher
        known = self._published.get(transaction, _NOTHING)
        marker = publisher.publish(items, known, context.area, context.now_ms)
        self._published.pop(transaction, None)
        self._published[transaction] = marker
        while len(self._published) > _REMEMBERED:
            del self._published[next(iter(self._published))]

    def snapshot(self) -> Any:
        return {
            transaction: [list(each.place), each.name, list(each.topics), each.written_ms]
            for transaction, each in self._published.items()
        }

    def restore(self, state: Any) -> None:
        self._published = {
            transaction: Marker(tuple(place), name, tuple(topics), written_ms)
            for transaction, (place, name, topics, written_ms) in (state or {}).items()
        }

    def close(self) -> None:
        for publisher in self._publishers.values():
            publisher.close()
        self._publishers = {}


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

    def publish(self, items: list[Item], known: Marker, area: FileArea, now_ms: int) -> Marker:
        """Publishes what has not been, and returns the marker behind it.

        Args:
            items: In their order.
            known: What the checkpoint says has been published before.
            area: Where their files are.
            now_ms: Wall time.
        """
        kafka = library()
        for tries_left in reversed(range(_FENCED_TRIES)):
            try:
                self._open(items, known, now_ms)
                new = [item for item in items if not self._marker.covers(item)]
                for part in parts_of(new, _TRANSACTION_BYTES):
                    self._send(part, area)
                return self._marker
            except kafka.KafkaException as failed:
                self.close()
                error = failed.args[0]
                # Another process publishes the same output: the marker tells how far it came.
                is_fenced = error.name() in _FENCED
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

    def _open(self, items: list[Item], known: Marker, now_ms: int) -> None:
        if self._producer is None:
            self._producer = self._connection.producer()
            # Ends what another process has begun, so that the marker shows its outcome.
            self._producer.init_transactions(_TIMEOUT_S)
            self._marker = self._read_marker({*known.topics, *(item["topic"] for item in items)})
            if self._marker == _NOTHING:
                self._check_doubt(items, known, now_ms)
                self._marker = known
            else:
                places = {tuple(item["place"]): int(item["written_ms"]) for item in items}
                written_ms = places.get(self._marker.place, known.written_ms)
                self._marker = replace(self._marker, written_ms=written_ms)

    def _check_doubt(self, items: list[Item], known: Marker, now_ms: int) -> None:
        """Raises if output may have been published under a marker that is gone."""
        new = [item for item in items if not known.covers(item)]
        if not new:
            return
        is_new = known == _NOTHING
        oldest_ms = now_ms - min(item["written_ms"] for item in new)
        if is_new and oldest_ms < _SURELY_KEPT_MS:
            return
        kept_ms = self._reading.offsets_retention_ms() or _KEPT_IF_UNKNOWN_MS
        kept_ms = int(kept_ms * _CLOCKS_AGREE)
        if oldest_ms < kept_ms and (is_new or now_ms - known.written_ms >= kept_ms):
            return
        raise JobExecutionError(
            f"Kafka has lost the marker of transaction '{self._transaction}', so it is unknown "
            f"whether {sum(item['records'] for item in new)} records of the checkpoint have been "
            "published. It is an offset of the consumer group of that name, and the broker's "
            "offsets.retention.minutes were over, or the group or the topic was deleted. Look into "
            "the topic. If the records are there, commit an offset of the group with the metadata "
            f"'{_metadata(Marker.behind(items))}'; if not, with "
            f"'{_metadata(_BEFORE_ALL if is_new else known)}'."
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

    def _send(self, part: list[Item], area: FileArea) -> None:
        kafka, producer = library(), self._producer
        marker = Marker.behind(part)
        producer.begin_transaction()
        with _SEND:
            for item in part:
                for encoded in _encoded_of(item, area):
                    produce_all(producer, encoded.rows())
                    producer.poll(0)
                    self._connection.check()
        offsets = [
            kafka.TopicPartition(topic, 0, marker.place[-2], _metadata(marker))
            for topic in marker.topics
        ]
        self._in_time(producer.send_offsets_to_transaction, offsets, self._group, _OFFSETS_S)
        with _COMMIT:
            self._in_time(producer.commit_transaction, _TIMEOUT_S)
        self._marker = marker

    def _in_time(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Calls the client, whose own time-out, the last argument, does not always hold.

        When a group's coordinator goes away, librdkafka may never return (its issue 5511).
        Then this producer is left to itself; the next one ends its transaction and fences it.
        """
        done: Future[None] = Future()

        def run() -> None:
            try:
                done.set_result(call(*arguments))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="penstock-kafka-publish", daemon=True).start()
        try:
            done.result(arguments[-1] + _GRACE_S)
        except TimeoutError:
            self._producer = None
            raise JobExecutionError(
                f"Kafka at {self._brokers} has not confirmed the transaction "
                f"'{self._transaction}': no answer for {arguments[-1] + _GRACE_S:.0f} s. Its "
                "output is kept, and is published once."
            ) from None

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
