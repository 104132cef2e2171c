from pyflink.common import Row, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
row = Types.ROW([Types.INT(), Types.STRING()])
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_group_id("csv")
    .set_starting_offsets(
        KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    )
    .set_value_only_deserializer(
        CsvRowDeserializationSchema.Builder(row).set_ignore_parse_errors(True).build()
    )
    .set_property("client.dns.lookup", "use_all_dns_ips")
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(
            CsvRowSerializationSchema.Builder(row).set_field_delimiter(";").build()
        )
        .build()
    )
    .build()
)
lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "csv")
lines.filter(lambda value: value[0] is not None).map(
    lambda value: Row(value[0] * 10, value[1]), output_type=row
).sink_to(sink)
env.execute("csv")
