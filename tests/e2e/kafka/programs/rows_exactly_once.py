from pyflink.common import Row
from pyflink.common.typeinfo import Types
from pyflink.datastream import CheckpointingMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from pyflink.datastream.formats.json import JsonRowSerializationSchema

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_checkpointing(5000, CheckpointingMode.EXACTLY_ONCE)
env.get_checkpoint_config().set_min_pause_between_checkpoints(500)
env.get_checkpoint_config().set_checkpoint_timeout(60000)
row_type_info = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic("wild-out")
        .set_value_serialization_schema(
            JsonRowSerializationSchema.builder().with_type_info(row_type_info).build()
        )
        .build()
    )
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix("my-job")
    .set_property("transaction.timeout.ms", "900000")
    .build()
)
env.from_collection([Row(1, "Ann"), Row(2, "Bob")], type_info=row_type_info).sink_to(sink)
env.execute("rows")
