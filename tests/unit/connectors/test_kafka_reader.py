"""What one broker cannot show to a reader: new leaders, pauses, errors among messages."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import TopicDescription

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka import client as client_of_kafka
from penstock.connectors.kafka.client import Connection, TopicIds
from penstock.connectors.kafka.reader import KafkaReader, KafkaSourceSettings
from penstock.connectors.source import Budget, Split
from penstock.core.errors import InputError, JobExecutionError
from penstock.datastream.connectors.kafka import KafkaRecordDeserializationSchema

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL = Budget(1_000, 1 << 20, 0)


class Admin:
    """A client that answers with these ids of the topic, one after the other."""

    def __init__(self, *answers: Future[Any]) -> None:
        self.answers = list(answers)

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {"in": self.answers.pop(0)}


def answer(of: Uuid | KafkaError | None = None) -> Future[Any]:
    found: Future[Any] = Future()
    if isinstance(of, KafkaError):
        found.set_exception(KafkaException(of))
    elif of is not None:
        found.set_result(TopicDescription("in", of, False, []))
    return found


class Consumer:
    """A client that hands over what the test says, batch by batch."""

    def __init__(self, *batches: list[Message]) -> None:
        self.batches = list(batches)
        self.assigned: list[tuple[str, int, int]] = []
        self.paused: list[int] = []
        self.bounds = (0, 0)

    def consume(self, number: int, timeout: float) -> list[Message]:
        return self.batches.pop(0) if self.batches else []

    def incremental_assign(self, places: Iterable[TopicPartition]) -> None:
        self.assigned += [(each.topic, each.partition, each.offset) for each in places]

    def incremental_unassign(self, places: Iterable[TopicPartition]) -> None:
        pass

    def pause(self, places: Iterable[TopicPartition]) -> None:
        self.paused += [each.partition for each in places]

    def resume(self, places: Iterable[TopicPartition]) -> None:
        self.paused = [n for n in self.paused if n not in {each.partition for each in places}]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.bounds

    def close(self) -> None:
        pass


def record(offset: int, partition: int = 0) -> Message:
    return Message(
        "in", partition, offset, value=f"{partition}/{offset}".encode(), timestamp=(1, 5)
    )


def error(name: str, offset: int = -1001, partition: int = 0) -> Message:
    return Message("in", partition, offset, error=KafkaError(getattr(KafkaError, name)))


def split(partition: int = 0, topic_id: str = "", *, earliest: bool = False) -> Split:
    data = "in", partition, -1, topic_id, earliest
    return Split(f"in-{partition}", data, 0, concurrent=True)


def reader(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, *ids: Future[Any]) -> KafkaReader:
    monkeypatch.setattr(Connection, "consumer", lambda _: consumer)
    monkeypatch.setattr(Connection, "admin", lambda _: Admin(*ids))
    schema = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
    return KafkaReader(KafkaSourceSettings(schema, {"bootstrap.servers": "any:1"}, ("in",)))


@pytest.mark.parametrize(
    "name", ["NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "_TRANSPORT", "REQUEST_TIMED_OUT"]
)
def test_what_heals_takes_no_record_and_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    batches = [[record(0), error(name), record(1)], [error(name)], [record(2)]]
    client = Consumer(*batches, [error("_PARTITION_EOF", 3)])
    result = reader(monkeypatch, client).read(split(), 0, ALL)
    assert (result.values, result.position) == (["0/0", "0/1", "0/2"], 3)
    (line,) = caplog.messages
    assert line.startswith("Kafka at any:1 does not answer, trying again: ")


def test_a_new_leader_that_repeats_records(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[record(0), record(1)], [record(0), record(1), record(2)], [record(1)]]
    client = Consumer(*batches, [record(3), error("_PARTITION_EOF", 4)])
    result = reader(monkeypatch, client).read(split(), 0, ALL)
    assert (result.values, result.position) == (["0/0", "0/1", "0/2", "0/3"], 4)


def test_a_client_that_is_throttled_hands_over_later(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Consumer([record(0)], [], [], [record(1), error("_PARTITION_EOF", 2)])
    client.bounds = (0, 2)
    reading, values, position = reader(monkeypatch, client), [], 0
    while position < 2:
        result = reading.read(split(), position, ALL)
        values += result.values
        position = result.position
    assert values == ["0/0", "0/1"]


def test_what_another_partition_says_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [error("_PARTITION_EOF", 2), error("_PARTITION_EOF", 1, 1)]
    client = Consumer([], [record(0), record(0, 1), record(1), *ends])
    reading = reader(monkeypatch, client)
    reading.read(split(1), 0, Budget(0, 1 << 20, 0))
    assert reading.read(split(0), 0, ALL).values == ["0/0", "0/1"]
    assert reading.read(split(1), 0, ALL).values == ["1/0"]
    assert client.assigned == [("in", 1, 0), ("in", 0, 0)]


def test_tombstones_are_read_over(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Message("in", 0, 1, key=b"a", timestamp=(1, 5))
    client = Consumer([record(0), gone, record(2)], [gone, error("_PARTITION_EOF", 3)])
    result = reader(monkeypatch, client).read(split(), 0, ALL)
    assert (result.values, result.timestamps, result.position) == (["0/0", "0/2"], [5, 5], 3)


def test_an_empty_partition_has_nothing_and_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it becomes idle, and holds back no watermark."""
    first, second = error("_PARTITION_EOF", 0), error("_PARTITION_EOF", 1, 1)
    reading = reader(monkeypatch, Consumer([first], [], [], [record(0, 1), second]))
    for _ in range(2):
        result = reading.read(split(), 0, ALL)
        assert (result.values, result.position, result.has_more) == ([], 0, False)
    assert reading.read(split(1), 0, ALL).values == ["1/0"]


