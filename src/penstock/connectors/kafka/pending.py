"""Pending output: what a subtask has for Kafka waits in files until a checkpoint has completed.

The files are those of `WriterContext.area`, as files of state are: checkpoints and savepoints hold
them, and they are removed when they have been published, or when their attempt is dead. Small ones
travel in the committable itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.connectors.kafka.client import translated
from penstock.connectors.kafka.serializers import Encoded, KafkaRecordSerializationSchema
from penstock.connectors.sink import DeliveryGuarantee, SinkWriter, WriterContext
from penstock.core.errors import JobExecutionError, StateError
from penstock.core.handles import FileHandle
from penstock.core.redaction import shown_value

if TYPE_CHECKING:
    from penstock.files.area import FileArea

_FILE_BYTES: Final = 4 << 20
"""About so much lies in one file, so that a subtask holds no more of an epoch in memory."""
_BUFFER_KBYTES: Final = 64 << 10

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


class PendingWriter(SinkWriter):
    """Writes the pending output of one subtask and epoch."""

    def __init__(self, settings: KafkaSinkSettings, context: WriterContext) -> None:
        assert context.area is not None
        self._settings = settings
        self._context = context
        self._area = context.area
        sink = hashlib.sha256(f"{context.job_id}/{context.uid}".encode()).hexdigest()
        self._transaction = f"{settings.prefix}-{sink[:24]}"
        self._name = f"{context.attempt_id}-{context.subtask}"
        self._file_name = f"{self._name}-{sink[:8]}.kafka"
        self._frames = bytearray()
        self._handles: list[FileHandle] = []
        self._records = 0
        self._topic = ""

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
        if len(self._frames) >= _FILE_BYTES:
            self._write_file()

    def _write_file(self) -> None:
        name = f"{self._file_name}.{len(self._handles)}"
        self._handles.append(self._area.write(name, bytes(self._frames)))
        self._frames = bytearray()

    def prepare_commit(self) -> list[Any]:
        if not self._records:
            return []
        if self._frames:
            self._write_file()
        context = self._context
        return [
            {
                "transaction": self._transaction,
                "place": [*context.attempt, context.epoch, context.subtask],
                "written_ms": context.now_ms,
                "name": self._name,
                "topic": self._topic,
                "records": self._records,
                "size": sum(handle.size_bytes for handle in self._handles),
                "files": [[h.name, h.size_bytes, h.sha256, h.inline] for h in self._handles],
            }
        ]


def files_of(item: Item) -> list[FileHandle]:
    """Returns the files that a committable names."""
    handles = [FileHandle(*each) for each in item["files"]]
    for handle in handles:
        if Path(handle.name).name != handle.name:  # A snapshot may come from anywhere.
            raise JobExecutionError(
                f"pending output for Kafka has the name {handle.name!r}, which is not the name of "
                "a file. The snapshot was not written by Penstock; start from another one."
            )
    return handles


def encoded_of(item: Item, area: FileArea) -> Iterator[Encoded]:
    """Yields what a committable names, in the order in which it was written."""
    for handle in files_of(item):
        try:
            frames = area.read(handle)
        except StateError as error:
            raise JobExecutionError(
                f"pending output for Kafka cannot be read, {item['records']} records that have not "
                f"been published: {error}"
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
