"""Settings of a sink, and its output that waits in files until a checkpoint has completed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.connectors.kafka.client import translated
from penstock.connectors.kafka.serializers import Encoded, KafkaRecordSerializationSchema
from penstock.connectors.pending_files import Item, PendingFiles, frames_of, sink_name
from penstock.connectors.sink import DeliveryGuarantee, SinkWriter, WriterContext
from penstock.core.redaction import shown_value

if TYPE_CHECKING:
    from penstock.files.area import FileArea

_BUFFER_KBYTES: Final = 64 << 10


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


def encoded_of(item: Item, area: FileArea) -> Iterator[Encoded]:
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
