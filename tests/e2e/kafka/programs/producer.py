import json

from pyflink.common import Types
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import (
    FlinkKafkaProducer,
    StreamingFileSink,  # noqa: F401
)
from pyflink.table import DataTypes, Schema, TableDescriptor  # noqa: F401
from pyflink.table.udf import udf  # noqa: F401


def write_to_kafka():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars("file:///C:/flink/flink-sql-connector-kafka-1.16.0.jar")
    env.add_classpaths("file:///C:/flink/flink-sql-connector-kafka-1.16.0.jar")
    ds = env.from_collection(
        [(1, "Ann"), (2, "Bob")], type_info=Types.TUPLE([Types.INT(), Types.STRING()])
    ).map(lambda pair: json.dumps({"id": pair[0], "name": pair[1]}), output_type=Types.STRING())
    kafka_producer = FlinkKafkaProducer(
        topic="wild-out",
        serialization_schema=SimpleStringSchema(),
        producer_config={"bootstrap.servers": "localhost:9092", "group.id": "test_group"},
    )
    ds.add_sink(kafka_producer)
    env.execute()


if __name__ == "__main__":
    write_to_kafka()
