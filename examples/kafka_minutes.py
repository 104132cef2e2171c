r"""Counts events per minute, channel and behaviour, from Kafka to Kafka, exactly once.

Lines are `ts\tchannel\tid\tbehavior`. `make demo-kafka` runs this; --follow waits for more input.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from penstock.common import Duration, SimpleStringSchema, Time, WatermarkStrategy
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.window import TumblingEventTimeWindows

BROKERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")


class CountEvents(ProcessWindowFunction):
    """Writes a line for each window."""

    def process(
        self, key: tuple[str, str], context: ProcessWindowFunction.Context, elements: Iterable[str]
    ) -> Iterator[str]:
        yield "\t".join([str(context.window().start), *key, str(sum(1 for _ in elements))])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    events = KafkaSource.builder().set_bootstrap_servers(BROKERS).set_topics("events")
    events.set_group_id("minutes").set_value_only_deserializer(SimpleStringSchema())
    if "--follow" not in sys.argv:
        events.set_bounded(KafkaOffsetsInitializer.latest())
    values = KafkaRecordSerializationSchema.builder().set_topic("minutes")
    values.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(BROKERS).set_record_serializer(values.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(50))
    late = late.with_timestamp_assigner(lambda line, _: int(line.split("\t", 1)[0]))
    counts = (
        env.from_source(events.build(), late, "events")
        .uid("events")
        .key_by(lambda line: tuple(line.split("\t")[1::2]))
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(CountEvents())
        .uid("counts")
    )
    counts.sink_to(sink.build()).uid("minutes")
    env.execute("events per minute")


if __name__ == "__main__":
    main()
