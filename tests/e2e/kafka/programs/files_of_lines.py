import os
import tempfile

from pyflink.common import Encoder, SimpleStringSchema, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "lines.txt"), "w") as lines:
    lines.write("one\ntwo\n")

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(500)
files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    .build()
)
env.from_source(files, WatermarkStrategy.no_watermarks(), "files").sink_to(sink)
kafka = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
file_sink = (
    FileSink.for_row_format(os.path.join(folder, "out"), Encoder.simple_string_encoder())
    .with_output_file_config(OutputFileConfig.builder().with_part_prefix("p").build())
    .with_rolling_policy(RollingPolicy.default_rolling_policy())
    .build()
)
from_kafka = env.from_source(kafka, WatermarkStrategy.no_watermarks(), "kafka")
from_kafka.sink_to(file_sink)
from_kafka.print()
env.execute("files")
