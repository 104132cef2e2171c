import json

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.window import TumblingEventTimeWindows

LATE = OutputTag("late-data", Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return json.loads(value)["at"]


def sink_for(topic):
    return (
        KafkaSink.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(topic)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )


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
watermarks = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_millis(100)
).with_timestamp_assigner(At())
event = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
counts = (
    env.from_source(source, watermarks, "events")
    .map(json.loads)
    .map(lambda e: (e["user"], e["at"], 1), output_type=event)
    .key_by(lambda e: e[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(1)))
    .allowed_lateness(0)
    .side_output_late_data(LATE)
    .reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2]))
)
counts.map(lambda e: f"{e[0]} {e[2]}", output_type=Types.STRING()).sink_to(sink_for("wild-out"))
counts.get_side_output(LATE).map(
    lambda e: f"late {e[0]} {e[1]}", output_type=Types.STRING()
).sink_to(sink_for("wild-more"))
env.execute("late events")
