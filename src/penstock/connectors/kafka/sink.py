"""Kafka as a sink, with the three guarantees of Flink's.

    KafkaSink.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic("totals")
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .build()

Without exactly-once, subtasks write to Kafka at once; at least once waits at the end of each epoch
until Kafka has it. With it, `publishing` writes when a checkpoint has completed.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from typing import Any, Final, Self

from penstock.connectors.kafka.client import Connection, is_lasting, produce_all, refused
from penstock.connectors.kafka.publishing import KafkaSinkSettings, PendingWriter, Publishing
from penstock.connectors.kafka.serializers import (
    Encoded,
    KafkaRecordSerializationSchema,
    KafkaSinkContext,
)
from penstock.connectors.sink import (
    Committer,
    DeliveryGuarantee,
    DirectSink,
    SinkWriter,
    WriterContext,
)
from penstock.core.errors import JobExecutionError, ProgramError

_log = logging.getLogger("penstock.kafka")

_FLUSH_S: Final = 1.0
_PREFIX_BYTES: Final = 6_400
_WANTS_MORE: Final = "DeliveryGuarantee.AT_LEAST_ONCE fails the job instead, and sends it again."


class KafkaSink(DirectSink):
    """Writes to Kafka; made by `KafkaSink.builder()`."""

    _default_name = "Kafka Sink"

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._of_subtask: dict[tuple[int, int], KafkaSinkSettings] = {}

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begins a sink.

        Example:
            >>> schema = KafkaRecordSerializationSchema.builder().set_topic("words")
            >>> schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
            >>> builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092")
            >>> words = builder.set_record_serializer(schema).build()
        """
        return KafkaSinkBuilder()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_of_subtask": {}}

    def connect(self) -> _Output:
        return _Output(self._settings)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        settings = self._opened(context.subtask, context.parallelism)
        if settings.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return PendingWriter(settings, context)
        return _DirectWriter(settings, self.client())

    def _opened(self, subtask: int, parallelism: int) -> KafkaSinkSettings:
        """Returns the settings with a schema of the subtask's own, which is open."""
        found = self._of_subtask.get((subtask, parallelism))
        if found is None:
            serializer = copy.deepcopy(self._settings.serializer)
            connection = Connection(self._settings.producer_properties())
            serializer.open(KafkaSinkContext(subtask, parallelism, connection.partitions_of))
            found = replace(self._settings, serializer=serializer)
            self._of_subtask[subtask, parallelism] = found
        return found

    def create_committer(self) -> Committer:
        # Whatever the guarantee is now: a savepoint may owe what was written exactly once before.
        return Publishing(self._settings)


class _Output:
    """A producer, and what it could not deliver; one for all epochs of a subtask."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._brokers = settings.properties["bootstrap.servers"]
        self._logs_failures = settings.logs_failures
        self._is_last_word = settings.guarantee is DeliveryGuarantee.NONE
        self._connection = Connection(
            {
                **settings.producer_properties(),
                "delivery.report.only.error": True,
                "on_delivery": self._not_delivered,
            }
        )
        self._producer = self._connection.producer()
        self._failure: tuple[str, Any] | None = None

    def _not_delivered(self, error: Any, message: Any) -> None:
        if self._logs_failures:
            _log.error("Kafka did not take a record for topic '%s': %s", message.topic(), error)
        elif self._failure is None:
            self._failure = message.topic(), error

    def write(self, encoded: Encoded) -> None:
        """Hands messages to the client, which sends them."""
        produce_all(self._producer, encoded.rows())
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        """Waits until Kafka has everything."""
        while self._producer.flush(_FLUSH_S):
            self._check()
        self._check()

    def _check(self) -> None:
        self._connection.check()
        if self._failure is not None:
            (topic, error), self._failure = self._failure, None
            if is_lasting(error):
                raise refused(f"a record for topic '{topic}'", error)
            raise JobExecutionError(
                f"Kafka at {self._brokers} did not take a record for topic '{topic}': "
                f"{error.str()}."
            )

    def close(self) -> None:
        left = self._producer.flush(_FLUSH_S)
        if self._is_last_word:
            # Nothing writes again, so nothing else would say it.
            if self._failure is not None:
                topic, error = self._failure
                _log.error(
                    "Kafka at %s did not take a record for topic '%s': %s. %s",
                    *(self._brokers, topic, error, _WANTS_MORE),
                )
            if left:
                _log.error(
                    "%d records were not sent to Kafka at %s before the sink was closed. %s",
                    *(left, self._brokers, _WANTS_MORE),
                )
        self._producer.close()


class _DirectWriter(SinkWriter):
    """Writes at once."""

    def __init__(self, settings: KafkaSinkSettings, output: _Output) -> None:
        self._settings = settings
        self._output = output

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        stamps = timestamps if self._settings.writes_timestamps else None
        self._output.write(self._settings.serializer.encode(values, stamps))

    def prepare_commit(self) -> list[Any]:
        if self._settings.guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            self._output.flush()
        return []


class KafkaSinkBuilder:
    """Builds a `KafkaSink`; brokers and a serializer of records are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._given: dict[str, Any] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Sets the addresses of brokers: `host:port`, with commas between them."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Chooses how often a record may reach Kafka; the default is NONE, as in Flink."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ProgramError(
                f"set_delivery_guarantee({delivery_guarantee!r:.80}) takes a DeliveryGuarantee."
            )
        self._given["guarantee"] = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """Sets how the ids of transactions begin, for the rights that Kafka grants by them.

        They are unique without it: job and uid of the sink are part of them.
        """
        if not 0 < len(transactional_id_prefix.encode()) <= _PREFIX_BYTES:
            raise ProgramError(
                f"set_transactional_id_prefix takes 1 to {_PREFIX_BYTES} bytes, but got "
                f"{len(transactional_id_prefix.encode())}."
            )
        self._given["prefix"] = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """Chooses what records become in Kafka."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ProgramError(
                f"set_record_serializer({record_serializer!r:.80}) takes what "
                "KafkaRecordSerializationSchema.builder()...build() returns."
            )
        self._given["serializer"] = record_serializer
        return self

    def set_property(self, key: str, value: str) -> Self:
        """Sets a property of the client, by the name that Java's or librdkafka has for it."""
        self._properties[str(key)] = str(value)
        return self

    def build(self) -> KafkaSink:
        """Returns the sink."""
        if not self._properties.get("bootstrap.servers"):
            raise ProgramError("a KafkaSink needs set_bootstrap_servers('host:port').")
        if "serializer" not in self._given:
            raise ProgramError("a KafkaSink needs set_record_serializer(...).")
        settings = KafkaSinkSettings(properties=dict(self._properties), **self._given)
        # Properties that no client takes are refused while the program is built.
        Connection(settings.producer_properties()).producer().close()
        return KafkaSink(settings)
