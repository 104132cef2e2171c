"""On one machine each subtask stays in one worker, and there is one worker for each core."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

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
