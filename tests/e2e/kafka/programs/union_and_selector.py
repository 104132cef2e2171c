import json

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicSelector,
)


class Selector(KafkaTopicSelector):
    def apply(self, data):
        return "wild-out" if json.loads(data)["ok"] else "wild-more"


class KafkaHelper:
    def __init__(self, servers):
        self.servers = servers

    def source(self, *topics):
        builder = KafkaSource.builder().set_bootstrap_servers(self.servers).set_topics(*topics)
        builder.set_starting_offsets(KafkaOffsetsInitializer.timestamp(0))
        return builder.set_value_only_deserializer(SimpleStringSchema()).build()

    def sink(self):
        serializer = KafkaRecordSerializationSchema.builder()
        serializer.set_topic_selector(Selector())
        serializer.set_value_serialization_schema(SimpleStringSchema())
        return (
            KafkaSink.builder()
            .set_bootstrap_servers(self.servers)
            .set_record_serializer(serializer.build())
            .build()
        )


helper = KafkaHelper("localhost:9092")
env = StreamExecutionEnvironment.get_execution_environment()
no = WatermarkStrategy.no_watermarks()
first = env.from_source(helper.source("wild-in"), no, "a")
second = env.from_collection(['{"n": 3, "ok": true}'], type_info=Types.STRING())
first.union(second).sink_to(helper.sink()).name("both").uid("both").set_parallelism(1)
env.execute("union")
