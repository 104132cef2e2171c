"""What a Kafka source says of itself: records that cannot be decoded, lag, offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.connectors.source import Budget
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.metrics import MetricGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_broker import Broker
    from penstock.datastream.connectors.kafka import KafkaSourceBuilder

PATIENCE_S = 120
REJECTED = OutputTag("undecodable")
TYPE = Types.ROW_NAMED(["n"], [Types.INT()])
GOOD = [b'{"n": 1}', b'{"n": 2}']


def environment(directory: Path | None = None) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    configuration.set_string("parallelism.default", "1")
    if directory is not None:
        configuration.set_string("execution.checkpointing.interval", "100 ms")
        configuration.set_string("execution.checkpointing.dir", str(directory))
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def reading(kafka: Broker, topic: str, schema: Any) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic)
    return builder.set_value_only_deserializer(schema)


def json_rows(*, ignores: bool = False) -> Any:
    builder = JsonRowDeserializationSchema.builder().type_info(TYPE)
    return (builder.ignore_parse_errors() if ignores else builder).build()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_undecodable_records_go_to_a_side_output(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    kafka.produce(name, GOOD, partition=0)
    kafka.produce(name, [b"{", *GOOD], partition=1, key=b"k", headers=[("h", b"1")], timestamp=5)
    env = environment()
    source = reading(kafka, name, json_rows()).set_bounded(KafkaOffsetsInitializer.latest())
    source.set_on_error("side_output", REJECTED)
    rows = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in")
    rows = rows.uid("source")
    good = rows.map(lambda row: ("good", row))
    wrong = rows.get_side_output(REJECTED).map(lambda record: ("wrong", record))
    found = list(good.union(wrong).execute_and_collect())
    assert sorted(row["n"] for kind, row in found if kind == "good") == [1, 1, 2, 2]
    ((_, record),) = [each for each in found if each[0] == "wrong"]
    assert record[:6] == KafkaRecord(name, 1, 0, 5, b"k", b"{")[:6]
    (header, (error, reason)) = record.headers
    assert header == ("h", b"1")
    assert error == "error"
    assert reason.startswith(b"ValueError: it is not JSON")


def test_undecodable_keys_go_there_too(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    kafka.produce(name, ["a"], key=b"\xff")
    kafka.produce(name, ["b"], key=b"key")
    source = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(name)
    schema = KafkaRecordDeserializationSchema.records(SimpleStringSchema(), SimpleStringSchema())
    source.set_deserializer(schema).set_bounded(KafkaOffsetsInitializer.latest())
    source.set_on_error("side_output", REJECTED)
    rows = environment().from_source(source.build(), WatermarkStrategy.no_watermarks(), "in")
    found = rows.union(rows.get_side_output(REJECTED)).execute_and_collect()
    assert sorted((each.offset, each.value) for each in found) == [(0, b"a"), (1, "b")]


def test_without_a_side_output_the_error_says_how_to_have_one(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    name = topic()
    kafka.produce(name, [*GOOD, b'{"n": "x"}'])
    source = reading(kafka, name, json_rows()).set_bounded(KafkaOffsetsInitializer.latest())
    rows = environment().from_source(source.build(), WatermarkStrategy.no_watermarks(), "in")
    expected = (
        rf"offset 2 of partition 0 of Kafka's topic '{name}' cannot be decoded: ValueError: "
        r"field 'n': 'x' is no whole number\. Its value is .*set_on_error\('side_output'"
    )
    with pytest.raises(JobExecutionError, match=expected):
        list(rows.execute_and_collect())


@pytest.mark.parametrize("given", [("skip",), ("side_output",), ("fail", REJECTED)])
def test_what_can_be_done_with_them(given: tuple[Any, ...]) -> None:
    with pytest.raises(ProgramError, match=r"set_on_error\("):
        KafkaSource.builder().set_on_error(*given)


def test_lag_offsets_and_errors_are_metrics(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    kafka.produce(name, [*GOOD, b"{", b"[]"], partition=0)
    kafka.produce(name, GOOD[:1], partition=1)
    env = environment(tmp_path)
    source = reading(kafka, name, json_rows(ignores=True)).set_group_id("measured")
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in").uid("in")
    stream.print()
    client = env.execute_async()
    of_first = f"KafkaSourceReader.topic.{name}.partition.0"

    def figures() -> dict[str, Any]:
        operator = client.metrics()["in"]
        return operator.counters | operator.gauges

    expected = {
        "numRecordsInErrors": 2,
        "pendingRecords": [0],
        "KafkaSourceReader.KafkaConsumer.records-lag-max": [0],
        f"{of_first}.currentOffset": [3],
        f"{of_first}.records-lag": [0],
        f"{of_first}.committedOffset": [4],
    }
    wait_until(lambda: expected.items() <= figures().items())
    client.cancel().result()


def test_lag_of_what_was_not_read(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    kafka.produce(name, GOOD * 5)
    source = reading(kafka, name, json_rows()).build()
    (split,) = source.discover(None, 0).splits
    source.job_ended()
    reader, metrics = source.create_reader(), MetricGroup()
    reader.register_metrics(metrics)
    for position, lag in ((0, 7), (3, 4), (6, 1), (9, 0), (10, 0)):
        result = reader.read(split, position, Budget(3, 1 << 20, 0))
        assert result.position == min(position + 3, 10)
        assert metrics.report()["pendingRecords"] == {"value": lag}
    reader.close()
