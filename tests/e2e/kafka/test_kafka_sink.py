"""Kafka as a sink, against a real broker, with each guarantee."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kafka_kit import environment

from penstock.common import ByteArraySchema, SimpleStringSchema, WatermarkStrategy
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaPartitioner,
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_broker import Broker
    from penstock.datastream.connectors.kafka import KafkaSinkBuilder

GUARANTEES = list(DeliveryGuarantee)


def schema_of(topic: str) -> Any:
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return builder.set_value_serialization_schema(SimpleStringSchema())


def writing(kafka: Broker, schema: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
    return KafkaSink.builder().set_bootstrap_servers(kafka.address).set_record_serializer(schema)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("checkpoints", [False, True])
def test_every_record_in_order(
    kafka: Broker,
    topic: Callable[..., str],
    tmp_path: Path,
    guarantee: DeliveryGuarantee,
    checkpoints: bool,
) -> None:
    name = topic()
    env = environment(tmp_path if checkpoints else None)
    words = [f"word {number}" for number in range(20_000)]
    sink = writing(kafka, schema_of(name).build()).set_delivery_guarantee(guarantee).build()
    env.from_collection(words).sink_to(sink)
    env.execute()
    assert kafka.values(name) == [word.encode() for word in words]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_key_headers_topic_and_timestamp(
    kafka: Broker, topic: Callable[..., str], guarantee: DeliveryGuarantee
) -> None:
    names = {"even": topic("even"), "odd": topic("odd")}
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda record: names[record[0]])
        .set_key_serialization_schema(_First())
        .set_value_serialization_schema(_Second())
        .set_header_provider(lambda record: [("kind", record[0].encode()), ("none", None)])
        .build()
    )
    env = environment()
    records = [("even", 2), ("odd", 3), ("even", 4)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda record: record[1] * 1_000
    )
    stream = env.from_collection(records).assign_timestamps_and_watermarks(strategy)
    stream.sink_to(writing(kafka, schema).set_delivery_guarantee(guarantee).build())
    env.execute()
    found = kafka.messages(names["even"])
    assert [(each.key(), each.value(), each.timestamp()[1]) for each in found] == [
        (b"even", b"2", 2_000),
        (b"even", b"4", 4_000),
    ]
    assert [each.headers() for each in found] == [[("kind", b"even"), ("none", None)]] * 2
    assert kafka.values(names["odd"]) == [b"3"]


class _First(SimpleStringSchema):
    def serialize_all(self, elements: list[Any]) -> list[Any]:
        return [element[0].encode() for element in elements]


class _Second(SimpleStringSchema):
    def serialize_all(self, elements: list[Any]) -> list[Any]:
        return [str(element[1]).encode() for element in elements]


class Changes(KafkaRecordSerializationSchema):
    """Deletions are tombstones, and some records are left out."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord | None:
        key, value = element
        if key is None:
            return None
        data = None if value is None else str(value).encode()
        return KafkaProducerRecord(self.topic, data, key.encode(), partition=1, timestamp=77)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_tombstones_partitions_and_records_that_are_left_out(
    kafka: Broker, topic: Callable[..., str], guarantee: DeliveryGuarantee
) -> None:
    name = topic(partitions=2)
    env = environment()
    stream = env.from_collection([("a", 1), (None, 2), ("a", None)])
    stream.sink_to(writing(kafka, Changes(name)).set_delivery_guarantee(guarantee).build())
    env.execute()
    found = kafka.messages(name)
    assert [(each.key(), each.value()) for each in found] == [(b"a", b"1"), (b"a", None)]
    assert {(each.partition(), each.timestamp()[1]) for each in found} == {(1, 77)}


def test_a_key_goes_where_javas_client_sends_it(kafka: Broker, topic: Callable[..., str]) -> None:
    """Computed by hand: murmur2 of Kafka's clients, positive, modulo the number of partitions."""

    def murmur2(data: bytes) -> int:
        mask, magic = 0xFFFFFFFF, 0x5BD1E995
        found = 0x9747B28C ^ len(data)
        whole = len(data) // 4 * 4
        for at in range(0, whole, 4):
            part = int.from_bytes(data[at : at + 4], "little") * magic & mask
            part = (part ^ part >> 24) * magic & mask
            found = (found * magic & mask) ^ part
        rest = data[whole:]
        if rest:
            found = (found ^ int.from_bytes(rest, "little")) * magic & mask
        found = (found ^ found >> 13) * magic & mask
        return found ^ found >> 15

    # As in the tests of Kafka's own client.
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    name = topic(partitions=5)
    keys = [f"key {number}" for number in range(50)]
    env = environment()
    schema = schema_of(name).set_key_serialization_schema(SimpleStringSchema()).build()
    env.from_collection(keys).sink_to(writing(kafka, schema).build())
    env.execute()
    found = {each.key(): each.partition() for each in kafka.messages(name)}
    assert found == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % 5 for key in keys}


