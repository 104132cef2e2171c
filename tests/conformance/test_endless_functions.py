"""A job ends when it is cancelled or stopped, although a function of its program does not return.

Jobs run in the process of the test, where a thread can be left but not killed. `Held.still` is
what an hour in a C call is to a thread: no exception wakes it.
"""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from recovery_kit import environment
from restore_kit import wait_for

from penstock.common import JobStatus
from penstock.core.errors import JobExecutionError
from penstock.datastream.connectors import PythonSink, PythonSource
from penstock.datastream.functions import KeyedProcessFunction, MapFunction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.common.job_client import JobClient

SECONDS = 200
PLAIN = {"execution.checkpointing.interval": "", "penstock.epoch.max-records": ""}


class Held:
    """Where functions stand still, and whether one does."""

    reached: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()
    caught: ClassVar[list[str]] = []

    @classmethod
    def still(cls) -> None:
        entered, gate = threading.Lock(), threading.Lock()
        entered.acquire()
        gate.acquire()

        def usher() -> None:
            entered.acquire()
            cls.reached.set()
            cls.released.wait()
            gate.release()

        threading.Thread(target=usher, daemon=True).start()
        # One call in C: once it was told of, there is no line for an exception to be raised in.
        with suppress(BaseException):
            list(map(operator.call, (entered.release, gate.acquire)))

    @classmethod
    def busy(cls) -> None:
        cls.reached.set()
        while not cls.released.is_set():
            pass

    @classmethod
    def catching(cls) -> None:
        cls.reached.set()
        while not cls.released.is_set():
            try:
                time.sleep(0.001)
                int("not a number")
            except Exception as error:
                cls.caught[:] = [type(error).__name__]

    @classmethod
    def catching_everything(cls) -> None:
        cls.reached.set()
        while not cls.released.is_set():
            try:
                time.sleep(0.001)
            except BaseException as error:
                cls.caught.append(type(error).__name__)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Held.reached.clear()
    Held.released.clear()
    Held.caught.clear()
    before = set(threading.enumerate())
    yield
    Held.released.set()
    # What was left behind ends, and starts nothing that would stand in the way of the next test.
    while left := {*threading.enumerate()} - before:
        for thread in left:
            if thread.name == "penstock-watch":
                before.add(thread)  # One for all jobs of a process.
                continue
            thread.join(SECONDS)
            assert not thread.is_alive(), thread.name


def ended(client: JobClient) -> JobStatus:
    """Waits for the end, which must not need the function."""
    job: Any = client._job
    futures.wait([job.result], SECONDS)
    assert job.result.done(), "the job did not end"
    assert not Held.released.is_set()
    status: JobStatus = client.get_job_status().result()
    return status


@pytest.mark.parametrize("how", ["still", "busy", "catching", "catching_everything"])
@pytest.mark.parametrize("place", ["map", "keyed", "open"])
def test_cancelled_in_a_function(tmp_path: Path, how: str, place: str) -> None:
    hold = getattr(Held, how)

    class Holds(KeyedProcessFunction):
        def process_element(self, value: int, context: Any) -> Any:
            hold()
            yield value

    class Opens(MapFunction):
        def open(self, context: Any) -> None:
            hold()

        def map(self, value: int) -> int:
            return value

    env = environment(tmp_path, 2, PLAIN)
    numbers = env.from_collection(list(range(100)))
    if place == "map":
        numbers = numbers.map(lambda value: hold() or value)
    elif place == "keyed":
        numbers = numbers.key_by(lambda value: value % 3).process(Holds())
    else:
        numbers = numbers.map(Opens())
    numbers.print()
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    client.cancel()
    assert client.get_job_status().result() is JobStatus.CANCELED


class Closes(MapFunction):
    """Notes that it was closed, and what for."""

    closed: ClassVar[list[str]] = []

    def __init__(self, hold: Any = None, in_close: Any = None) -> None:
        self.hold = hold
        self.in_close = in_close

    def map(self, value: int) -> int:
        if self.hold is not None:
            self.hold()
        return value

    def close(self) -> None:
        if self.in_close is not None:
            self.in_close()
        self.closed.append("waits" if self.hold is None else "works")


