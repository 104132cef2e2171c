import json
import logging
from pathlib import Path

from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction

logger = logging.getLogger(__name__)


class Reading(MapFunction):
    def map(self, value):
        data = json.loads(value)
        return data["thermometer"], data["at"], data["celsius"]


class Alarms(KeyedProcessFunction):
    def process_element(self, value, ctx):
        name, at, celsius = value
        if celsius < 0.0:
            yield json.dumps({"thermometer": name, "at": at, "celsius": celsius})


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    jars = [f"file://{path}" for path in sorted(Path("/opt/flink/lib").glob("flink-*kafka*"))]
    if jars:
        env.add_jars(*jars)
    properties = {"bootstrap.servers": "localhost:9092", "group.id": "temperature-alarms"}
    consumer = FlinkKafkaConsumer(
        topics=["wild-in"], deserialization_schema=SimpleStringSchema(), properties=properties
    )
    consumer.set_start_from_earliest()
    producer = FlinkKafkaProducer(
        topic="wild-out", serialization_schema=SimpleStringSchema(), producer_config=properties
    )
    env.add_source(consumer).map(
        Reading(), output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            lambda event, timestamp: event[1]
        )
    ).key_by(lambda x: x[0]).process(Alarms(), output_type=Types.STRING()).add_sink(producer)
    logger.info("%s", env.get_execution_plan())
    env.execute("Temperature alarms")


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    main()