class Shifted(KafkaPartitioner):
    """The length of the key, and the number of the subtask."""

    def open(self, subtask: int, parallelism: int) -> None:
        self.shift = subtask

    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]
    ) -> int:
        assert (key, value) == (str(record).encode(), str(record).encode())
        return partitions[(len(key or b"") + self.shift) % len(partitions)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_partitioner_of_the_program(
    kafka: Broker, topic: Callable[..., str], guarantee: DeliveryGuarantee
) -> None:
    names = topic(partitions=3), topic(partitions=2)
    schema = KafkaRecordSerializationSchema.builder().set_partitioner(Shifted())
    schema.set_topic_selector(lambda text: names[text.startswith("b")])
    schema.set_key_serialization_schema(SimpleStringSchema())
    schema.set_value_serialization_schema(SimpleStringSchema())
    env = environment()
    words = ["a", "aa", "aaa", "b", "bb"]
    stream = env.from_collection(words).rebalance().map(str).set_parallelism(1)
    stream.sink_to(
        writing(kafka, schema.build()).set_delivery_guarantee(guarantee).build()
    ).set_parallelism(1)
    env.execute()
    assert [
        {each.value(): each.partition() for each in kafka.messages(name)} for name in names
    ] == [
        {b"a": 1, b"aa": 2, b"aaa": 0},
        {b"b": 1, b"bb": 0},
    ]


def test_a_partition_that_is_not_there(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    env = environment()
    schema = schema_of(name).set_partitioner(lambda *_: 2).build()
    env.from_collection(["a"]).sink_to(writing(kafka, schema).build())
    with pytest.raises(ProgramError, match=r"returned 2 for 'a'.*has the partitions \[0, 1\]"):
        env.execute()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_large_records(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    name = topic()
    values = [bytes([65 + number]) * 900_000 for number in range(20)]
    builder = KafkaRecordSerializationSchema.builder().set_topic(name)
    schema = builder.set_value_serialization_schema(ByteArraySchema()).build()
    env = environment(tmp_path)
    env.from_collection(values).sink_to(
        writing(kafka, schema).set_delivery_guarantee(guarantee).build()
    )
    env.execute()
    assert kafka.values(name) == values


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, GUARANTEES[0]])
def test_a_topic_that_is_not_there(kafka: Broker, guarantee: DeliveryGuarantee) -> None:
    env = environment()
    env.from_collection(["a"]).sink_to(
        writing(kafka, schema_of("nowhere").build())
        .set_delivery_guarantee(guarantee)
        .set_property("topic.metadata.propagation.max.ms", "100")
        .build()
    )
    with pytest.raises(JobExecutionError, match=r"Kafka refuses .*nowhere|Kafka refuses .*sink"):
        env.execute()


def test_the_marker_is_an_offset_of_the_sinks_own_group(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    name = topic()
    env = environment()
    sink = writing(kafka, schema_of(name).build()).set_transactional_id_prefix("mine")
    env.from_collection(["a"]).sink_to(
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    )
    env.execute()
    groups = [each.group_id for each in kafka.admin.list_consumer_groups().result().valid]
    (group,) = [each for each in groups if each.startswith("mine-")]
    marker = kafka.marker(group, name)
    leader, attempt, epoch, subtask, _ = json.loads(marker.metadata)
    assert [leader, attempt, subtask] == [1, 0, 0]
    assert marker.offset == epoch


@pytest.mark.parametrize("wrong", ["fetch.wrong", "enable.idempotance"])
def test_a_property_that_no_client_has(kafka: Broker, wrong: str) -> None:
    builder = writing(kafka, schema_of("any").build()).set_property(wrong, "1")
    with pytest.raises(ProgramError, match=f"no property '{wrong}'"):
        builder.build()
