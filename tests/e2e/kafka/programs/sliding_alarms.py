import json
import logging

from pyflink.common import Time
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.functions import FlatMapFunction, ProcessWindowFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows


class Transactions(FlatMapFunction):
    def flat_map(self, value):
        try:
            data = json.loads(value)
            for item in data if isinstance(data, list) else [data]:
                yield item["at"], item["value"], item["card"]
        except Exception as e:
            logging.error("Error parsing message: %s", e)


class TenTimesAverage(ProcessWindowFunction):
    def open(self, runtime_context):
        self.cards = runtime_context.get_state(
            ValueStateDescriptor("cards", Types.PICKLED_BYTE_ARRAY())
        )

    def process(self, key, context, elements):
        results = []
        state = self.cards.value() or {"sum": 0.0, "count": 0}
        for _, value, card in elements:
            average = state["sum"] / state["count"] if state["count"] else 0
            if average > 0 and value > 10 * average:
                results.append(json.dumps({"card": card, "value": value}))
            state["sum"] += value
            state["count"] += 1
        self.cards.update(state)
        return results


class At(TimestampAssigner):
    def extract_timestamp(self, element, previous_element_timestamp):
        return element[0]


def producer_for(topic):
    return FlinkKafkaProducer(
        topic=topic,
        serialization_schema=SimpleStringSchema(),
        producer_config={"bootstrap.servers": "localhost:9092"},
    )


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    consumer = FlinkKafkaConsumer(
        "wild-in",
        SimpleStringSchema(),
        {"bootstrap.servers": "localhost:9092", "group.id": "g"},
    )
    consumer.set_start_from_earliest()
    ds = (
        env.add_source(consumer)
        .flat_map(
            Transactions(), output_type=Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.INT()])
        )
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
        )
    )
    negative = ds.filter(lambda x: x[1] < 0).map(
        lambda x: json.dumps({"card": x[2], "kind": "negative"}), output_type=Types.STRING()
    )
    ten_times = (
        ds.key_by(lambda x: x[2])
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(10)))
        .process(TenTimesAverage(), output_type=Types.STRING())
    )
    negative.print()
    negative.add_sink(producer_for("wild-more"))
    ten_times.add_sink(producer_for("wild-out"))
    env.execute("Transactions")


if __name__ == "__main__":
    main()
