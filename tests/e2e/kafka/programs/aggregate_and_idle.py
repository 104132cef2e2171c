from pyflink.common import Configuration, Duration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import KafkaSource
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer
from pyflink.datastream.functions import AggregateFunction
from pyflink.datastream.window import TumblingEventTimeWindows


def seconds_of(line):
    try:
        return int(line.split(",")[0]) * 1000
    except ValueError:
        return 0


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + 1, accumulator[1] + value[1])

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])


config = Configuration()
config.set_string("pipeline.name", "means")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(2)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in", "wild-more")
    .set_group_id("means")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
strategy = (
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    .with_idleness(Duration.of_millis(500))
    .with_timestamp_assigner(lambda line, _: seconds_of(line))
)
env.from_source(source=source, watermark_strategy=strategy, source_name="KafkaSource").map(
    lambda line: ("all", int(line.split(",")[1])),
    output_type=Types.TUPLE([Types.STRING(), Types.INT()]),
).key_by(lambda x: x[0]).window(TumblingEventTimeWindows.of(Time.seconds(10))).aggregate(
    Mean(), output_type=Types.DOUBLE()
).print()
env.execute()
