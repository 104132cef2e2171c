"""Kafka as a source without end: offsets of the group, new partitions, brokers that go and come."""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from kafka_kit import environment

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.connectors.kafka.client import TopicIds
from penstock.connectors.source import Budget, Discovery
from penstock.core.errors import InputError, JobExecutionError
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_broker import Broker
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.kafka import KafkaSourceBuilder

PATIENCE_S = 120


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def words_of(kafka: Broker, topic: str) -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.address)
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def records(env: StreamExecutionEnvironment, builder: KafkaSourceBuilder) -> Any:
    strategy = WatermarkStrategy.no_watermarks()
    return env.from_source(builder.build(), strategy, "Kafka").execute_and_collect()


def test_offsets_of_the_group_follow_checkpoints(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    kafka.produce(name, list("abc"))
    env = environment(tmp_path)
    with records(env, words_of(kafka, name).set_group_id("followers")) as found:
        assert list(itertools.islice(found, 3)) == list("abc")
        wait_until(lambda: kafka.committed("followers", name) == [3])
        kafka.produce(name, list("de"))
        wait_until(lambda: kafka.committed("followers", name) == [5])
    after = (
        words_of(kafka, name)
        .set_group_id("followers")
        .set_bounded(KafkaOffsetsInitializer.latest())
    )
    after.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    kafka.produce(name, ["f"])
    assert list(records(environment(), after)) == ["f"]


def test_offsets_are_not_committed_where_nobody_asked(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Neither without checkpoints nor with the property that forbids it."""
    name = topic()
    kafka.produce(name, ["a"])
    end = KafkaOffsetsInitializer.latest()
    assert list(records(environment(), words_of(kafka, name).set_group_id("g").set_bounded(end)))
    builder = words_of(kafka, name).set_group_id("g").set_bounded(end)
    builder.set_property("commit.offsets.on.checkpoint", "false")
    assert list(records(environment(tmp_path), builder))
    assert kafka.committed("g", name)[0] < 0
    builder = words_of(kafka, name).set_group_id("g").set_bounded(end)
    assert list(records(environment(), builder.set_property("enable.auto.commit", "true")))
    wait_until(lambda: kafka.committed("g", name) == [1])


def test_partitions_that_are_added_while_it_runs(kafka: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    kafka.produce(name, ["first"])
    builder = words_of(kafka, name).set_starting_offsets(KafkaOffsetsInitializer.latest())
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    builder.set_property("partition.discovery.interval.ms", "200")
    with records(environment(), builder) as found:
        assert next(found) == "first"
        kafka.add_partitions(name, 3)
        kafka.produce(name, ["second"], partition=2)
        assert next(found) == "second"


def test_what_was_there_at_first_starts_at_the_end_and_what_is_added_at_its_beginning(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    name = topic()
    kafka.produce(name, ["old"])
    builder = words_of(kafka, name).set_property("partition.discovery.interval.ms", "1000")
    source = builder.set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    try:
        first = source.discover(None, 0)
        assert [split.start for split in first.splits] == [1]
        kafka.add_partitions(name, 2)
        kafka.produce(name, ["new"], partition=1)
        assert source.discover(first.state, 999) == Discovery((), first.state)
        second = source.discover(first.state, 1000)
        assert [(split.split_id, split.start) for split in second.splits] == [(f"{name}-1", 0)]
        assert source.discover(second.state, 2000).splits == ()
    finally:
        source.job_ended()


def test_a_topic_that_is_created_again_while_the_job_is_away(
    kafka: Broker, topic: Callable[..., str]
) -> None:
    """It has the offset of the checkpoint, but not the records behind it."""
    name = topic()
    kafka.produce(name, list("abc"))
    source = words_of(kafka, name).build()
    try:
        (split,) = source.discover(None, 0).splits
    finally:
        source.job_ended()
    budget = Budget(100, 1 << 20, 0)
    first = source.create_reader()
    wait_until(lambda: first.read(split, 0, budget).values == list("abc"))
    first.close()
    kafka.recreate_topic(name)
    kafka.produce(name, map(str, range(10)))
    second = source.create_reader()
    expected = f"'{name}' was deleted and created again.*with another uid"
    with pytest.raises(InputError, match=expected):
        wait_until(lambda: bool(second.read(split, 3, budget).values))
    second.close()


def test_a_topic_that_is_created_again_while_the_job_runs(
    kafka: Broker, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicIds, "ASK_AGAIN_S", 0.05)
    name = topic()
    kafka.produce(name, list("abc"))
    with records(environment(), words_of(kafka, name)) as found:
        assert list(itertools.islice(found, 3)) == list("abc")
        kafka.recreate_topic(name)
        kafka.produce(name, map(str, range(10)))
        with pytest.raises(InputError, match=f"'{name}' was deleted and created again"):
            list(found)


def test_a_broker_that_is_killed_and_comes_back(
    mortal: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    mortal.create_topic("words")
    mortal.produce("words", ["before"])
    builder = words_of(mortal, "words").set_property("partition.discovery.interval.ms", "500")
    with caplog.at_level(logging.WARNING), records(environment(), builder) as found:
        assert next(found) == "before"
        mortal.kill()
        wait_until(lambda: f"Kafka at {mortal.address} does not answer" in caplog.text)
        mortal.start()
        mortal.produce("words", ["after"])
        assert next(found) == "after"


def test_no_broker_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.kafka.source.TIMEOUT_S", 0.2)
    (port,) = free_ports(1)
    builder = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{port}").set_topics("words")
    source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    try:
        assert source.discover(None, 0) == Discovery((), None)
        assert source.discover(None, 10) == Discovery((), None)
        expected = rf"127\.0\.0\.1:{port} has not answered for 60 s.*topic 'words'"
        with pytest.raises(JobExecutionError, match=expected):
            source.discover(None, 60_000)
    finally:
        source.job_ended()
