"""What a broker cannot be made to show: a client that never returns, and one that is fenced."""

from __future__ import annotations

import dataclasses
import re
import threading
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka import publishing
from penstock.connectors.kafka.client import Connection
from penstock.connectors.kafka.publishing import KafkaSinkSettings, PendingWriter
from penstock.connectors.kafka.serializers import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.sink import CommitContext, DeliveryGuarantee, WriterContext
from penstock.core.errors import JobExecutionError
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from pathlib import Path


DAY = 24 * 3_600_000


class Log:
    """A broker of one topic, and what was said to it."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []
        self.marker = ""
        self.producers: list[Producer] = []
        self.never = threading.Event()
        self.hangs = 0
        self.fences: list[str] = []
        self.kept_ms: int | None = 7 * DAY
        self.asked = 0


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
    monkeypatch.setattr(Connection, "offsets_retention_ms", lambda _: asked(log))
    monkeypatch.setattr(publishing, "_OFFSETS_S", 0.01)
    monkeypatch.setattr(publishing, "_GRACE_S", 0.01)
    return log


def asked(log: Log) -> int | None:
    log.asked += 1
    return log.kept_ms


def written(
    directory: Path, epoch: int, *values: str, at_ms: int = 0, now_ms: int = 0
) -> tuple[list[Any], CommitContext]:
    area = FileArea(directory)
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    settings = _settings(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    writer = PendingWriter(
        settings,
        WriterContext("a" * 32, "out", 0, 1, epoch, f"{epoch}", at_ms, "", area=area),
    )
    writer.write(list(values), None, 0)
    context = CommitContext("a" * 32, "out", epoch, epoch, False, now_ms, area=area)
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


# -- markers that are gone ---------------------------------------------------------------------


def test_the_first_output_of_a_job_needs_no_marker(log: Log, tmp_path: Path) -> None:
    committer().commit(*written(tmp_path, 1, "a", at_ms=5, now_ms=9_000))
    assert log.committed == [b"a"]
    assert log.asked == 0


@pytest.mark.parametrize(
    ("age", "kept", "is_published"),
    [
        (6 * DAY, 7 * DAY, True),
        (7 * DAY, 7 * DAY, False),
        (DAY // 2, None, True),
        (DAY, None, False),
    ],
)
def test_first_output_that_waited_for_long_may_have_been_published(
    log: Log, tmp_path: Path, age: int, kept: int | None, is_published: bool
) -> None:
    """A marker that was written with it is there if it is younger than brokers keep offsets."""
    log.kept_ms = kept
    owed = written(tmp_path, 1, "a", "b", at_ms=1_000, now_ms=1_000 + age)
    if is_published:
        committer().commit(*owed)
    else:
        with pytest.raises(JobExecutionError, match=r"lost the marker .* 2 records") as failed:
            committer().commit(*owed)
        # What the text advises does what it says.
        was_published, was_not = re.findall(r"metadata '(.*?)'|with '(\[.*?)'", str(failed.value))
        log.marker = was_published[0]
        committer().commit(*owed)
        assert log.committed == []
        log.marker = was_not[1]
        committer().commit(*owed)
        assert log.committed == [b"a", b"b"]
        return
    assert log.committed == [b"a", b"b"]


@pytest.mark.parametrize(("quiet", "is_published"), [(8 * DAY, True), (DAY, False)])
def test_a_marker_expires_while_nothing_is_written(
    log: Log, tmp_path: Path, quiet: int, is_published: bool
) -> None:
    """New output is younger than any marker that went by itself; else somebody removed it."""
    publishes = committer()
    publishes.commit(*written(tmp_path, 1, "a"))
    log.marker = ""
    again = committer()
    again.restore(publishes.snapshot())
    owed = written(tmp_path, 2, "b", at_ms=quiet, now_ms=quiet + 5)
    if is_published:
        again.commit(*owed)
    else:
        with pytest.raises(JobExecutionError, match="or the group or the topic was deleted"):
            again.commit(*owed)
    assert log.committed == ([b"a", b"b"] if is_published else [b"a"])


def test_nothing_is_in_doubt_if_the_checkpoint_knows_that_it_was_published(
    log: Log, tmp_path: Path
) -> None:
    publishes = committer()
    owed = written(tmp_path, 1, "a")
    publishes.commit(*owed)
    log.marker = ""
    again = committer()
    again.restore(publishes.snapshot())
    again.commit(owed[0], dataclasses.replace(owed[1], now_ms=100 * DAY))
    assert log.committed == [b"a"]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_output_that_was_owed_when_the_guarantee_changed(
    log: Log, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    """A job goes on from a savepoint with another guarantee, and has published nothing before."""
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    settings = _settings(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    committer = KafkaSink(dataclasses.replace(settings, guarantee=guarantee)).create_committer()
    committer.restore(None)
    committer.commit(*written(tmp_path, 1, "a"))
    assert log.committed == [b"a"]


# -- without a guarantee -----------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_what_was_not_delivered_is_said_when_the_sink_closes(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    guarantee: DeliveryGuarantee,
) -> None:
    """Unless the job sends it again; a stream that has gone quiet never writes again."""

    class Refusing:
        def __init__(self, settings: dict[str, Any]) -> None:
            self.settings = settings

        def produce(self, topic: str, *_: Any, **__: Any) -> None:
            self.topic = lambda: topic

        def poll(self, timeout: float) -> None:
            pass

        def flush(self, timeout: float) -> int:
            self.settings["on_delivery"](_error("INVALID_RECORD"), self)
            return 2

        def close(self) -> None:
            pass

    monkeypatch.setattr(Connection, "producer", lambda each: Refusing(each.settings))
    schema = KafkaRecordSerializationSchema.builder().set_topic("out")
    settings = dataclasses.replace(
        _settings(schema.set_value_serialization_schema(SimpleStringSchema()).build()),
        guarantee=guarantee,
    )
    sink = KafkaSink(settings)
    writer = sink.create_writer(WriterContext("a" * 32, "out", 0, 1, 1, "1", 0, ""))
    writer.write(["a", "b", "c"], None, 0)
    sink.close()
    if guarantee is DeliveryGuarantee.NONE:
        assert "did not take a record for topic 'out'" in caplog.text
        assert "2 records were not sent to Kafka at nowhere:1" in caplog.text
    else:
        assert caplog.text == ""
