import os
import sys

from pyflink.common import WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors import KafkaSource
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
env.set_python_executable(sys.executable)
env.set_parallelism(1)
env.add_jars(f"file://{os.getcwd()}/jars/flink-sql-connector-kafka-3.1.0-1.18.jar")
earliest = True
offset = KafkaOffsetsInitializer.earliest() if earliest else KafkaOffsetsInitializer.latest()
kafka_source = (
    KafkaSource.builder()
    .set_properties({"bootstrap.servers": "localhost:9092", "group.id": "observability"})
    .set_topics("wild-in")
    .set_starting_offsets(offset)
    .set_value_only_deserializer(SimpleStringSchema("UTF-8"))
    .build()
)
ds = env.from_source(kafka_source, WatermarkStrategy.for_monotonous_timestamps(), "Kafka Source")
print("start reading data from kafka")
ds.print()
env.execute("Kafka Source Example")
