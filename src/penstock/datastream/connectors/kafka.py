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

FlinkKafkaConsumer = unsupported_class("datastream.connectors.kafka.FlinkKafkaConsumer")
FlinkKafkaConsumerBase = unsupported_class("datastream.connectors.kafka.FlinkKafkaConsumerBase")
FlinkKafkaProducer = unsupported_class("datastream.connectors.kafka.FlinkKafkaProducer")
FlinkKafkaProducerBase = unsupported_class("datastream.connectors.kafka.FlinkKafkaProducerBase")
KafkaOffsetResetStrategy = unsupported_class("datastream.connectors.kafka.KafkaOffsetResetStrategy")
KafkaOffsetsInitializer = unsupported_class("datastream.connectors.kafka.KafkaOffsetsInitializer")
KafkaRecordSerializationSchema = unsupported_class(
    "datastream.connectors.kafka.KafkaRecordSerializationSchema"
)
KafkaRecordSerializationSchemaBuilder = unsupported_class(
    "datastream.connectors.kafka.KafkaRecordSerializationSchemaBuilder"
)
KafkaSink = unsupported_class("datastream.connectors.kafka.KafkaSink")
KafkaSinkBuilder = unsupported_class("datastream.connectors.kafka.KafkaSinkBuilder")
KafkaSource = unsupported_class("datastream.connectors.kafka.KafkaSource")
KafkaSourceBuilder = unsupported_class("datastream.connectors.kafka.KafkaSourceBuilder")
KafkaTopicPartition = unsupported_class("datastream.connectors.kafka.KafkaTopicPartition")
KafkaTopicSelector = unsupported_class("datastream.connectors.kafka.KafkaTopicSelector")
Semantic = unsupported_class("datastream.connectors.kafka.Semantic")
