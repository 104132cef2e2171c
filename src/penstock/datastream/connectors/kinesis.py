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

FlinkKinesisConsumer = unsupported_class(__name__, "FlinkKinesisConsumer")
KinesisDeserializationSchema = unsupported_class(__name__, "KinesisDeserializationSchema")
KinesisFirehoseSink = unsupported_class(__name__, "KinesisFirehoseSink")
KinesisFirehoseSinkBuilder = unsupported_class(__name__, "KinesisFirehoseSinkBuilder")
KinesisShardAssigner = unsupported_class(__name__, "KinesisShardAssigner")
KinesisStreamsSink = unsupported_class(__name__, "KinesisStreamsSink")
KinesisStreamsSinkBuilder = unsupported_class(__name__, "KinesisStreamsSinkBuilder")
PartitionKeyGenerator = unsupported_class(__name__, "PartitionKeyGenerator")
WatermarkTracker = unsupported_class(__name__, "WatermarkTracker")
