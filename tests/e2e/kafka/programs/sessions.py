import json
from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import WindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, TimeWindow


class Session(WindowFunction[dict, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[dict]):
        return [f"{key} {window.start}-{window.end} {len(list(inputs))}"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
stream = env.from_source(
    source,
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: json.loads(value)["at"]
    ),
    "clicks",
)
stream.map(json.loads).key_by(lambda e: e["user"], key_type=Types.STRING()).window(
    EventTimeSessionWindows.with_gap(Time.milliseconds(500))
).apply(Session(), Types.STRING()).print()
env.execute()