def test_a_partition_of_large_records_is_not_fetched_far_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = [Message("in", 1, n, value=b"x" * 900_000, timestamp=(1, 5)) for n in range(80)]
    ends = [error("_PARTITION_EOF", 1), error("_PARTITION_EOF", 80, 1)]
    client = Consumer([], [*large, record(0), *ends])
    reading = reader(monkeypatch, client)
    reading.read(split(1), 0, Budget(0, 1, 0))
    assert reading.read(split(), 0, ALL).values == ["0/0"]
    assert client.paused == [1]
    assert [len(value) for value in reading.read(split(1), 0, ALL).values] == 80 * [900_000]
    assert reading.read(split(1), 80, ALL).position == 80
    assert client.paused == []


def test_offsets_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Consumer([error("_AUTO_OFFSET_RESET")])
    client.bounds = (7, 9)
    expected = r"partition 0 of Kafka's topic 'in' has no offset 5 any more: it holds 7 to 9"
    with pytest.raises(InputError, match=expected):
        reader(monkeypatch, client).read(split(), 5, ALL)


def test_the_earliest_record_that_goes_away_while_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing was read before it: reading begins with what is there. Later that is an error."""
    gone = error("_AUTO_OFFSET_RESET")
    client = Consumer([gone], [gone], [record(7), error("_PARTITION_EOF", 8)])
    reading = reader(monkeypatch, client)
    result = reading.read(split(earliest=True), 0, ALL)
    assert (result.values, result.position) == (["0/7"], 8)
    assert client.assigned == [("in", 0, 0), *[("in", 0, OFFSET_BEGINNING)] * 2]
    client.batches = [[gone]]
    with pytest.raises(InputError, match="has no offset 8 any more"):
        reading.read(split(earliest=True), 8, ALL)


FIRST, SECOND = Uuid(0, 1), Uuid(0, 2)


def test_offsets_of_a_topic_that_was_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicIds, "ASK_AGAIN_S", 0.0)
    client = Consumer([record(0)], [record(1)])
    reading = reader(monkeypatch, client, answer(FIRST), answer(SECOND))
    of_first = split(topic_id=str(FIRST))
    assert reading.read(of_first, 0, Budget(1, 1, 0)).values == ["0/0"]
    expected = f"'in' was deleted and created again: its id is {SECOND}, and was {FIRST}"
    with pytest.raises(InputError, match=expected):
        reading.read(of_first, 1, ALL)


def test_nothing_is_read_until_the_broker_has_said_which_topic_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_of_kafka, "_FIRST_S", 0.0)
    monkeypatch.setattr(client_of_kafka, "_MOMENT_S", 0.0)
    late = answer()
    away = answer(KafkaError(KafkaError._TIMED_OUT))
    client = Consumer([record(0), error("_PARTITION_EOF", 1)])
    reading = reader(monkeypatch, client, away, late)
    of_first = split(topic_id=str(FIRST))
    for _ in range(3):
        assert reading.read(of_first, 0, ALL).values == []
    late.set_result(TopicDescription("in", FIRST, False, []))
    result = reading.read(of_first, 0, ALL)
    assert (result.values, result.position) == (["0/0"], 1)


def test_a_topic_that_is_gone_when_the_reader_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = answer(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(JobExecutionError, match=r"Kafka refuses topic 'in'.*UNKNOWN_TOPIC"):
        reader(monkeypatch, Consumer(), gone).read(split(topic_id=str(FIRST)), 3, ALL)


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART"])
def test_what_does_not_heal(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    client = Consumer([record(0)], [error(name)])
    with pytest.raises(InputError, match=rf"Kafka refuses topic 'in', partition 0.*{name}"):
        reader(monkeypatch, client).read(split(), 0, ALL)
