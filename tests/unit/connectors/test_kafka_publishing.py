"""What a broker cannot be made to show: a client that never returns, and one that is fenced."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka import publishing
from penstock.connectors.kafka.client import Connection
from penstock.connectors.kafka.pending import KafkaSinkSettings, PendingWriter
from penstock.connectors.kafka.serializers import KafkaRecordSerializationSchema
from penstock.connectors.sink import CommitContext, DeliveryGuarantee, WriterContext
from penstock.core.errors import JobExecutionError
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from pathlib import Path


class Log:
    """A broker of one topic, and what was said to it."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []
        self.marker = ""
        self.producers: list[Producer] = []
        self.never = threading.Event()
        self.hangs = 0
        self.fences: list[str] = []


class Producer:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.open: list[bytes] = []
        self.offsets: list[Any] = []
        log.producers.append(self)

    def init_transactions(self, timeout: float) -> None:
        pass

    def begin_transaction(self) -> None:
        self.open = []

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        if self.log.fences:
            raise confluent_kafka.KafkaException(_error(self.log.fences.pop()))
        self.open.append(value)

    def poll(self, timeout: float) -> None:
        pass

    def send_offsets_to_transaction(self, offsets: Any, group: Any, timeout: float) -> None:
        if self.log.hangs:
            self.log.hangs -= 1
            self.log.never.wait()
        self.offsets = offsets

    def commit_transaction(self, timeout: float) -> None:
        self.log.committed += self.open
        self.log.marker = self.offsets[0].metadata

    def purge(self) -> None:
        pass

    def close(self) -> None:
        pass


class Consumer:
    def __init__(self, log: Log) -> None:
        self.log = log

    def consumer_group_metadata(self) -> object:
        return object()

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        return [_Place(self.log.marker)]

    def close(self) -> None:
        pass


class _Place:
    def __init__(self, marker: str) -> None:
        self.error, self.metadata = None, marker
        self.offset = 1 if marker else -1001


def _error(name: str) -> Any:
    return confluent_kafka.KafkaError(getattr(confluent_kafka.KafkaError, name), name, True)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(Connection, "producer", lambda _: Producer(log))
    monkeypatch.setattr(Connection, "consumer", lambda _: Consumer(log))
    monkeypatch.setattr(publishing, "_OFFSETS_S", 0.01)
    monkeypatch.setattr(publishing, "_GRACE_S", 0.01)
    return log


def written(directory: Path, epoch: int, *values: str) -> tuple[list[Any], CommitContext]:
    area = FileArea(directory)
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    settings = _settings(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    writer = PendingWriter(
        settings,
        WriterContext("a" * 32, "out", 0, 1, epoch, f"{epoch}", 0, "", area=area),
    )
    writer.write(list(values), None, 0)
    context = CommitContext("a" * 32, "out", epoch, epoch, False, 0, area=area)
    return writer.prepare_commit(), context


def _settings(schema: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings(
        schema, {"bootstrap.servers": "nowhere:1"}, DeliveryGuarantee.EXACTLY_ONCE
    )


def committer() -> publishing.Publishing:
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    return publishing.Publishing(
        _settings(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    )


def test_a_client_that_never_returns_is_left_to_itself(log: Log, tmp_path: Path) -> None:
    publishes = committer()
    log.hangs = 1
    items, context = written(tmp_path, 1, "a", "b")
    with pytest.raises(JobExecutionError, match=r"has not confirmed.*no answer.*published once"):
        publishes.commit(items, context)
    assert log.committed == []
    publishes.commit(items, context)
    publishes.commit(items, context)
    assert log.committed == [b"a", b"b"]
    assert len(log.producers) == 2
    log.never.set()


@pytest.mark.parametrize("name", ["_FENCED", "_FATAL", "INVALID_PRODUCER_EPOCH"])
def test_a_producer_that_is_fenced_while_it_sends_begins_again(
    log: Log, tmp_path: Path, name: str
) -> None:
    log.fences = [name]
    publishes = committer()
    publishes.commit(*written(tmp_path, 1, "a", "b"))
    assert log.committed == [b"a", b"b"]
    assert len(log.producers) == 2


def test_a_twin_that_never_gives_way_is_an_error(log: Log, tmp_path: Path) -> None:
    log.fences = ["_FENCED"] * 3
    with pytest.raises(JobExecutionError, match="has not confirmed the transaction"):
        committer().commit(*written(tmp_path, 1, "a"))
    assert log.committed == []
