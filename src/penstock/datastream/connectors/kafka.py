"""PyFlink's `datastream.connectors.kafka`: Kafka as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.connectors.kafka.records import KafkaRecord, KafkaRecordDeserializationSchema
from penstock.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from penstock.core.refused_names import names_of

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]

__getattr__ = names_of(__name__)
