from pyflink.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.formats.json import JsonRowDeserializationSchema
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

USER = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def kafka_source(topic, schema):
    return (
        KafkaSource.builder()
        .set_properties({"bootstrap.servers": "localhost:9092", "group.id": "enrich"})
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(schema)
        .build()
    )


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.STRING())
        )

    def process_element1(self, value: Row, ctx):
        self.name.update(value.name)
        for each in self.waiting.get():
            yield f"{value.name} {each}"
        self.waiting.clear()

    def process_element2(self, value, ctx):
        page = value.split(",")[1]
        if self.name.value() is None:
            self.waiting.add(page)
        else:
            yield f"{self.name.value()} {page}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    users = env.from_source(
        kafka_source("wild-in", JsonRowDeserializationSchema.builder().type_info(USER).build()),
        WatermarkStrategy.no_watermarks(),
        "users",
    )
    clicks = env.from_source(
        kafka_source("wild-more", SimpleStringSchema()),
        WatermarkStrategy.no_watermarks(),
        "clicks",
    )
    users.key_by(lambda user: user.id, key_type=Types.INT()).connect(
        clicks.key_by(lambda line: int(line.split(",")[0]), key_type=Types.INT())
    ).process(Enrich(), output_type=Types.STRING()).print()
    env.execute()
