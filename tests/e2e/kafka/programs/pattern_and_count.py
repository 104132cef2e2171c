from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import ProcessAllWindowFunction, RuntimeContext
from pyflink.datastream.window import CountTumblingWindowAssigner


class Batch(ProcessAllWindowFunction):
    def open(self, runtime_context: RuntimeContext):
        self.number = 0

    def process(self, context, elements):
        self.number += 1
        return [f"batch {self.number}: {' '.join(elements)}"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topic_pattern("wild-in")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "any").window_all(
    CountTumblingWindowAssigner.of(2)
).process(Batch(), Types.STRING()).print("out")
env.execute()
