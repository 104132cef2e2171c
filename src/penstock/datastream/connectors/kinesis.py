"""PyFlink's `datastream.connectors.kinesis`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]

FlinkKinesisConsumer = unsupported_class("datastream.connectors.kinesis.FlinkKinesisConsumer")
KinesisDeserializationSchema = unsupported_class(
    "datastream.connectors.kinesis.KinesisDeserializationSchema"
)
KinesisFirehoseSink = unsupported_class("datastream.connectors.kinesis.KinesisFirehoseSink")
KinesisFirehoseSinkBuilder = unsupported_class(
    "datastream.connectors.kinesis.KinesisFirehoseSinkBuilder"
)
KinesisShardAssigner = unsupported_class("datastream.connectors.kinesis.KinesisShardAssigner")
KinesisStreamsSink = unsupported_class("datastream.connectors.kinesis.KinesisStreamsSink")
KinesisStreamsSinkBuilder = unsupported_class(
    "datastream.connectors.kinesis.KinesisStreamsSinkBuilder"
)
PartitionKeyGenerator = unsupported_class("datastream.connectors.kinesis.PartitionKeyGenerator")
WatermarkTracker = unsupported_class("datastream.connectors.kinesis.WatermarkTracker")