@pytest.mark.parametrize("how", ["busy", "catching"])
def test_functions_are_closed_when_the_job_is_cancelled(tmp_path: Path, how: str) -> None:
    """As in Flink, before the job ends; also those that wait while others work."""
    Closes.closed.clear()
    env = environment(tmp_path, 1, PLAIN)
    numbers = env.from_source(Endless(), no_watermarks(), "endless").map(Closes())
    numbers.key_by(lambda value: value % 3).map(Closes(getattr(Held, how))).print()
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    assert sorted(Closes.closed) == ["waits", "works"]


@pytest.mark.parametrize("how", ["still", "raises"])
def test_a_close_that_does_not_end_well(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither holds the end of a cancelled job up nor hides what ended it."""

    def raises() -> None:
        raise ValueError("no farewell")

    Closes.closed.clear()
    env = environment(tmp_path, 1, PLAIN)
    in_close = Held.still if how == "still" else raises
    numbers = env.from_collection([1]).map(Closes())
    numbers.map(Closes(Held.busy, in_close)).print()
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    texts = "\n".join(each.getMessage() for each in caplog.records)
    assert ("no farewell" if how == "raises" else "close() of functions of job") in texts
    assert Closes.closed == ["waits"]


class Stubborn(PythonSink):
    """Does not return from a commit."""

    def write(self, value: Any, context: Any) -> None:
        self.mine = [value]

    def prepare_commit(self) -> list[Any]:
        return self.mine

    def commit(self, committables: list[Any], context: Any) -> None:
        if committables:
            Held.still()


class Unfindable(PythonSource):
    """Does not return from the search for splits."""

    def splits(self) -> list[str]:
        Held.still()
        return []

    def read(self, split: str, start: int, end: int) -> list[int]:
        return []


@pytest.mark.parametrize("interval", ["", "10 ms"])
def test_cancelled_in_a_commit(tmp_path: Path, interval: str) -> None:
    """In the job's own thread, or in that of its checkpoints."""
    env = environment(tmp_path, 1, {**PLAIN, "execution.checkpointing.interval": interval})
    env.from_source(Endless(), no_watermarks(), "endless").sink_to(Stubborn())
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    assert ended(client) is JobStatus.CANCELED


@pytest.mark.parametrize("stops", [False, True])
def test_a_commit_that_does_not_end_is_warned_of_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stops: bool,
) -> None:
    """While epochs go on, and where the job waits for it."""

    def warnings() -> list[str]:
        return [each.getMessage() for each in caplog.records if "committed for" in each.message]

    monkeypatch.setattr("penstock.checkpoint.executor.SLOW_COMMIT_MS", 0)
    env = environment(tmp_path, 1, PLAIN)
    env.enable_checkpointing(3_600_000 if stops else 10)
    env.from_source(Endless(), no_watermarks(), "endless").sink_to(Stubborn())
    client = env.execute_async()
    if stops:
        wait_for(lambda: client.last_epoch >= 1, "an epoch")
        client.stop_with_savepoint(False, str(tmp_path / "savepoint"))
    assert Held.reached.wait(SECONDS)
    wait_for(lambda: len(warnings()) == 1, "the warning")
    epochs = client.last_epoch
    if not stops:
        wait_for(lambda: client.last_epoch > epochs + 2, "more epochs")
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    (warning,) = warnings()
    assert "no checkpoint completes" in warning


def test_cancelled_in_the_search_for_splits(tmp_path: Path) -> None:
    env = environment(tmp_path, 1, PLAIN)
    env.from_source(Unfindable(), no_watermarks(), "unfindable").print()
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    assert ended(client) is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="CANCELED"):
        client.trigger_savepoint(str(tmp_path / "savepoints"))


def test_cancelled_between_attempts(tmp_path: Path) -> None:
    options = {**PLAIN, "restart-strategy.fixed-delay.delay": "1 h"}
    env = environment(tmp_path, 1, options)
    env.from_collection([1]).map(lambda value: value / 0).print()
    client = env.execute_async()
    wait_for(lambda: client.get_job_status().result() is JobStatus.RESTARTING, "a restart")
    client.cancel()
    assert ended(client) is JobStatus.CANCELED


