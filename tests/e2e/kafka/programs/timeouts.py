import json

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.time import Time
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors import KafkaSource
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer
from pyflink.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor


class Timeouts(KeyedProcessFunction):
    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.days(1)).build()
        descriptor = ValueStateDescriptor("timer", Types.LONG())
        descriptor.enable_time_to_live(ttl)
        self.timer = runtime_context.get_state(descriptor)
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.STRING(), Types.INT())
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.seen.put(value["page"], 1)
        if self.timer.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.timer.value())
        at = ctx.timestamp() + 1000
        ctx.timer_service().register_event_time_timer(at)
        self.timer.update(at)

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield f"{ctx.get_current_key()} left at {timestamp} after {sorted(self.seen.keys())}"
        self.seen.clear()
        self.timer.clear()


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
ds = env.from_source(source, WatermarkStrategy.no_watermarks(), "pages").map(json.loads)
ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
).key_by(lambda e: e["user"]).process(Timeouts(), output_type=Types.STRING()).print()
env.execute("timeouts")
