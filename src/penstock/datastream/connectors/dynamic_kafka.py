"""PyFlink's `datastream.connectors.dynamic_kafka`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]

DynamicKafkaSource = unsupported_class("datastream.connectors.dynamic_kafka.DynamicKafkaSource")
DynamicKafkaSourceBuilder = unsupported_class(
    "datastream.connectors.dynamic_kafka.DynamicKafkaSourceBuilder"
)
KafkaMetadataService = unsupported_class("datastream.connectors.dynamic_kafka.KafkaMetadataService")
KafkaRecordDeserializationSchema = unsupported_class(
    "datastream.connectors.dynamic_kafka.KafkaRecordDeserializationSchema"
)
KafkaStreamSetSubscriber = unsupported_class(
    "datastream.connectors.dynamic_kafka.KafkaStreamSetSubscriber"
)
KafkaStreamSubscriber = unsupported_class(
    "datastream.connectors.dynamic_kafka.KafkaStreamSubscriber"
)
SingleClusterTopicMetadataService = unsupported_class(
    "datastream.connectors.dynamic_kafka.SingleClusterTopicMetadataService"
)
StreamPatternSubscriber = unsupported_class(
    "datastream.connectors.dynamic_kafka.StreamPatternSubscriber"
)
