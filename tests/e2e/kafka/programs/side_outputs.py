import json

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

dlq = OutputTag("dead-letters", Types.STRING())


class Parse(ProcessFunction):
    def process_element(self, value, ctx):
        try:
            yield json.dumps({"id": json.loads(value)["id"]})
        except (ValueError, KeyError):
            yield dlq, value


def sink(topic):
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_record_serializer(schema)
        .build()
    )


env = StreamExecutionEnvironment.get_execution_environment()
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_group_id("dlq")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
parsed = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").process(
    Parse(), output_type=Types.STRING()
)
parsed.sink_to(sink("wild-out"))
parsed.get_side_output(dlq).sink_to(sink("wild-more"))
env.execute("dead letters")
