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

DynamicKafkaSource = unsupported_class(__name__, "DynamicKafkaSource")
DynamicKafkaSourceBuilder = unsupported_class(__name__, "DynamicKafkaSourceBuilder")
KafkaMetadataService = unsupported_class(__name__, "KafkaMetadataService")
KafkaRecordDeserializationSchema = unsupported_class(__name__, "KafkaRecordDeserializationSchema")
KafkaStreamSetSubscriber = unsupported_class(__name__, "KafkaStreamSetSubscriber")
KafkaStreamSubscriber = unsupported_class(__name__, "KafkaStreamSubscriber")
SingleClusterTopicMetadataService = unsupported_class(__name__, "SingleClusterTopicMetadataService")
StreamPatternSubscriber = unsupported_class(__name__, "StreamPatternSubscriber")
