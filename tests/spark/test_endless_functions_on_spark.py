"""Workers whose function does not return are killed when the job is cancelled."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from penstock.common import Configuration, JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import MapFunction

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark
SECONDS = 250


def endless(how: str) -> Callable[[], None]:
    """Returns a function that travels to workers as a program's own do."""

    def asleep() -> None:
        time.sleep(3600)

    def in_c() -> None:
        """Never lets go of the interpreter: no other thread of the worker runs any more."""
        sum(range(10**15))

    def catching() -> None:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(1)

    return {"asleep": asleep, "in C": in_c, "catching": catching}[how]


def wait_for(found: Callable[[], Any], what: str) -> None:
    ends = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < ends, what
        time.sleep(0.05)


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "local[2]")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


@pytest.mark.parametrize("how", ["asleep", "in C", "catching"])
def test_cancelled_in_a_function(tmp_path: Path, how: str) -> None:
    """Behind a `key_by`, where no deadline of a source helps."""
    stay = endless(how)

    def hold(value: Any) -> Any:
        (tmp_path / f"{os.getpid()}").touch()
        stay()
        return value

    env = environment()
    numbers = env.from_collection(list(range(100)))
    numbers.key_by(lambda value: value % 7).map(hold).print()
    client = env.execute_async()
    job: Any = client._job
    wait_for(lambda: job.result.done() or [*tmp_path.iterdir()], "no function was called")
    client.cancel()
    client.cancel()
    futures.wait([job.result], SECONDS)
    assert job.result.done(), "the job did not end"
    assert client.get_job_status().result() is JobStatus.CANCELED
    for worker in tmp_path.iterdir():
        wait_for(lambda pid=worker.name: not is_alive(pid), f"worker {worker.name} still runs")
    # The session is as good as before.
    with (
        environment().from_collection([1, 2]).map(lambda value: -value).execute_and_collect() as it
    ):
        assert sorted(it) == [-2, -1]


class Noting(MapFunction):
    """Leaves a file of the worker's number when it is opened, and another when it is closed."""

    def __init__(self, folder: Path, stay: Any = None, in_close: Any = None) -> None:
        self.folder = folder
        self.stay = stay
        self.in_close = in_close

    def open(self, runtime_context: Any) -> None:
        self.name = f"{os.getpid()}-{runtime_context.get_index_of_this_subtask()}"
        (self.folder / f"open-{self.name}").touch()

    def map(self, value: Any) -> Any:
        if self.stay is not None:
            (self.folder / "reached").touch()
            self.stay()
        return value

    def close(self) -> None:
        if self.in_close is not None:
            self.in_close()
        (self.folder / f"closed-{self.name}").touch()


def names(folder: Path, what: str) -> set[str]:
    return {each.name.removeprefix(what) for each in folder.glob(f"{what}*")}


def test_functions_are_closed_when_the_job_ends(tmp_path: Path) -> None:
    env = environment()
    env.from_collection(list(range(100))).key_by(lambda value: value).map(Noting(tmp_path)).print()
    env.execute()
    assert names(tmp_path, "closed-") == names(tmp_path, "open-")
    assert {each[-2:] for each in names(tmp_path, "open-")} == {"-0", "-1"}


def test_functions_are_closed_when_the_job_is_cancelled(tmp_path: Path) -> None:
    """Those of the workers that are killed, and of those that wait."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    env = environment()
    numbers = env.from_collection(list(range(100))).key_by(lambda value: value)
    numbers = numbers.map(Noting(folders[0])).key_by(lambda value: value % 2)
    numbers.map(Noting(folders[1], endless("asleep"))).print()
    client = env.execute_async()
    job: Any = client._job
    wait_for(lambda: job.result.done() or names(folders[1], "reached"), "no function was called")
    client.cancel()
    futures.wait([job.result], SECONDS)
    for folder in folders:
        assert names(folder, "open-")
        wait_for(
            lambda folder=folder: names(folder, "closed-") == names(folder, "open-"),
            f"functions are open: {sorted(folder.iterdir())}",
        )


def test_a_worker_whose_close_does_not_return_is_killed(tmp_path: Path) -> None:
    env = environment()
    stay = endless("asleep")
    env.from_collection([1]).key_by(lambda value: value).map(Noting(tmp_path, stay, stay)).print()
    client = env.execute_async()
    job: Any = client._job
    wait_for(lambda: job.result.done() or names(tmp_path, "reached"), "no function was called")
    client.cancel()
    futures.wait([job.result], SECONDS)
    assert client.get_job_status().result() is JobStatus.CANCELED
    for worker in {each.partition("-")[0] for each in names(tmp_path, "open-")}:
        wait_for(lambda pid=worker: not is_alive(pid), f"worker {worker} still runs")
    assert not names(tmp_path, "closed-")


@pytest.mark.parametrize("late", [False, True], ids=["begun", "not-begun"])
def test_a_commit_that_does_not_return_is_ended(tmp_path: Path, *, late: bool) -> None:
    """What it does on Spark would go on for ever, with cores that the next job wants."""
    stay = endless("asleep")

    def endlessly(row: Any) -> None:
        (tmp_path / "reached").touch()
        stay()

    def save(rows: Any, epoch: int) -> None:
        (tmp_path / "saving").touch()
        if late:
            wait_for((tmp_path / "cancelled").exists, "the job was not cancelled")
        # The files behind the rows go with the job.
        rows.sparkSession.sparkContext.parallelize([1]).foreach(endlessly)

    env = environment()
    env.from_collection([1, 2, 3]).to_spark(save)
    client = env.execute_async()
    job: Any = client._job
    sign = "saving" if late else "reached"
    wait_for(lambda: job.result.done() or names(tmp_path, sign), "nothing was committed")
    client.cancel()
    futures.wait([job.result], SECONDS)
    assert client.get_job_status().result() is JobStatus.CANCELED
    (tmp_path / "cancelled").touch()
    if late:
        wait_for((tmp_path / "reached").exists, "the commit began nothing")
    context = SparkContext.getOrCreate()
    wait_for(lambda: not context.statusTracker().getActiveJobsIds(), "a job of Spark's goes on")


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
