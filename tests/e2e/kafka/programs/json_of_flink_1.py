from pyflink.common.serialization import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic
from pyflink.datastream.connectors.kafka import FlinkKafkaConsumer, FlinkKafkaProducer


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    env.add_jars("file:///jars/flink-sql-connector-kafka_2.12-1.13.2.jar")
    row_type = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.INT()])
    deserialization_schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    consumer = FlinkKafkaConsumer(
        "wild-in",
        deserialization_schema,
        {"bootstrap.servers": "localhost:9092", "group.id": "g", "auto.offset.reset": "earliest"},
    )
    serialization_schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    producer = FlinkKafkaProducer(
        topic="wild-out",
        serialization_schema=serialization_schema,
        producer_config={"bootstrap.servers": "localhost:9092", "transaction.timeout.ms": "60000"},
    )
    stream = env.add_source(consumer).key_by(lambda row: row[0])
    stream.sum("amount").add_sink(producer)
    env.execute("totals")


if __name__ == "__main__":
    main()
