"""Workers whose function does not return are killed when the job is cancelled."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, JobStatus
from penstock.datastream import StreamExecutionEnvironment

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


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
