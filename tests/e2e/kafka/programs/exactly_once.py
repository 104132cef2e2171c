from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import CheckpointingMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

config = Configuration()
config.set_string("pipeline.jars", "file:///jars/flink-sql-connector-kafka-3.1.0-1.18.jar")
config.set_string("python.fn-execution.bundle.size", "1000")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.enable_checkpointing(500, CheckpointingMode.EXACTLY_ONCE)
env.get_checkpoint_config().set_min_pause_between_checkpoints(100)
env.get_checkpoint_config().set_checkpoint_timeout(60000)
env.get_checkpoint_config().set_max_concurrent_checkpoints(1)

source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("wild-in")
    .set_group_id("eos")
    .set_starting_offsets(
        KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    )
    .set_value_only_deserializer(SimpleStringSchema())
    .set_property("partition.discovery.interval.ms", "10000")
    .set_property("isolation.level", "read_committed")
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix("my-app")
    .set_property("transaction.timeout.ms", str(15 * 60 * 1000))
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "Kafka").map(
    lambda line: line[::-1], output_type=Types.STRING()
).sink_to(sink)
env.execute("reverse")
