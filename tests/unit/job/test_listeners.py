"""Listeners hear of epochs as batches, of checkpoints and restarts, and never do harm."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.common import Configuration
from penstock.core.errors import PenstockError, ProgramError
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path


class Queries(StreamingQueryListener):
    """An ordinary listener of a Spark user's."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:
        self.events.append(event)

    def onQueryProgress(self, event: Any) -> None:
        self.events.append(event)

    def onQueryTerminated(self, event: Any) -> None:
        self.events.append(event)


class Ours:
    def __init__(self) -> None:
        self.completed: list[Any] = []
        self.failed: list[Any] = []
        self.restarts: list[Any] = []

    def on_checkpoint_completed(self, record: Any) -> None:
        self.completed.append(record)

    def on_checkpoint_failed(self, record: Any) -> None:
        self.failed.append(record)

    def on_restart(self, event: Any) -> None:
        self.restarts.append(event)


def environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.max-records", "4")
    for key, value in settings.items():
        configuration.set_string(key.replace("__", "."), value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_epochs_are_batches(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    listener = Queries()
    env.add_listener(listener)
    env.from_collection(list(range(10))).name("numbers").print().name("lines")
    result = env.execute("counted")
    started, *progress, terminated = listener.events
    assert started.id == UUID(str(result.get_job_id()))
    assert started.name == "counted"
    batches = [event.progress for event in progress]
    assert sum(batch.numInputRows for batch in batches) == 10
    assert [batch.batchId for batch in batches] == list(range(1, len(batches) + 1))
    assert {batch.id for batch in batches} == {started.id}
    assert {batch.runId for batch in batches} == {started.runId}
    last = batches[-1]
    assert last.observedMetrics["penstock"].records_read == 10
    assert last.observedMetrics["penstock"].status == "RUNNING"
    assert [source.description for source in last.sources] == ["Source: numbers"]
    assert last.sink.description == "Sink: lines"
    assert sum(batch.sink.numOutputRows for batch in batches) == 10
    assert (terminated.id, terminated.exception) == (started.id, None)


def test_the_error_of_a_job() -> None:
    env = environment()
    listener = Queries()
    env.add_listener(listener)
    env.from_collection([0]).map(lambda n: 1 // n).print()
    with pytest.raises(PenstockError):
        env.execute()
    started, terminated = listener.events
    assert terminated.id == started.id
    assert "ZeroDivisionError" in terminated.exception


def test_checkpoints_and_restarts(tmp_path: Path) -> None:
    env = environment(
        execution__checkpointing__interval="10 ms",
        execution__checkpointing__dir=str(tmp_path),
        penstock__epoch__interval="15 ms",
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"},
    )
    listener = Ours()
    env.add_listener(listener)
    failed: list[int] = []

    def fail_once(value: int) -> int:
        if value == 30 and not failed:
            failed.append(value)
            raise ValueError("once")
        return value

    env.from_collection(list(range(40))).map(fail_once).print()
    env.execute()
    assert listener.completed
    assert {record.status for record in listener.completed} == {"COMPLETED"}
    numbers = [record.checkpoint_id for record in listener.completed]
    assert numbers == sorted(set(numbers))
    [restart] = listener.restarts
    assert restart.attempt == 1
    assert "ValueError: once" in restart.reason


def test_a_listener_that_raises_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Queries):
        def onQueryProgress(self, event: Any) -> None:
            super().onQueryProgress(event)
            raise RuntimeError("mistake")

    env = environment()
    broken, sound = Broken(), Queries()
    env.add_listener(broken)
    env.add_listener(sound)
    env.from_collection(list(range(10))).print()
    with caplog.at_level(logging.ERROR, "penstock.listeners"):
        env.execute()
    assert len(broken.events) == 2, "the start and one batch"
    assert len(sound.events) > 3
    assert "onQueryProgress of listener Broken raised" in caplog.text


def test_listeners_of_a_running_job(tmp_path: Path) -> None:
    env = environment()
    env.from_collection([1]).print()
    client = env.execute_async()
    ours = Ours()
    client.add_listener(ours)
    client.get_job_execution_result().result(200)
    assert not ours.completed


@pytest.mark.parametrize("wrong", [object(), Queries, "listener", None])
def test_what_is_no_listener(wrong: Any) -> None:
    with pytest.raises(ProgramError, match="StreamingQueryListener"):
        environment().add_listener(wrong)


def test_a_listener_that_was_removed() -> None:
    env = environment()
    listener = Queries()
    env.add_listener(listener)
    env.remove_listener(listener)
    env.from_collection([1]).print()
    env.execute()
    assert listener.events == []
