from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)


def word_count():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(1)
    kafka_source = (
        KafkaSource.builder()
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bootstrap_servers("localhost:9092")
        .set_topics("wild-in")
        .set_group_id("group_id")
        .build()
    )
    ds = env.from_source(
        source=kafka_source,
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="kafka_source",
    )

    def split(line):
        yield from line.split()

    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
        .map(lambda i: f"{i[0]}: {i[1]}", output_type=Types.STRING())
    )
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
    ds.sink_to(sink)
    env.execute()


word_count()
