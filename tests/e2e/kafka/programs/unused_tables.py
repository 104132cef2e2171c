import json
import logging
import sys

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import FlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import (  # noqa: F401
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from pyflink.table.expressions import col, lit  # noqa: F401
from pyflink.table.window import Tumble  # noqa: F401


class Amounts(FlatMapFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("amounts", Types.PICKLED_BYTE_ARRAY())
        self.state = runtime_context.get_state(descriptor)

    def flat_map(self, value):
        count, buffer = self.state.value() or (0, [])
        buffer.append(value["amount"])
        self.state.update((count + 1, buffer[-3:]))
        value["last"] = buffer[-3:]
        yield value


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    config = Configuration()
    config.set_string("pipeline.jars", "file:///opt/flink/flink-connector-kafka-1.17.1.jar")
    config.set_string("python.client.executable", sys.executable)
    config.set_integer("parallelism.default", 1)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("wild-in")
        .set_group_id("test_group")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    ds = env.from_source(source, WatermarkStrategy.no_watermarks(), "Kafka Source")
    ds = ds.map(lambda x: json.loads(x)).key_by(lambda x: x["user"]).flat_map(Amounts())
    ds.map(lambda x: str(x), output_type=Types.STRING()).print()
    env.execute("amounts")
