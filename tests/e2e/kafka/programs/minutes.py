import json
from datetime import datetime

from pyflink.common import Duration, Time, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class PickupTimestampAssigner(TimestampAssigner):
    def extract_timestamp(self, event, record_timestamp):
        return int(datetime.fromisoformat(event["at"]).timestamp() * 1000)


class Pickups(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {len(list(elements))}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(60_000)

source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .set_group_id("pickup_consumer_group")
    .build()
)
stream = env.from_source(
    source=source,
    watermark_strategy=WatermarkStrategy.no_watermarks(),
    source_name="pickup_source",
)
parsed = stream.map(lambda text: json.loads(text))
with_time = parsed.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(30)).with_timestamp_assigner(
        PickupTimestampAssigner()
    )
)
with_time.key_by(lambda event: event["zone"]).window(
    TumblingEventTimeWindows.of(Time.minutes(1))
).process(Pickups(), output_type=Types.STRING()).print()
env.execute("pickups")
