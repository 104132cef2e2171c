"""Each subtask stays in one worker, and there is one worker for each core of an executor."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
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


@pytest.fixture
def own_session() -> Iterator[None]:
    """The test makes a session with another master than the tests before and behind it."""
    get_session("before", "local[2,4]", {}).stop()
    yield
    get_session("behind", "local[2,4]", {}).stop()


@pytest.mark.usefixtures("own_session")
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
    # The first executor may come after the first epoch began, and the second one after that: then
    # subtasks move, once each. Nothing else makes them leave their state.
    assert totals.restores <= 2 * len(totals.subtasks)
    assert totals.home_hits >= 0.9 * (totals.home_hits + totals.restores)
    for stage in (1, 2):
        homes = Counter(totals.subtasks[stage, index].home for index in range(6))
        assert sorted(homes.values()) == [1, 1, 2, 2]
        assert len({home.partition("/")[0] for home in homes}) == 2
