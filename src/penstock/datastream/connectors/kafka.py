"""PyFlink's `datastream.connectors.kafka`: Kafka as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy as KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer as KafkaOffsetsInitializer,
    KafkaTopicPartition as KafkaTopicPartition,
)
from penstock.connectors.kafka.older import (
    FlinkKafkaConsumer as FlinkKafkaConsumer,
    FlinkKafkaConsumerBase as FlinkKafkaConsumerBase,
    FlinkKafkaProducer as FlinkKafkaProducer,
    FlinkKafkaProducerBase as FlinkKafkaProducerBase,
    Semantic as Semantic,
)
from penstock.connectors.kafka.records import (
    KafkaRecord as KafkaRecord,
    KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
)
from penstock.connectors.kafka.serializers import (
    KafkaPartitioner as KafkaPartitioner,
    KafkaProducerRecord as KafkaProducerRecord,
    KafkaRecordSerializationSchema as KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder as KafkaRecordSerializationSchemaBuilder,
    KafkaSinkContext as KafkaSinkContext,
    KafkaTopicSelector as KafkaTopicSelector,
)
from penstock.connectors.kafka.sink import (
    KafkaSink as KafkaSink,
    KafkaSinkBuilder as KafkaSinkBuilder,
)
from penstock.connectors.kafka.source import (
    KafkaSource as KafkaSource,
    KafkaSourceBuilder as KafkaSourceBuilder,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
