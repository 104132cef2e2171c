"""PyFlink's `datastream.connectors.kafka`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

FlinkKafkaConsumer = unsupported_class(__name__, "FlinkKafkaConsumer")
FlinkKafkaConsumerBase = unsupported_class(__name__, "FlinkKafkaConsumerBase")
FlinkKafkaProducer = unsupported_class(__name__, "FlinkKafkaProducer")
FlinkKafkaProducerBase = unsupported_class(__name__, "FlinkKafkaProducerBase")
KafkaOffsetResetStrategy = unsupported_class(__name__, "KafkaOffsetResetStrategy")
KafkaOffsetsInitializer = unsupported_class(__name__, "KafkaOffsetsInitializer")
KafkaRecordSerializationSchema = unsupported_class(__name__, "KafkaRecordSerializationSchema")
KafkaRecordSerializationSchemaBuilder = unsupported_class(
    __name__, "KafkaRecordSerializationSchemaBuilder"
)
KafkaSink = unsupported_class(__name__, "KafkaSink")
KafkaSinkBuilder = unsupported_class(__name__, "KafkaSinkBuilder")
KafkaSource = unsupported_class(__name__, "KafkaSource")
KafkaSourceBuilder = unsupported_class(__name__, "KafkaSourceBuilder")
KafkaTopicPartition = unsupported_class(__name__, "KafkaTopicPartition")
KafkaTopicSelector = unsupported_class(__name__, "KafkaTopicSelector")
Semantic = unsupported_class(__name__, "Semantic")
