import logging
import sys

from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import FlinkKafkaConsumer
from pyflink.table import EnvironmentSettings, StreamTableEnvironment  # noqa: F401

if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_jars("file:///opt/flink/lib/flink-sql-connector-kafka_2.11-1.14.0.jar")
    kafka_consumer = FlinkKafkaConsumer(
        topics="wild-in",
        deserialization_schema=SimpleStringSchema(),
        properties={"bootstrap.servers": "localhost:9092", "group.id": "test_group"},
    )
    kafka_consumer.set_start_from_earliest()
    ds = env.add_source(kafka_consumer)
    ds.map(lambda line: line.upper()).print()
    env.execute("consumer")
