from pyflink.common import SimpleStringSchema, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
serializer = (
    KafkaRecordSerializationSchema.builder()
    .set_topic("wild-out")
    .set_key_serialization_schema(SimpleStringSchema())
    .set_value_serialization_schema(SimpleStringSchema())
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_record_serializer(serializer)
    .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    .set_property("acks", "all")
    .build()
)
env.from_collection(["hello", "world"], type_info=Types.STRING()).sink_to(sink)
client = env.execute_async("async job")
print("job", len(str(client.get_job_id())))
result = client.get_job_execution_result().result()
print("ran", result.get_net_runtime() >= 0)
