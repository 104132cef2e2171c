"""Each subtask stays in one worker, and there is one worker for each core of an executor."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.job.start import start_job
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

RECORDS = 600


class Marked(MapFunction):
    """Adds where it ran: operator, subtask, worker."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def open(self, context: Any) -> None:
        self._subtask = context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        number, places = value
        return number, (*places, (self._operator, self._subtask, os.getpid()))


class Counted(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self._count = context.get_state(ValueStateDescriptor("count"))
        self._subtask = context.get_index_of_this_subtask()

    def process_element(self, value: Any, context: Any) -> Any:
        number, places = value
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield number, count, (*places, ("counted", self._subtask, os.getpid()))


@pytest.mark.parametrize("master", ["local[2]", "local[17]"])
def test_large_commands_leave_no_files(master: str) -> None:
    """An epoch sends what is large in files of the driver, of which 60 epochs would leave 120."""
    get_session("before", "local[2,4]", {}).stop()
    settings = {"spark.broadcast.UDFCompressionThreshold": "100"}
    session = get_session("small commands", master, settings)
    folder = session.sparkContext._temp_dir
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", master)
    configuration.set_string("penstock.epoch.max-records", str(RECORDS // 60))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_sequence(0, RECORDS - 1).key_by(lambda number: number % 10)
    seen = list(numbers.map(lambda number: len(os.listdir(folder))).execute_and_collect())
    left = os.listdir(folder)
    get_session("behind", "local[2,4]", {}).stop()
    assert len(seen) == RECORDS
    # The program, and a command for each slot and level.
    assert 3 <= max(seen) <= 5
    assert left == []


@pytest.mark.parametrize("parallelism", [2, 5])
def test_levels_of_several_stages_have_one_worker_for_each_subtask(parallelism: int) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "local[2]")
    configuration.set_string("penstock.epoch.max-records", str(RECORDS // 10))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    # A level of three sources, then a level of two branches.
    first, *others = [
        env.from_collection([(number, ()) for number in range(RECORDS)]).map(Marked(f"from {name}"))
        for name in range(3)
    ]
    united = first.union(*others)
    even = united.key_by(lambda value: value[0] % 10).map(Marked("even")).name("even")
    odd = united.key_by(lambda value: value[0] % 7).map(Marked("odd")).name("odd")
    counted = even.union(odd).key_by(lambda value: value[0]).process(Counted())
    results = list(counted.execute_and_collect())

    # Each number comes from three sources by two branches.
    assert Counter(number for number, _, _ in results) == dict.fromkeys(range(RECORDS), 6)
    assert sum(count == 6 for _, count, _ in results) == RECORDS
    workers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for _, _, places in results:
        for operator, subtask, worker in places:
            workers[operator, subtask].add(worker)
    assert len(workers) > 4 * parallelism
    assert {place: found for place, found in workers.items() if len(found) > 1} == {}
    assert len(set.union(*workers.values())) == 2


@pytest.fixture(params=[1])
def two_executors(request: pytest.FixtureRequest) -> Iterator[None]:
    """A session whose executors are both there before the job; it has the cores of the parameter.

    No task leaves its executor because that is busy, however slow the machine is.
    """
    get_session("before", "local[2,4]", {}).stop()
    master = f"local-cluster[2,{request.param},1024]"
    session = get_session("two executors", master, {"spark.locality.wait": "300s"})
    executors: Any = session.sparkContext._jsc
    deadline = time.monotonic() + 120
    while executors.sc().getExecutorIds().size() < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield
    get_session("behind", "local[2,4]", {}).stop()


def test_any_worker_runs_any_task_where_executors_come_and_go() -> None:
    get_session("before", "local[2,4]", {}).stop()
    master = "local-cluster[2,1,1024]"
    allocation = {"enabled": "true", "shuffleTracking.enabled": "true", "maxExecutors": "2"}
    settings = {f"spark.dynamicAllocation.{name}": value for name, value in allocation.items()}
    get_session("come and go", master, settings)
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", master)
    configuration.set_string("penstock.epoch.max-records", str(RECORDS // 10))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(3)
    numbers = env.from_collection([(number, ()) for number in range(RECORDS)])
    counted = numbers.key_by(lambda value: value[0] % 50).process(Counted())
    results = list(counted.execute_and_collect())
    get_session("behind", "local[2,4]", {}).stop()
    assert Counter(count for _, count, _ in results) == dict.fromkeys(range(1, 13), 50)


def executor_of_this_worker() -> int:
    """The JVM that forked the daemon that forked this worker."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2]
    return int(daemon.split()[1])


class Waiting(KeyedProcessFunction):
    """Counts; once, at a record, it waits for what does not come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, context: Any) -> None:
        self._count = context.get_state(ValueStateDescriptor("count"))
        (self._directory / f"executor-{executor_of_this_worker()}").touch()

    def process_element(self, value: Any, context: Any) -> Any:
        waits = self._directory / "waits"
        if value == RECORDS // 2 and not waits.exists():
            (self._directory / "new").write_text(str(executor_of_this_worker()))
            (self._directory / "new").rename(waits)
            while True:
                time.sleep(0.01)
        self._count.update((self._count.value() or 0) + 1)
        yield context.get_current_key(), self._count.value()


@pytest.mark.usefixtures("two_executors")
def test_an_attempt_ends_at_once_when_an_executor_takes_state_along(tmp_path: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "local-cluster[2,1,1024]",
        "penstock.state.local.shared": "false",
        "penstock.epoch.max-records": str(RECORDS // 30),
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": f"{tmp_path}/checkpoints",
        "execution.checkpointing.data-inline-threshold": "0",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 s",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_sequence(0, RECORDS - 1).key_by(lambda value: value % 50)
    numbers.process(Waiting(tmp_path)).print()
    job = start_job(env._stream_graph("lost"), env.get_configuration())
    while not (tmp_path / "waits").exists():
        assert not job.result.done(), job.result.result()
        time.sleep(0.05)
    # The epoch cannot end by itself: the other executor waits in it.
    executors = {int(each.name.partition("-")[2]) for each in tmp_path.glob("executor-*")}
    [other] = executors - {int((tmp_path / "waits").read_text())}
    os.kill(other, signal.SIGKILL)
    job.result.result(timeout=280)
    assert [failure.cause for failure in job.failures] == ["executor-lost"]
    assert "with state that only they had" in job.failures[0].text
    assert job.facts().failure_counts == {"executor-lost": 1}


@pytest.mark.parametrize("two_executors", [2], indirect=True)
@pytest.mark.usefixtures("two_executors")
def test_subtasks_stay_with_their_executor_on_a_cluster() -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "local-cluster[2,2,1024]")
    configuration.set_string("penstock.epoch.max-records", str(RECORDS // 30))
    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(6)
    numbers = env.from_collection([(number, ()) for number in range(RECORDS)])
    counted = numbers.key_by(lambda value: value[0] % 50).process(Counted())
    sizes = counted.map(lambda value: (value[1], ()))
    sizes.key_by(lambda value: value[0]).process(Counted()).filter(lambda value: False).print()
    job = start_job(env._stream_graph("homes"), env.get_configuration())
    job.result.result(timeout=280)

    totals = job.metrics.totals
    assert totals.epochs >= 30
    assert totals.restores <= len(totals.subtasks)
    assert totals.home_hits >= 0.9 * (totals.home_hits + totals.restores)
    for stage in (1, 2):
        homes = Counter(totals.subtasks[stage, index].home for index in range(6))
        assert sorted(homes.values()) == [1, 1, 2, 2]
        assert len({home.partition("/")[0] for home in homes}) == 2
