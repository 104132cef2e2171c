"""What a record becomes in Kafka: topic, key, value, headers, partition and timestamp."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple, Self

from penstock.connectors.serialization import SerializationSchema
from penstock.core.errors import ProgramError, shorten
from penstock.core.times import MAX_TIMESTAMP, NO_TIMESTAMP

Header = tuple[str, bytes | None]


class KafkaProducerRecord(NamedTuple):
    """A message to be written.

    Attributes:
        topic: Its topic.
        value: Its value; None is a tombstone.
        key: Its key, by which Kafka chooses the partition.
        partition: Its partition; None leaves it to Kafka.
        timestamp: Milliseconds since 1970; None means the event time of the record, or now.
        headers: Names and values, in order.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()


class Encoded(NamedTuple):
    """Messages by columns; what is None holds for none of them."""

    topics: list[str] | str
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    timestamps: list[int] | None = None  # 0 means now.
    partitions: list[int] | None = None  # -1 leaves it to Kafka.
    headers: list[list[Header] | None] | None = None

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yields topic, value, key, partition, timestamp and headers of each."""
        return zip(
            repeat(self.topics) if isinstance(self.topics, str) else self.topics,
            self.values,
            repeat(None) if self.keys is None else self.keys,
            repeat(-1) if self.partitions is None else self.partitions,
            repeat(0) if self.timestamps is None else self.timestamps,
            repeat(None) if self.headers is None else self.headers,
            strict=False,
        )


class KafkaSinkContext(NamedTuple):
    """What a schema may know about the subtask that writes, and about topics.

    Attributes:
        subtask: Index of the subtask.
        parallelism: How many subtasks the sink has.
        partitions_of: Returns the partitions that a topic has now.
    """

    subtask: int
    parallelism: int
    partitions_of: Callable[[str], list[int]]


class KafkaPartitioner(ABC):
    """Chooses the partition of a record."""

    def open(self, subtask: int, parallelism: int) -> None:
        """Is called in each subtask before the first record."""

    @abstractmethod
    def partition(
        self,
        record: Any,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partitions: list[int],
    ) -> int:
        """Returns one of the partitions of the topic."""


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Returns the topic."""


