"""Kafka as a source, against a real broker."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from kafka_kit import environment

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.connectors.source import Budget
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_broker import Broker
    from penstock.connectors.source import SourceReader, Split
    from penstock.datastream.connectors.kafka import KafkaSourceBuilder

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def reading(kafka: Broker, topic: str, *more: str) -> KafkaSourceBuilder:
    """Reads all that there is now, as text."""
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.address)
        .set_topics(topic, *more)
        .set_bounded(LATEST)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def read(builder: KafkaSourceBuilder, parallelism: int = 1) -> list[Any]:
    env = environment()
    env.set_parallelism(parallelism)
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "Kafka")
    return list(stream.execute_and_collect())


def test_all_records_in_order(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    words = [f"word {number}" for number in range(5_000)]
    kafka.produce(name, words)
    assert read(reading(kafka, name)) == words


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_partitions_are_shared_by_subtasks(
    kafka: Broker, topic: Callable[..., str], parallelism: int
) -> None:
    """One partition is empty, so that a subtask may have nothing to read."""
    name = topic(partitions=4)
    expected = {}
    for partition in (0, 1, 3):
        expected[partition] = [f"{partition}:{number}" for number in range(2_000)]
        kafka.produce(name, expected[partition], partition=partition)
    found = read(reading(kafka, name), parallelism)
    for partition, values in expected.items():
        assert [value for value in found if value.startswith(f"{partition}:")] == values
    assert len(found) == 6_000


def test_topics_by_pattern_and_by_list(kafka: Broker, topic: Callable[..., str]) -> None:
    first, second, other = topic("by-name-a"), topic("by-name-b"), topic("another")
    for name in (first, second, other):
        kafka.produce(name, [name])
    assert sorted(read(reading(kafka, first, other))) == sorted([first, other])
    pattern = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_bounded(LATEST)
    pattern.set_topic_pattern("by-name-.*").set_value_only_deserializer(SimpleStringSchema())
    assert sorted(read(pattern)) == [first, second]


def test_single_partitions(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        kafka.produce(name, [str(partition)], partition=partition)
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_bounded(LATEST)
    builder.set_partitions({KafkaTopicPartition(name, 2), KafkaTopicPartition(name, 0)})
    assert sorted(read(builder.set_value_only_deserializer(SimpleStringSchema()))) == ["0", "2"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (EARLIEST, "0123456789"),
        (LATEST, ""),
        (KafkaOffsetsInitializer.timestamp(1_004), "456789"),
        (KafkaOffsetsInitializer.timestamp(9_999), ""),
        (KafkaOffsetsInitializer.offsets({KafkaTopicPartition("NAME", 0): 7}), "789"),
        # Outside the partition: the strategy decides.
        (KafkaOffsetsInitializer.offsets({KafkaTopicPartition("NAME", 0): 70}), "0123456789"),
        (
            KafkaOffsetsInitializer.offsets(
                {KafkaTopicPartition("NAME", 0): 70}, KafkaOffsetResetStrategy.LATEST
            ),
            "",
        ),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), "56789"),
    ],
    ids=str,
)
def test_where_reading_starts(
    kafka: Broker, topic: Callable[..., str], start: Any, expected: str
) -> None:
    name = topic()
    for number in range(10):
        kafka.produce(name, [str(number)], timestamp=1_000 + number)
    kafka.commit("starters", name, 5)
    if start._kind == "offsets":
        places = {KafkaTopicPartition(name, 0): next(iter(start._offsets.values()))}
        start = KafkaOffsetsInitializer.offsets(places, start._reset)
    builder = reading(kafka, name).set_group_id("starters").set_starting_offsets(start)
    assert read(builder) == list(expected)


def test_no_committed_offset_and_no_strategy(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    builder = reading(kafka, name).set_group_id("without offsets")
    builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    with pytest.raises(JobExecutionError, match=f"'{name}': no offset is committed; it holds 0 to"):
        read(builder)


@pytest.mark.parametrize(("stop", "expected"), [(3, "012"), (0, ""), (10, "0123456789")])
def test_where_reading_stops(
    kafka: Broker, topic: Callable[..., str], stop: int, expected: str
) -> None:
    name = topic()
    kafka.produce(name, list("0123456789"))
    end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(name, 0): stop})
    assert read(reading(kafka, name).set_bounded(end)) == list(expected)
    assert read(reading(kafka, name).set_unbounded(end)) == list(expected)


def test_everything_that_a_message_has(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", None)]
    kafka.produce(name, ["first"], key="k", headers=headers, timestamp=77)
    kafka.produce(name, [None], key="k", timestamp=78)
    kafka.produce(name, [b"\xff"], timestamp=79)
    schema = KafkaRecordDeserializationSchema.records(key=SimpleStringSchema())
    assert read(reading(kafka, name).set_deserializer(schema)) == [
        KafkaRecord(name, 0, 0, 77, "k", b"first", tuple(headers)),
        KafkaRecord(name, 0, 1, 78, "k", None, ()),
        KafkaRecord(name, 0, 2, 79, None, b"\xff", ()),
    ]


class KeyLength(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> int | None:
        return None if record.key is None else len(record.key)


def test_a_deserializer_of_ones_own(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    for key in ("a", None, "abc"):
        kafka.produce(name, ["value"], key=key)
    assert read(reading(kafka, name).set_deserializer(KeyLength())) == [1, 3]


def test_tombstones_have_no_value(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    kafka.produce(name, ["a", None, "b", None])
    assert read(reading(kafka, name)) == ["a", "b"]


def test_timestamps_are_event_times(kafka: Broker, topic: Callable[..., str]) -> None:
    from penstock.datastream.functions import ProcessFunction

    class Stamped(ProcessFunction):
        def process_element(self, value: str, ctx: Any) -> Any:
            yield value, ctx.timestamp()

    name = topic()
    for stamp in (5, 3, 9):
        kafka.produce(name, [str(stamp)], timestamp=stamp)
    source = reading(kafka, name).build()
    stream = environment().from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "k")
    found = stream.process(Stamped()).execute_and_collect()
    assert list(found) == [("5", 5), ("3", 3), ("9", 9)]


def test_what_a_transaction_aborted_is_not_read(kafka: Broker, topic: Callable[..., str]) -> None:
    """The marks of transactions have offsets, behind which a bounded read ends."""
    name = topic()
    with kafka.transaction(name) as transaction:
        transaction.produce(name, "kept")
        transaction.commit_transaction()
        transaction.begin_transaction()
        transaction.produce(name, "aborted")
        transaction.flush()
        transaction.abort_transaction()
    kafka.produce(name, ["last"])
    with kafka.transaction(name) as transaction:
        transaction.commit_transaction()
    assert read(reading(kafka, name)) == ["kept", "last"]
    everything = reading(kafka, name).set_property("isolation.level", "read_uncommitted")
    assert read(everything) == ["kept", "aborted", "last"]


def test_gaps_of_a_compacted_topic(kafka: Broker, topic: Callable[..., str]) -> None:
    """The stop lies in a gap: the record behind it is not read, and the read ends."""
    name = topic()
    with kafka.transaction(name) as transaction:
        transaction.produce(name, "a")
        transaction.commit_transaction()
    # The broker confirms the commit before its mark, which has offset 1, is in the topic.
    deadline = time.monotonic() + 60
    while kafka.end_offset(name) < 2:
        assert time.monotonic() < deadline
    kafka.produce(name, ["b"])
    stop = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(name, 0): 2})
    assert read(reading(kafka, name).set_bounded(stop)) == ["a"]
    stop = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(name, 0): 1})
    assert read(reading(kafka, name).set_bounded(stop)) == ["a"]


def test_large_records(kafka: Broker, topic: Callable[..., str]) -> None:
    """More of them than a read may have bytes, over partitions that are far ahead of each other."""
    name = topic(partitions=2)
    sizes = [900_000 - number for number in range(120)]
    for number, size in enumerate(sizes):
        kafka.produce(name, [b"x" * size], partition=number % 100 // 50)
    found = read(reading(kafka, name))
    assert sorted(map(len, found), reverse=True) == sizes


def test_a_record_that_cannot_be_decoded_has_an_address(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    kafka.produce(name, ["good", "good", b"\xff\xfe", "good"], partition=1)
    expected = rf"offset 2 of partition 1 of Kafka's topic '{name}' cannot be decoded: Unicode"
    with pytest.raises(JobExecutionError, match=expected):
        read(reading(kafka, name))


def test_a_topic_that_is_not_there(kafka: Broker) -> None:
    with pytest.raises(JobExecutionError, match=r"refuses topic 'nowhere'.*UNKNOWN_TOPIC_OR_PART"):
        read(reading(kafka, "nowhere"))
    assert "nowhere" not in kafka.admin.list_topics(timeout=30).topics


def test_a_partition_that_is_not_there(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address)
    builder.set_partitions({KafkaTopicPartition(name, 5)})
    with pytest.raises(JobExecutionError, match=f"'{name}' has no partition 5; it has 1, from 0"):
        read(builder.set_value_only_deserializer(SimpleStringSchema()))


def test_a_property_that_no_client_has(kafka: Broker) -> None:
    builder = reading(kafka, "any").set_property("fetch.wrong", "1")
    with pytest.raises(ProgramError, match=r"no property 'fetch\.wrong'.*librdkafka"):
        builder.build()


def test_properties_of_javas_client(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    kafka.produce(name, ["a"])
    builder = reading(kafka, name).set_properties(
        {
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "max.poll.records": "500",
            "fetch.max.wait.ms": "100",
            "auto.offset.reset": "latest",
        }
    )
    assert read(builder) == ["a"]


def test_removed_records_are_an_error_and_not_skipped(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    """Retention has overtaken the job since its checkpoint."""
    name = topic()
    kafka.produce(name, list("abcdef"))
    with splits_of(reading(kafka, name)) as (reader, (split,)):
        kafka.delete_records(name, 4)
        with pytest.raises(JobExecutionError, match=r"has no offset 2 any more: it holds 4 to 6"):
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                reader.read(split, 2, Budget(100, 1 << 20, 0))


def test_what_was_removed_before_the_first_read_was_not_asked_for(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    """The earliest record is that of the moment in which the partition is read."""
    name = topic(partitions=2)
    kafka.produce(name, list("abcdef"), partition=0)
    with splits_of(reading(kafka, name)) as (reader, splits):
        kafka.delete_records(name, 4)
        found = []
        for split in splits:
            position, finished = split.start, False
            while not finished:
                result = reader.read(split, position, Budget(1, 1 << 20, 0))
                found += result.values
                position, finished = result.position, result.finished
    assert found == ["e", "f"]


@contextlib.contextmanager
def splits_of(builder: KafkaSourceBuilder) -> Iterator[tuple[SourceReader, tuple[Split, ...]]]:
    """Gives a reader, and what it may read."""
    source = builder.build()
    reader = source.create_reader()
    try:
        yield reader, source.discover(None, 0).splits
    finally:
        reader.close()
        source.job_ended()
