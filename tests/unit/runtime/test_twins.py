"""Spark may run a task twice at once (speculation), and tasks behind it may read either attempt.

It starts such twins on other machines only, so here they are made by hand: one epoch after the
other, both attempts write their state and their output; sometimes each is read by someone.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Encoder
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.runtime import in_process

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RECORDS = 600
KEYS = 7


class Numbered(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: tuple[int, int], context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[0]},{count},{value[1]}"


class Twins:
    """Runs tasks twice; the attempts of the first ones have numbers of their own."""

    def __init__(self, run: Any, rng: random.Random) -> None:
        self._run = run
        self._rng = rng
        self.replaced = 0
        self.mixed = 0

    def __call__(
        self,
        program: Any,
        plan: Any,
        place: Any,
        frames: Any,
        *more: Any,
        **named: Any,
    ) -> Iterable[tuple[int, Any]]:
        attempt, cache = more
        what = (program, plan, place, frames)
        first = list(self._run(*what, 1_000_000 + attempt, cache, **named))
        chance = self._rng.random()
        if chance < 0.5:
            return first
        second = list(self._run(*what, attempt, cache, **named))
        # A repeated epoch is not spoilt again: after four in vain the job would fail.
        is_mixed = chance > 0.9 and plan.try_number == 0 and {to for to, _ in first} == {0, 1}
        self.mixed += is_mixed
        self.replaced += not is_mixed
        return [each for each in (first if is_mixed else second) if each[0] == 1] + [
            each for each in second if each[0] != 1
        ]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_one_attempt_of_each_task_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    draw = random.Random(5).randrange
    twins = Twins(in_process.run_level_task, random.Random(4))
    monkeypatch.setattr(in_process, "run_level_task", twins)
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "penstock.epoch.max-records": "20",
        "restart-strategy.type": "none",
        "state.backend.type": backend,
        "io.tmp.dirs": str(tmp_path / "tmp"),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    output = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    # Attempts differ in where they send a record, so whoever reads both loses and doubles some.
    numbers = env.from_collection(list(range(RECORDS))).map(lambda value: (draw(KEYS), value))
    numbers.key_by(lambda drawn: drawn[0]).process(Numbered()).sink_to(output.build())
    env.execute()
    lines = [
        line
        for path in (tmp_path / "out").rglob("part-*")
        for line in path.read_text().splitlines()
    ]
    rows = [tuple(map(int, line.split(","))) for line in lines]
    assert sorted(value for _, _, value in rows) == list(range(RECORDS))
    sizes = Counter(key for key, _, _ in rows)
    assert sorted((key, count) for key, count, _ in rows) == [
        (key, count) for key in range(KEYS) for count in range(1, sizes[key] + 1)
    ]
    assert twins.replaced > 20
    assert twins.mixed > 3