class KafkaRecordSerializationSchema(ABC):
    """Makes messages of records; build one, or subclass it for headers, partitions and so on."""

    def open(self, context: KafkaSinkContext) -> None:
        """Is called in each subtask before the first record."""

    @abstractmethod
    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord | None:
        """Returns the message for a record, or None to leave the record out.

        Args:
            element: The record.
            timestamp: Its event time in milliseconds; None if it has none.
        """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begins a schema of a topic, a value and perhaps a key.

        Example:
            >>> builder = KafkaRecordSerializationSchema.builder().set_topic("words")
            >>> words = builder.set_value_serialization_schema(SimpleStringSchema()).build()
        """
        return KafkaRecordSerializationSchemaBuilder()

    def encode(self, elements: list[Any], timestamps: list[int] | None) -> Encoded:
        """Returns the messages for records."""
        stamps: Iterable[int] = repeat(NO_TIMESTAMP) if timestamps is None else timestamps
        made = []
        for element, stamp in zip(elements, stamps, strict=False):
            record = self.serialize(element, None if stamp < 0 else stamp)
            if record is not None:
                at = record.timestamp
                # What counts and global windows emit is of the end of all time.
                known = 0 if stamp == MAX_TIMESTAMP else max(stamp, 0)
                made.append(record._replace(timestamp=known if at is None else at))
        return Encoded(
            [each.topic for each in made],
            [each.value for each in made],
            [each.key for each in made],
            [each.timestamp or 0 for each in made],
            [-1 if each.partition is None else each.partition for each in made],
            [list(each.headers) or None for each in made],
        )


class _Built(KafkaRecordSerializationSchema):
    """A value, perhaps a key, and a topic that is always the same or depends on the record."""

    def __init__(
        self,
        topic: str | Callable[[Any], str],
        value: SerializationSchema,
        key: SerializationSchema | None,
        headers: Callable[[Any], Iterable[Header]] | None,
        partitioner: KafkaPartitioner | None,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._partitioner = partitioner
        self._partitions_of: Callable[[str], list[int]] | None = None

    def open(self, context: KafkaSinkContext) -> None:
        self._partitions_of = context.partitions_of
        if self._partitioner is not None:
            self._partitioner.open(context.subtask, context.parallelism)

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord | None:
        encoded = self.encode([element], None if timestamp is None else [timestamp])
        topic, value, key, _, stamp, headers = next(encoded.rows())
        return KafkaProducerRecord(topic, value, key, None, stamp or None, tuple(headers or ()))

    def encode(self, elements: list[Any], timestamps: list[int] | None) -> Encoded:
        topic, headers = self._topic, self._headers
        if timestamps and (min(timestamps) < 0 or max(timestamps) == MAX_TIMESTAMP):
            timestamps = [0 if stamp == MAX_TIMESTAMP else max(stamp, 0) for stamp in timestamps]
        encoded = Encoded(
            topic if isinstance(topic, str) else [_checked(topic(e), e) for e in elements],
            self._value.serialize_all(elements),
            None if self._key is None else self._key.serialize_all(elements),
            timestamps,
            None,
            None if headers is None else [list(headers(element)) or None for element in elements],
        )
        if self._partitioner is None:
            return encoded
        return encoded._replace(partitions=list(self._chosen(elements, encoded)))

    def _chosen(self, elements: list[Any], encoded: Encoded) -> Iterator[int]:
        assert self._partitioner is not None
        if self._partitions_of is None:
            raise ProgramError("a KafkaRecordSerializationSchema is opened before it serializes.")
        known: dict[str, list[int]] = {}
        for element, (topic, value, key, *_) in zip(elements, encoded.rows(), strict=True):
            if topic not in known:
                known[topic] = self._partitions_of(topic)
            chosen = self._partitioner.partition(element, key, value, topic, known[topic])
            if chosen not in known[topic]:
                raise ProgramError(
                    f"the partitioner returned {chosen!r:.80} for {shorten(element)}; topic "
                    f"'{topic}' has the partitions {known[topic]}."
                )
            yield chosen


def _checked(topic: Any, element: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise ProgramError(
            f"the topic selector returned {topic!r:.80} for {shorten(element)}; it must return the "
            "name of a topic."
        )
    return topic


class _Choosing(KafkaPartitioner):
    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function

    def partition(self, *of_record: Any) -> int:
        return self._function(*of_record)


class KafkaRecordSerializationSchemaBuilder:
    """Builds a `KafkaRecordSerializationSchema`; a topic and a schema of the value are needed."""

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._value: SerializationSchema | None = None
        self._key: SerializationSchema | None = None
        self._headers: Callable[[Any], Iterable[Header]] | None = None
        self._partitioner: KafkaPartitioner | None = None

    def set_topic(self, topic: str) -> Self:
        """Writes all records to one topic."""
        if not isinstance(topic, str) or not topic:
            raise ProgramError(f"set_topic({topic!r:.80}) takes the name of a topic.")
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """Chooses the topic of each record by a function of it."""
        if isinstance(topic_selector, KafkaTopicSelector):
            topic_selector = topic_selector.apply
        if not callable(topic_selector):
            raise ProgramError(
                f"set_topic_selector({topic_selector!r:.80}) takes a KafkaTopicSelector or a "
                "function of a record."
            )
        self._topic = topic_selector
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Makes the key of the record; without it messages have none."""
        self._key = _schema(key_serialization_schema, "set_key_serialization_schema")
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> Self:
        """Makes the value of the record."""
        self._value = _schema(value_serialization_schema, "set_value_serialization_schema")
        return self

    def set_header_provider(self, header_provider: Callable[[Any], Iterable[Header]]) -> Self:
        """Makes the headers of the record: names and bytes, in order."""
        self._headers = header_provider
        return self

    def set_partitioner(self, partitioner: Callable[..., int] | KafkaPartitioner) -> Self:
        """Chooses the partition of each record.

        Without it, Kafka does: by the key as Java's client, and without a key one partition after
        another.

        Args:
            partitioner: A `KafkaPartitioner`, or a function of the record, its key and value as
                bytes, the topic, and the list of its partitions.

        Example:
            >>> def by_length(record, key, value, topic, partitions):
            ...     return partitions[len(value) % len(partitions)]
            >>> builder = KafkaRecordSerializationSchema.builder().set_partitioner(by_length)
        """
        if not isinstance(partitioner, KafkaPartitioner):
            if not callable(partitioner):
                raise ProgramError(
                    f"set_partitioner({partitioner!r:.80}) takes a KafkaPartitioner or a function "
                    "(record, key, value, topic, partitions) -> partition."
                )
            partitioner = _Choosing(partitioner)
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Returns the schema."""
        if self._topic is None:
            raise ProgramError(
                "a KafkaRecordSerializationSchema needs set_topic(...) or set_topic_selector(...)."
            )
        if self._value is None:
            raise ProgramError(
                "a KafkaRecordSerializationSchema needs set_value_serialization_schema(...), for "
                "example with SimpleStringSchema()."
            )
        return _Built(self._topic, self._value, self._key, self._headers, self._partitioner)


def _schema(given: Any, verb: str) -> SerializationSchema:
    if not isinstance(given, SerializationSchema):
        raise ProgramError(
            f"{verb}({given!r:.80}) takes a SerializationSchema, for example SimpleStringSchema()."
        )
    return given
