from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)
from pyflink.table import Row

TRADE = """{"type": "record", "name": "Trade", "fields": [
  {"name": "symbol", "type": "string"}, {"name": "kind", "type": "string"}]}"""
ADVICE = """{"type": "record", "name": "Advice", "fields": [
  {"name": "symbol", "type": "string"}, {"name": "advice", "type": "string"}]}"""


def advise(trade):
    return Row(symbol=trade["symbol"], advice={"I": "BUY", "E": "SELL"}.get(trade["kind"], "BUY"))


env = StreamExecutionEnvironment.get_execution_environment()
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(AvroRowDeserializationSchema(avro_schema_string=TRADE))
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(AvroRowSerializationSchema(avro_schema_string=ADVICE))
        .build()
    )
    .build()
)
advice = Types.ROW_NAMED(["symbol", "advice"], [Types.STRING(), Types.STRING()])
env.from_source(source, WatermarkStrategy.no_watermarks(), "trades").map(
    advise, output_type=advice
).sink_to(sink)
env.execute()
