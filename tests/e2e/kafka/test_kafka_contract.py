"""Kafka keeps the rules of sources and sinks that connectors of users are held to."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from penstock.common import SimpleStringSchema
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.testing.connectors import SinkTarget, check_sink, check_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_broker import Broker


def test_the_source(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    values = [[f"{number}-{n}" for n in range(30)] for number in range(2)]
    for number, of_partition in enumerate(values):
        kafka.produce(name, of_partition, partition=number)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.address)
        .set_topics(name)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    check_source(source, itertools.chain(*values))


def test_a_source_of_transactions(kafka: Broker, topic: Callable[..., str]) -> None:
    """Offsets by hand: marks at 3, 6 and 9; 4 and 5 were aborted; another partition is empty."""
    name = topic(partitions=2)
    with kafka.transaction(name) as transaction:
        for number, (values, ends) in enumerate(
            [
                ("abc", transaction.commit_transaction),
                ("xy", transaction.abort_transaction),
                ("de", transaction.commit_transaction),
            ]
        ):
            if number:
                transaction.begin_transaction()
            for value in values:
                transaction.produce(name, value, partition=1, timestamp=7, headers=[("h", b"1")])
            transaction.flush()
            ends()
    deadline = time.monotonic() + 120
    while kafka.end_offset(name, 1) < 10:  # The mark comes after the answer.
        assert time.monotonic() < deadline
    kafka.produce(name, [None, b"\xff"], partition=1, key="k", timestamp=8)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.address)
        .set_topics(name)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_deserializer(KafkaRecordDeserializationSchema.records())
        .build()
    )
    offsets = zip("abcde", (0, 1, 2, 7, 8), strict=True)
    records = [
        KafkaRecord(name, 1, offset, 7, None, value.encode(), (("h", b"1"),))
        for value, offset in offsets
    ]
    last = [KafkaRecord(name, 1, 10, 8, b"k", None), KafkaRecord(name, 1, 11, 8, b"k", b"\xff")]
    check_source(source, records + last)


def test_the_sink(kafka: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    def make(folder: Path) -> SinkTarget:
        name = topic()
        schema = KafkaRecordSerializationSchema.builder().set_topic(name)
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers(kafka.address)
            .set_record_serializer(
                schema.set_value_serialization_schema(SimpleStringSchema()).build()
            )
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .build()
        )
        return SinkTarget(sink, lambda: [value.decode() for value in kafka.values(name)])

    check_sink(make, tmp_path)
