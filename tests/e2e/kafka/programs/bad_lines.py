import json
from typing import Any

from pyflink.common import Types
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.watermark_strategy import WatermarkStrategy
from pyflink.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.functions import ProcessFunction

INVALID = OutputTag("invalid-records", Types.STRING())
REQUIRED = ("plant", "metric", "value")


def validated(raw: str) -> "tuple[dict[str, Any] | None, str | None]":
    try:
        record = json.loads(raw)
    except json.JSONDecodeError:
        return None, "invalid json"
    missing = [field for field in REQUIRED if field not in record]
    return (None, f"missing fields: {', '.join(missing)}") if missing else (record, None)


class Validate(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context):
        record, reason = validated(value)
        if reason:
            ctx.output(INVALID, json.dumps({"reason": reason, "original": value}))
            return
        yield record


def apply_validation(raw: DataStream) -> DataStream:
    return raw.process(Validate(), output_type=Types.PICKLED_BYTE_ARRAY())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("wild-in")
        .set_group_id("validation")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    valid = apply_validation(env.from_source(source, WatermarkStrategy.no_watermarks(), "raw"))
    valid.key_by(lambda r: r["metric"]).max("value").print()
    valid.get_side_output(INVALID).print()
    env.execute("validation")


if __name__ == "__main__":
    main()
