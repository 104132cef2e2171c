"""What becomes of a message of Kafka, and what a record becomes: schemas with key and headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.connectors.kafka.client import library
from penstock.connectors.serialization import DeserializationSchema
from penstock.core.copies import IMMUTABLE, snapshot
from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation


class KafkaRecord(NamedTuple):
    """A message of Kafka as it was read.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its offset there.
        timestamp: Milliseconds since 1970.
        key: Its key, decoded if the schema says so; None without one.
        value: Its value, decoded if the schema says so; None for a tombstone.
        headers: Names and values, in order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaRecordDeserializationSchema(ABC):
    """Makes records of whole messages: with key, headers, topic, partition, offset, timestamp."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Any:
        """Returns the record for a message of bytes, or None to leave the message out."""

    @staticmethod
    def value_only(schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Takes the value alone; tombstones are left out.

        Example:
            >>> words = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
        """
        if not isinstance(schema, DeserializationSchema):
            raise ProgramError(
                f"{schema!r:.80} is no DeserializationSchema; use for example SimpleStringSchema()."
            )
        return ValueOnly(schema)

    @staticmethod
    def records(
        key: DeserializationSchema | None = None, value: DeserializationSchema | None = None
    ) -> KafkaRecordDeserializationSchema:
        """Gives each message as a `KafkaRecord`, tombstones too.

        Args:
            key: Decodes keys; None leaves them bytes.
            value: Decodes values; None leaves them bytes.

        Example:
            >>> with_keys = KafkaRecordDeserializationSchema.records(SimpleStringSchema())
        """
        return _Records(key, value)

    def get_produced_type(self) -> TypeInformation | None:
        """Returns the type of the records; None if it is not declared."""
        return None

    @property
    def ignores_errors(self) -> bool:
        """Whether messages without a record could not be decoded."""
        return False

    def decode(self, messages: list[Any]) -> tuple[list[Any], list[int]]:
        """Returns the records of messages of the client, and their timestamps."""
        deserialize = self.deserialize
        values = [
            value if type(value := deserialize(each)) in IMMUTABLE else snapshot(value)
            for each in map(_record, messages)
        ]
        return _kept(values, timestamps_of(messages))


class ValueOnly(KafkaRecordDeserializationSchema):
    """The value alone."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.value is None else self._schema.deserialize(record.value)

    @property
    def ignores_errors(self) -> bool:
        return self._schema.ignores_errors

    def get_produced_type(self) -> TypeInformation | None:
        return self._schema.get_produced_type()

    def decode(self, messages: list[Any]) -> tuple[list[Any], list[int]]:
        raw = list(map(library().Message.value, messages))
        timestamps = timestamps_of(messages)
        if None in raw:
            raw, timestamps = _kept(raw, timestamps)
        values = self._schema.deserialize_all(raw)
        return _kept(values, timestamps) if self._schema.may_leave_out else (values, timestamps)


class _Records(KafkaRecordDeserializationSchema):
    def __init__(
        self, key: DeserializationSchema | None, value: DeserializationSchema | None
    ) -> None:
        self._key = key
        self._value = value

    def deserialize(self, record: KafkaRecord) -> Any:
        key, value = _decoded(self._key, record.key), _decoded(self._value, record.value)
        return record._replace(key=key, value=value)


def _decoded(schema: DeserializationSchema | None, data: bytes | None) -> Any:
    return data if schema is None or data is None else schema.deserialize(data)


def _record(message: Any) -> KafkaRecord:
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def timestamps_of(messages: list[Any]) -> list[int]:
    """Returns the timestamps of messages of the client."""
    timestamps = [stamp for _, stamp in map(library().Message.timestamp, messages)]
    if timestamps and min(timestamps) < 0:
        return [stamp if stamp >= 0 else NO_TIMESTAMP for stamp in timestamps]
    return timestamps


def _kept(values: list[Any], timestamps: list[int]) -> tuple[list[Any], list[int]]:
    """Leaves out what is None."""
    if all(value is not None for value in values):
        return values, timestamps
    kept = [
        (value, stamp) for value, stamp in zip(values, timestamps, strict=True) if value is not None
    ]
    return [value for value, _ in kept], [stamp for _, stamp in kept]


def decoded_apart(
    schema: KafkaRecordDeserializationSchema, messages: list[Any]
) -> tuple[list[Any], list[int], tuple[list[Any], list[int]]]:
    """Returns the records of messages of which some cannot be decoded, and these with timestamps.

    What cannot be decoded stays bytes, and has the reason as its last header.
    """
    values: list[Any] = []
    timestamps: list[int] = []
    rejected: list[Any] = []
    for message in messages:
        try:
            found, stamps = schema.decode([message])
        except OSError as error:
            raise undecodable(schema, [message], error) from error
        except Exception as error:
            record = _record(message)
            reason = "error", f"{type(error).__name__}: {error}".encode()
            rejected.append(record._replace(headers=(*record.headers, reason)))
        else:
            values += found
            timestamps += stamps
    stamps = [max(each.timestamp, NO_TIMESTAMP) for each in rejected]
    return values, timestamps, (rejected, stamps)


def undecodable(
    schema: KafkaRecordDeserializationSchema, messages: list[Any], error: Exception
) -> JobExecutionError:
    """Returns the error for messages that raised, with the address of the first that does."""
    for message in messages:
        try:
            schema.deserialize(_record(message))
        except Exception as found:
            # What a schema looks up elsewhere may be there at the next try.
            kind = JobExecutionError if isinstance(found, OSError) else InputError
            return kind(
                f"the record at offset {message.offset()} of partition {message.partition()} of "
                f"Kafka's topic '{message.topic()}' cannot be decoded: {type(found).__name__}: "
                f"{found}. Its value is {shorten(message.value())}. To go on without such records, "
                "send them to a side output: set_on_error('side_output', OutputTag('undecodable'))."
            )
    return JobExecutionError(f"records of Kafka cannot be decoded: {error}")
