"""The names of Flink 1, `FlinkKafkaConsumer` and `FlinkKafkaProducer`, on the same code."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.connectors.kafka.client import PENSTOCKS_OWN, Connection
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.connectors.kafka.publishing import KafkaSinkSettings
from penstock.connectors.kafka.reader import KafkaSourceSettings
from penstock.connectors.kafka.records import KafkaRecordDeserializationSchema
from penstock.connectors.kafka.serializers import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.source import KafkaSource
from penstock.connectors.sink import DeliveryGuarantee
from penstock.core.errors import ProgramError

if TYPE_CHECKING:
    from penstock.connectors.serialization import DeserializationSchema, SerializationSchema
    from penstock.core.types import TypeInformation


def _properties(given: Mapping[str, Any], who: str) -> dict[str, str]:
    properties = {str(key): str(value) for key, value in given.items()}
    if not properties.get("bootstrap.servers"):
        raise ProgramError(f"{who} needs the property 'bootstrap.servers': 'host:port'.")
    return properties


class FlinkKafkaConsumerBase(KafkaSource):
    """What `FlinkKafkaConsumer` can be told; each setter returns the source."""

    def _start(self, offsets: KafkaOffsetsInitializer) -> Self:
        self._settings = replace(self._settings, start=offsets)
        return self

    def set_start_from_earliest(self) -> Self:
        """Starts at the first record of each partition."""
        return self._start(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> Self:
        """Starts behind the last record of each partition."""
        return self._start(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Starts at the first record that is not older than a time in milliseconds."""
        return self._start(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Starts where the group is; without offsets as `auto.offset.reset` says."""
        return self._start(_of_group(self._settings.properties))

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Says whether the offsets of the group follow completed checkpoints."""
        told = {"commit.offsets.on.checkpoint": str(bool(commit_on_checkpoints))}
        self._settings = replace(self._settings, properties={**self._settings.properties, **told})
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Is the case already: what a checkpoint has begun is read on."""
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """Returns the type of the records; None if the schema declares none."""
        return self.produced_type()


_RESETS: Final = {
    "earliest": KafkaOffsetResetStrategy.EARLIEST,
    "latest": KafkaOffsetResetStrategy.LATEST,
    "none": KafkaOffsetResetStrategy.NONE,
}


def _of_group(properties: Mapping[str, str]) -> KafkaOffsetsInitializer:
    reset = properties.get("auto.offset.reset", "latest").lower()
    if reset not in _RESETS:
        raise ProgramError(
            f"auto.offset.reset is '{reset}'; it must be one of {', '.join(_RESETS)}."
        )
    return KafkaOffsetsInitializer.committed_offsets(_RESETS[reset])


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """A `KafkaSource` that starts where its group is.

    Args:
        topics: One topic, or a list.
        deserialization_schema: Makes records of values.
        properties: Of the client; brokers and group among them.
    """

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        message = "FlinkKafkaConsumer is deprecated in Flink since 1.16; use KafkaSource."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        # New partitions are looked for only where a program asks for it, as in Flink.
        known = {PENSTOCKS_OWN[0]: "-1"} if PENSTOCKS_OWN[1] not in properties else {}
        settings = KafkaSourceSettings(
            KafkaRecordDeserializationSchema.value_only(deserialization_schema),
            {**known, **_properties(properties, "FlinkKafkaConsumer")},
            topics=(topics,) if isinstance(topics, str) else tuple(topics),
        )
        Connection(settings.reader_properties()).consumer().close()
        super().__init__(replace(settings, start=_of_group(settings.properties)))


class Semantic(Enum):
    """The guarantees of `FlinkKafkaProducer`."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase(KafkaSink):
    """What `FlinkKafkaProducer` can be told."""

    def _set(self, **changes: Any) -> Self:
        self._settings = replace(self._settings, **changes)
        return self

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Says whether what Kafka does not take is logged instead of raised."""
        return self._set(logs_failures=bool(log_failures_only))

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Says whether a checkpoint waits until Kafka has everything."""
        if self._settings.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return self
        wanted = DeliveryGuarantee.AT_LEAST_ONCE if flush_on_checkpoint else DeliveryGuarantee.NONE
        return self._set(guarantee=wanted)

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Says whether the event time of a record is the timestamp of its message."""
        return self._set(writes_timestamps=bool(write_timestamp_to_kafka))


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """A `KafkaSink` of values in one topic.

    Args:
        topic: The topic.
        serialization_schema: Makes values of records.
        producer_config: Properties of the client; brokers among them.
        kafka_producer_pool_size: Is not needed: no transaction is open between checkpoints.
        semantic: The guarantee.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
        serializer.set_value_serialization_schema(serialization_schema)
        settings = KafkaSinkSettings(
            serializer.build(),
            _properties(producer_config, "FlinkKafkaProducer"),
            DeliveryGuarantee[semantic.name],
            writes_timestamps=False,
        )
        Connection(settings.producer_properties()).producer().close()
        super().__init__(settings)

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Is not needed: no transaction is open while a job is away."""
        return self
