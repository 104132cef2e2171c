r"""A running count per user from one topic of Kafka to another, with Python row functions.

PyFlink runs this file as it stands; Penstock runs it with `pyflink` replaced by `penstock` in the
imports, and nothing else.

    python kafka.py BROKERS INPUT OUTPUT (all|follow) (AT_LEAST_ONCE|EXACTLY_ONCE) [KEY=VALUE ...]

`all` reads what the topic holds; `follow` does not end.
"""

import sys

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ValueStateDescriptor


class CountPerUser(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}\t{count}"


def main(brokers, source, target, mode, guarantee, *settings):
    configuration = Configuration()
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers)
        .set_topics(source)
        .set_group_id("counting")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if mode == "all":
        builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    counts = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(target)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .set_transactional_id_prefix(target)
        .set_property("transaction.timeout.ms", "600000")
        .build()
    )

    (
        env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "events")
        .map(lambda line: int(line.split("\t")[2]), Types.LONG())
        .key_by(lambda user: user, key_type=Types.LONG())
        .process(CountPerUser(), Types.STRING())
        .sink_to(counts)
    )
    env.execute("kafka")


if __name__ == "__main__":
    main(*sys.argv[1:])
