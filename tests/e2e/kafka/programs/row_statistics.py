import math

from pyflink.common import Row, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import Time, TimeWindow, TumblingEventTimeWindows


class Welford(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0, 0.0

    def add(self, value, accumulator):
        count, mean, m2 = accumulator
        delta = value.celsius - mean
        mean += delta / (count + 1)
        return count + 1, mean, m2 + delta * (value.celsius - mean)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        raise NotImplementedError


class Statistics(ProcessWindowFunction):
    def process(self, key, context, elements):
        count, mean, m2 = next(iter(elements))
        window: TimeWindow = context.window()
        deviation = math.sqrt(m2 / count)
        yield Row(start=window.start, vault=key, count=count, mean=mean, deviation=deviation)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
row = Types.ROW_NAMED(
    ["at", "disk", "vault", "celsius"],
    [Types.LONG(), Types.STRING(), Types.INT(), Types.FLOAT()],
)
consumer = FlinkKafkaConsumer(
    topics="wild-in",
    deserialization_schema=JsonRowDeserializationSchema.Builder().type_info(row).build(),
    properties={"bootstrap.servers": "localhost:9092", "auto.offset.reset": "earliest"},
)
result = Types.ROW_NAMED(
    ["start", "vault", "count", "mean", "deviation"],
    [Types.LONG(), Types.INT(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE()],
)
producer = FlinkKafkaProducer(
    topic="wild-out",
    serialization_schema=JsonRowSerializationSchema.builder().with_type_info(result).build(),
    producer_config={"bootstrap.servers": "localhost:9092"},
)
env.add_source(consumer).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
).filter(lambda x: 1000 <= x.vault <= 1020).key_by(lambda x: x.vault).window(
    TumblingEventTimeWindows.of(Time.days(1))
).aggregate(
    Welford(),
    Statistics(),
    accumulator_type=Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.DOUBLE()]),
    output_type=result,
).add_sink(producer)
env.execute("Disk statistics")
