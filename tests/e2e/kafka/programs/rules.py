from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import KeyedBroadcastProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


class Apply(KeyedBroadcastProcessFunction):
    def open(self, ctx):
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", Types.STRING()))

    def process_element(self, value, ctx):
        self.waiting.add(value)
        rule = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        if rule is None:
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 200
            )
        else:
            yield from self.released(rule)

    def on_timer(self, timestamp, ctx):
        rule = ctx.get_broadcast_state(RULES).get(ctx.get_current_key()) or "no rule"
        yield from self.released(rule)

    def released(self, rule):
        for each in list(self.waiting.get()):
            yield f"{each} {rule}"
        self.waiting.clear()

    def process_broadcast_element(self, value, ctx):
        key, rule = value.split("=")
        ctx.get_broadcast_state(RULES).put(key, rule)
        yield f"rule of {key}: {rule}"


def source_of(topic):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
events = env.from_source(source_of("wild-in"), WatermarkStrategy.no_watermarks(), "events")
rules = env.from_source(source_of("wild-more"), WatermarkStrategy.no_watermarks(), "rules")
events.key_by(lambda text: text[0]).connect(rules.broadcast(RULES)).process(
    Apply(), output_type=Types.STRING()
).print()
env.execute("rules")
