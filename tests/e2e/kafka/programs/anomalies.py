import json
import os

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ValueStateDescriptor


class StatefulAnomalyDetector(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        try:
            data = json.loads(value)
            last = self.last.value()
            self.last.update(data["amount"])
            if last is not None and data["amount"] > 10 * last:
                data["anomaly"] = True
                yield json.dumps(data)
        except Exception:
            pass


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_python_file(os.path.abspath(__file__))
    env.set_parallelism(1)
    jar_path = os.path.join(os.path.dirname(__file__), "flink-sql-connector-kafka-3.2.0-1.19.jar")
    env.add_jars(f"file:///{jar_path.replace(os.sep, '/')}")
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("wild-in")
        .set_group_id("flink_group")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "Kafka Source")
    alarms_stream = stream.key_by(lambda x: json.loads(x).get("card_id", "UNKNOWN")).process(
        StatefulAnomalyDetector(), output_type=Types.STRING()
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
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    alarms_stream.sink_to(sink)
    env.execute("Anomaly Detection")


if __name__ == "__main__":
    main()
