import logging

from pyflink.common import RestartStrategies, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    HashMapStateBackend,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.counter = runtime_context.get_metrics_group().add_group("mine").counter("seen")
        logging.info("subtask %d", runtime_context.get_index_of_this_subtask())

    def map(self, value):
        self.counter.inc()
        return value.upper()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_max_parallelism(128)
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10000))
env.set_state_backend(HashMapStateBackend())
env.enable_checkpointing(10000)
checkpoints = env.get_checkpoint_config()
checkpoints.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
checkpoints.set_max_concurrent_checkpoints(1)
checkpoints.set_tolerable_checkpoint_failure_number(3)
checkpoints.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_group_id("settings")
    .set_client_id_prefix("settings")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .set_property("partition.discovery.interval.ms", "10000")
    .set_property("max.poll.records", "500")
    .set_property("session.timeout.ms", "45000")
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    .set_delivery_guarantee(DeliveryGuarantee.NONE)
    .set_property("linger.ms", "5")
    .set_property("batch.size", "16384")
    .set_property("compression.type", "gzip")
    .build()
)
words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
words.map(Counting(), output_type=Types.STRING()).name("upper").uid(
    "upper"
).disable_chaining().sink_to(sink)
env.execute("settings")
