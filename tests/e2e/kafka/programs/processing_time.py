import argparse
import json

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.time import Time
from pyflink.datastream import (
    DataStream,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import ReduceFunction
from pyflink.datastream.window import TumblingProcessingTimeWindows


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


def pipeline(ds: DataStream) -> DataStream:
    return (
        ds.map(
            lambda x: (json.loads(x)["sensor"], json.loads(x)["value"]),
            output_type=Types.TUPLE([Types.STRING(), Types.INT()]),
        )
        .key_by(lambda x: x[0], key_type=Types.STRING())
        .window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
        .reduce(Sum())
        .map(lambda x: f"{x[0]}={x[1]}", output_type=Types.STRING())
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", default="localhost:9092")
    arguments, _ = parser.parse_known_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    env.set_buffer_timeout(100)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.bootstrap)
        .set_topics("wild-in")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    pipeline(env.from_source(source, WatermarkStrategy.no_watermarks(), "sensors")).print()
    env.execute("sensors")
