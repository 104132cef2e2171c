"""PyFlink's `datastream.connectors`: where records come from and go to."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.datastream.connectors.base import (
    DeliveryGuarantee as DeliveryGuarantee,
    Sink as Sink,
    Source as Source,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner as BucketAssigner,
    BulkFormat as BulkFormat,
    FileEnumeratorProvider as FileEnumeratorProvider,
    FileSink as FileSink,
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    FileSplitAssignerProvider as FileSplitAssignerProvider,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
    StreamFormat as StreamFormat,
    StreamingFileSink as StreamingFileSink,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource as NumberSequenceSource
from penstock.datastream.connectors.python import (
    DataGeneratorSource as DataGeneratorSource,
    PythonSink as PythonSink,
    PythonSource as PythonSource,
    SparkSink as SparkSink,
)

__getattr__ = facade(
    __name__,
    also=(
        "DynamicKafkaSource DynamicKafkaSourceBuilder FlinkKafkaConsumer FlinkKafkaProducer "
        "JdbcConnectionOptions JdbcExecutionOptions JdbcSink KafkaMetadataService "
        "KafkaRecordDeserializationSchema KafkaSource KafkaStreamSetSubscriber "
        "KafkaStreamSubscriber PulsarSource PulsarSourceBuilder RMQConnectionConfig RMQSink "
        "RMQSource Semantic SingleClusterTopicMetadataService StartCursor StopCursor "
        "StreamPatternSubscriber "
    ),
)
