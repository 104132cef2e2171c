"""Where an epoch is that does not end: operator, record, key, and the user's part of the stack."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.job.documents.job import job_view
from penstock.job.start import start_job
from penstock.runtime.overdue import OverdueEpoch, OverdueTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

reached, released = threading.Event(), threading.Event()
SECONDS = 200


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    reached.clear()
    released.clear()
    yield
    released.set()


def ask_the_model(value: int) -> int:
    if value == 7:
        reached.set()
        released.wait(SECONDS)
    return value


class Scored(KeyedProcessFunction):
    def process_element(self, value: int, context: Any) -> Any:
        yield ask_the_model(value)


class Slow(MapFunction):
    def open(self, context: Any) -> None:
        ask_the_model(7)

    def map(self, value: int) -> int:
        return value


def started(tmp_path: Path, place: str) -> Any:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.epoch.target-duration", "10 ms")
    configuration.set_string("io.tmp.dirs", str(tmp_path))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_collection(list(range(20)))
    if place == "map":
        numbers = numbers.map(ask_the_model).name("scored")
    elif place == "keyed":
        numbers = numbers.key_by(lambda value: value % 4).process(Scored()).name("scored")
    else:
        numbers = numbers.map(Slow()).name("scored")
    numbers.print()
    return start_job(env._stream_graph("overdue"), configuration)


def told(job: Any, caplog: pytest.LogCaptureFixture) -> OverdueTask:
    """Waits until the job knows where its epoch is, and has warned."""
    assert reached.wait(SECONDS)
    ends = threading.Event()
    for _ in range(SECONDS * 100):
        found = job.facts().overdue
        if found is not None and found.tasks and warnings(caplog):
            return found.tasks[0]  # type: ignore[no-any-return]
        ends.wait(0.01)
    raise AssertionError("nobody was told")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("place", "record", "key"), [("map", "7", None), ("keyed", "7", "3"), ("open", None, None)]
)
def test_an_epoch_that_does_not_end_says_where_it_is(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    place: str,
    record: str | None,
    key: str | None,
) -> None:
    caplog.set_level(logging.WARNING, "penstock.job")
    job = started(tmp_path, place)
    task = told(job, caplog)
    assert task.record == record
    assert task.key == key
    assert task.operator == "scored"
    assert "ask_the_model" in task.stack
    assert "chain.py" not in task.stack, "the engine's own frames say nothing"
    document = job_view(job.facts(), 0)["overdue"]
    # On a busy machine the time of the first epoch may be over before the record that takes long.
    epoch = document["epoch"]
    assert epoch == job.last_epoch + 1
    assert "ask_the_model" in document["tasks"][0]["stack"]
    assert any(f"Epoch {epoch} has run for" in each for each in warnings(caplog))
    released.set()
    job.wait()
    # Once, and again when the duration has doubled: few, however long it took.
    assert job.facts().overdue is None
    assert job_view(job.facts(), 0)["overdue"] is None
    assert not [*tmp_path.rglob("overdue/*.json")]


def test_the_warning_says_all() -> None:
    task = OverdueTask(
        "Source: numbers -> scored",
        1,
        4,
        "scored",
        "{'id': 7}",
        "'a'",
        '  File "job.py"',
        "host, process 12",
    )
    text = OverdueEpoch(31, 0, (task,)).describe(12_345, 1_000)
    assert text == (
        "Epoch 31 has run for 12 s; epochs should take 1 s (penstock.epoch.target-duration). "
        "Until it ends there is no checkpoint and no output.\n"
        "  in operator 'scored', subtask 2 of 4, host, process 12\n"
        "    key: 'a'\n"
        "    record: {'id': 7}\n"
        '      File "job.py"'
    )
    assert "Spark may lack free cores" in OverdueEpoch(31, 0, ()).describe(12_345, 1_000)
