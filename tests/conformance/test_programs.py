"""Every program gives its results however it is run: backends, parallelism, epochs, caches.

In this process each program runs with state in memory and in RocksDB, in one and in three subtasks,
in large epochs and in epochs of three records, with the subtasks kept between epochs or restored
from their versions in each. A third of the programs runs on Spark as well.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import programs
import pytest
from programs import PROGRAMS, Expected, Program
from programs.kit import TestClock
from programs.ways import WAYS, Way

from penstock.core.errors import JobExecutionError
from penstock.core.times import SystemClock
from penstock.runtime import in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment
    from penstock.runtime.records import EpochPlan, SubtaskReport

for found in pkgutil.iter_modules(programs.__path__):
    importlib.import_module(f"programs.{found.name}")


def environment(program: Program, way: Way, master: str) -> StreamExecutionEnvironment:
    env = way.environment(master)
    for key, value in program.options.items():
        env._configuration.set_string(key, value)
    return env


def run_and_check(program: Program, env: StreamExecutionEnvironment) -> None:
    stream, expected = program.build(env)
    with stream.execute_and_collect(program.name) as results:
        found = list(results)
    check(program, expected, found)


def check(program: Program, expected: Expected, found: list[Any]) -> None:
    """Compares what a program gave with what it must give."""
    if not isinstance(expected, list):
        expected(found)
    elif program.ordered:
        assert found == expected
    else:
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.fixture
def test_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets programs set the processing time of jobs."""
    wall_ms = SystemClock.wall_ms

    def now(clock: SystemClock) -> int:
        return wall_ms(clock) if TestClock.now_ms is None else TestClock.now_ms

    monkeypatch.setattr(SystemClock, "wall_ms", now)
    yield
    TestClock.now_ms = None


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_in_process(
    program: Program, way: Way, monkeypatch: pytest.MonkeyPatch, test_clock: None
) -> None:
    if way.backend == "rocksdb":
        pytest.importorskip("rocksdict")
    runner = functools.partial(in_process.InProcessRunner, keep_subtasks=way.keep_subtasks)
    monkeypatch.setattr(in_process, "InProcessRunner", runner)
    run_and_check(program, environment(program, way, "in-process"))


class FailingRunner(in_process.InProcessRunner):
    """Fails behind the second and the fifth epoch that is run, after all work was done."""

    runs = 0

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        reports = super().run(plan)
        FailingRunner.runs += 1
        if FailingRunner.runs in (2, 5):
            raise JobExecutionError("the epoch is lost")
        return reports


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "program",
    # Processing time goes on while a job is down, so what depends on it may differ.
    [program for program in PROGRAMS if not program.clocked],
    ids=lambda program: program.name,
)
def test_with_failures(
    program: Program, backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A checkpoint behind about every epoch, and two failures: the results are the same."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    FailingRunner.runs = 0
    monkeypatch.setattr(in_process, "InProcessRunner", FailingRunner)
    env = environment(program, Way(backend, 2, 1, True), "in-process")
    for key, value in {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "penstock.epoch.interval": "12 ms",
    }.items():
        env._configuration.set_string(key, value)
    run_and_check(program, env)


def test_small_epochs_are_small() -> None:
    """The ways above differ: state really crosses epochs."""
    [found] = [program for program in PROGRAMS if program.name == "rolling.sum_by_position"]
    epochs = []
    for way in WAYS[:3]:
        stream, expected = found.build(environment(found, way, "in-process"))
        with stream.execute_and_collect() as results:
            assert len(list(results)) == len(expected) == 7
            epochs.append(results.get_job_client().last_epoch)
    assert epochs[0] <= 2
    assert 3 <= epochs[1] <= 5
    assert 7 <= epochs[2] <= 9


@pytest.fixture(scope="module")
def spark_session() -> Iterator[None]:
    """One session for all programs."""
    from pyspark.sql import SparkSession

    yield
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


@pytest.mark.spark
@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.spark],
    ids=lambda program: program.name,
)
def test_on_spark(program: Program, spark_session: None) -> None:
    run_and_check(program, environment(program, Way("rocksdb", 2, 60, True), "local[2]"))