def test_cancelled_before_anything_runs(tmp_path: Path) -> None:
    env = environment(tmp_path, 1, PLAIN)
    env.from_source(Endless(), no_watermarks(), "endless").print()
    client = env.execute_async()
    client.cancel()
    assert ended(client) is JobStatus.CANCELED


def test_what_is_left_behind_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    env = environment(tmp_path, 1, PLAIN)
    env.from_collection([1]).map(lambda value: Held.still()).print()
    client = env.execute_async()
    assert Held.reached.wait(SECONDS)
    client.cancel()
    ended(client)
    (warning,) = [each.getMessage() for each in caplog.records if "left behind" in each.message]
    assert "a thread cannot be killed" in warning
    assert "in still" in warning


class Endless(PythonSource):
    """As many records as anybody wants."""

    def splits(self) -> list[str]:
        return ["0"]

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


def no_watermarks() -> Any:
    from penstock.common import WatermarkStrategy

    return WatermarkStrategy.no_watermarks()


@pytest.mark.parametrize("drain", [False, True])
def test_stopped_in_an_epoch_with_a_slow_function(tmp_path: Path, drain: bool) -> None:
    """All that was read is in the savepoint: with a millisecond a record that is no long read."""
    seen: list[int] = []

    def slow(value: int) -> int:
        time.sleep(0.001)
        seen.append(value)
        return value

    options = {**PLAIN, "penstock.epoch.target-duration": "100 ms"}
    env = environment(tmp_path, 1, options)
    env.from_source(Endless(), no_watermarks(), "endless").uid("endless").map(slow).print()
    client = env.execute_async()
    wait_for(lambda: len(seen) > 300, "300 records")
    path = client.stop_with_savepoint(drain).result(SECONDS)
    assert ended(client) is JobStatus.FINISHED
    stopped_at = len(seen)
    assert seen == list(range(stopped_at))
    seen.clear()
    options["execution.state-recovery.path"] = path
    env = environment(tmp_path, 1, options)
    env.from_source(Endless(), no_watermarks(), "endless").uid("endless").map(slow).print()
    client = env.execute_async()
    wait_for(lambda: len(seen) > 100, "100 records")
    assert seen[0] == stopped_at
    client.cancel()
    ended(client)


@pytest.mark.parametrize("place", ["first", "keyed", "keyed twice"])
def test_epochs_are_short_wherever_the_slow_function_stands(tmp_path: Path, place: str) -> None:
    """From the first one on: with 50 ms a record, 100 of them would be 5 s instead of 200 ms."""
    counts: list[int] = []
    seen: list[int] = []

    class Counts:
        """Notes after each epoch how many records were processed in it."""

        def onQueryProgress(self, event: Any) -> None:
            counts.append(len(seen))

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    def slow(value: int) -> int:
        time.sleep(0.05)
        seen.append(value)
        return value

    options = {**PLAIN, "penstock.epoch.target-duration": "200 ms"}
    env = environment(tmp_path, 2, options)
    env.add_listener(Counts())
    numbers = env.from_source(Endless(), no_watermarks(), "endless")
    for _ in range(["first", "keyed", "keyed twice"].index(place)):
        numbers = numbers.key_by(lambda value: value % 7).map(lambda value: value)
    numbers.map(slow).print()
    client = env.execute_async()
    wait_for(lambda: len(counts) >= 6, "six epochs")
    client.cancel()
    ended(client)
    # Subtasks of one process run one after the other: 50 ms a record, whichever has it.
    sizes = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(sizes) <= 200 / 50 * 2, sizes


PROGRAM = """
import time
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

def endless(value):
    print("reached", flush=True)
    time.sleep(3600)

configuration = Configuration().set_string("penstock.spark.master", "in-process")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_collection([1]).map(endless).print()
env.execute()
"""


def test_interrupted_from_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        # Where the tests themselves run in the background, SIGINT is ignored, and inherited so.
        ["env", "--default-signal=INT", sys.executable, str(tmp_path / "program.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PENSTOCK_IO_TMP_DIRS": str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reached\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
