from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pyflink.datastream.functions import AggregateFunction

READING = Types.ROW([Types.STRING(), Types.DOUBLE()])


class Average(AggregateFunction):
    def create_accumulator(self):
        return "", 0.0, 0

    def add(self, value, accumulator):
        return value[0], accumulator[1] + value[1], accumulator[2] + 1

    def get_result(self, accumulator):
        return Row(accumulator[0], accumulator[1] / accumulator[2])

    def merge(self, a, b):
        return a[0], a[1] + b[1], a[2] + b[2]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_group_id("csv")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(
        CsvRowDeserializationSchema.Builder(READING).set_field_delimiter(";").build()
    )
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(
            CsvRowSerializationSchema.Builder(READING).set_line_delimiter("").build()
        )
        .build()
    )
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "csv").key_by(
    lambda row: row[0], key_type=Types.STRING()
).count_window(2).aggregate(Average(), output_type=READING).sink_to(sink)
env.execute("averages")
