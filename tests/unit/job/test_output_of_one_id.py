"""Runs that have one job id after each other: what marks of an earlier one say of a later one.

Sinks that mark in their target how far they are (databases, Delta tables, Kafka) skip what lies at
or before the mark. Expected rows are counted by hand.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from deltalake import DeltaTable

from penstock.common import Configuration, Encoder, Row, Types
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
)
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.connectors.python import PythonSource
from penstock.job.start import start_job
from penstock.jobmanager.job_records import attempt_epoch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.job.local_job import LocalJob

JOB_ID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
WORDS = ["a", "b", "c"]


class Database:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "words.db"
        with sqlite3.connect(self._path) as database:
            database.execute("CREATE TABLE words (word TEXT)")
        url = f"jdbc:sqlite:{self._path}"
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
        word = Types.ROW([Types.STRING()])
        sql = "INSERT INTO words VALUES (?)"
        self.sink: Any = JdbcSink.exactly_once_sink(sql, word, builder.build())

    def words(self) -> list[str]:
        database = sqlite3.connect(self._path)
        found = database.execute("SELECT word FROM words ORDER BY word").fetchall()
        database.close()
        return [word for (word,) in found]


class Lake:
    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "words")
        self.sink: Any = DeltaSink(self._path, pyarrow.schema([("word", pyarrow.string())]))

    def words(self) -> list[str]:
        return sorted(DeltaTable(self._path).to_pyarrow_table()["word"].to_pylist())


class Files:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "words"
        builder = FileSink.for_row_format(str(self._path), Encoder.simple_string_encoder())
        in_one = BucketAssigner.base_path_bucket_assigner()
        self.sink: Any = builder.with_bucket_assigner(in_one).build()

    def words(self) -> list[str]:
        parts = [path for path in self._path.iterdir() if not path.name.startswith(".")]
        lines = [line for part in parts for line in part.read_text().splitlines()]
        return sorted(re.findall(r"[a-z0-9]+", line)[-1] for line in lines)


@pytest.fixture(params=[Database, Lake, Files])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def run(target: Any, folder: Path, epoch: int = 1, **settings: str) -> LocalJob:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    configuration.set_string("io.tmp.dirs", str(folder / "tmp"))
    for key, value in settings.items():
        configuration.set_string(f"execution.{key.replace('_', '.')}", value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    words = env.from_collection([Row(word) for word in WORDS], Types.ROW([Types.STRING()]))
    words.sink_to(target.sink).uid("out")
    graph = env._stream_graph("words")
    job = start_job(graph, configuration, job_id=JOB_ID, leader_epoch=epoch)
    job.wait()
    return job


@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_a_run_from_nothing_is_not_taken_for_the_one_before(
    target: Any, tmp_path: Path, has_checkpoints: bool
) -> None:
    """Without checkpoints, or when somebody has removed them, a job begins again."""
    for number in (1, 2):
        settings = {"checkpointing_interval": "1 h"} if has_checkpoints else {}
        run(target, tmp_path / str(number), **settings)
    assert target.words() == sorted(2 * WORDS)


def test_epochs_of_a_leader(target: Any, tmp_path: Path) -> None:
    run(target, tmp_path, attempt_epoch(70_000, 900))
    assert target.words() == WORDS


END = 30
limits: dict[str, int] = {}


class Numbers(PythonSource):
    """Numbers up to the limit of the test, of which there are no more than END."""

    bounded = True

    def __init__(self, name: str) -> None:
        self.name = name

    def splits(self) -> list[str]:
        return ["all"]

    def end_offset(self, split: str) -> int:
        return END

    def latest_offset(self, split: str) -> int:
        return limits[self.name]

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


def follow(
    target: Any, folder: Path, name: str, epoch: int = 1, job_id: str = JOB_ID, **settings: str
) -> LocalJob:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "io.tmp.dirs": str(folder / "tmp"),
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }.items():
        configuration.set_string(key, value)
    if settings:
        configuration.set_string("execution.state-recovery.path", settings["start"])
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)

    def word(number: int) -> Row:
        if number == limits["fails at"]:
            limits["fails at"] = -1
            limits[name] = 12
            raise ValueError("once")
        return Row(str(number))

    words = env.add_source(Numbers(name)).uid("numbers").map(word, Types.ROW([Types.STRING()]))
    words.sink_to(target.sink).uid("out")
    return start_job(env._stream_graph("n"), configuration, job_id=job_id, leader_epoch=epoch)


def wait_until(condition: Callable[[], Any]) -> None:
    for _ in range(20_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("in vain")


@pytest.mark.parametrize("is_process", [False, True], ids=["attempt", "process"])
@pytest.mark.parametrize("kind", [Database, Files])
def test_a_savepoint_owes_its_output_after_the_job_went_another_way(
    kind: type[Any], tmp_path: Path, is_process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The next attempt starts before the savepoint, and commits output of its own; then it ends.

    Another job starts from the savepoint: 10 and more are there from both, and nothing is missing.
    """
    target = kind(tmp_path)
    limits.update({"first": 10, "fails at": -1})
    job = follow(target, tmp_path, "first")
    wait_until(lambda: job.records_read == 10)
    job.trigger_checkpoint().result(60)
    limits["first"] = 20
    wait_until(lambda: job.records_read == 20)
    savepoint = job.trigger_savepoint(str(tmp_path / "savepoints")).result(60)
    if is_process:
        limits["other"] = 12
        other = follow(target, tmp_path, "other", 2)
    else:
        limits.update({"fails at": 20, "first": 21})
        other = job
        wait_until(lambda: job.restarts == 1)
    wait_until(lambda: other.status is JobStatus.RUNNING)
    if kind is Database:
        wait_until(lambda: other.trigger_checkpoint().result(60) and "11" in target.words())
    else:  # At its end a file sink removes what nothing owes any more.
        limits.update({"first": END, "other": END})
        other.result.result(60)
    for each in (other, job):
        each.cancel()
        each.result.exception(60)
    # The older process leaves the checkpoints to the other one at once.
    assert "were not cleaned up" not in caplog.text
    limits["last"] = END
    follow(target, tmp_path, "last", job_id="f" * 32, start=savepoint).result.result(60)
    numbers = [*range(END), *([10, 11] if kind is Database else range(10, END))]
    assert sorted(target.words()) == sorted(map(str, numbers))
