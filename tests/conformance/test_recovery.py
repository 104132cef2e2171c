"""After failures at varied places, results are those of a run without any.

The expected results are computed here, by plain loops that share nothing with the operators.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import Faults, collected, environment, failing_at, same

from penstock.common import Encoder, Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.connectors.file_sink.sink import FileSink
from penstock.datastream import AsyncDataStream
from penstock.datastream.functions import (
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 1_500
FAILING = (3, 170, 171, 777, 1_200, 1_499)
RULES = MapStateDescriptor("rules")


@pytest.fixture(autouse=True)
def _no_faults_yet() -> None:
    Faults.hit.clear()


VARIANTS = [
    pytest.param(parallelism, options, id=f"{parallelism}-{name}")
    for parallelism, (name, options) in itertools.product(
        [1, 3],
        {
            "heap-full": {},
            "heap-incremental": {"execution.checkpointing.incremental": "true"},
            "heap-jobmanager": {"execution.checkpointing.dir": ""},
            "heap-files": {"execution.checkpointing.data-inline-threshold": "0"},
            "rocks-full": {"state.backend.type": "rocksdb"},
            "rocks-incremental": {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.incremental": "true",
                "execution.checkpointing.data-inline-threshold": "0",
            },
        }.items(),
    )
]


class Running(KeyedProcessFunction):
    """Counts and sums per key, remembers recent values, counts kinds; fails on the way."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))
        self.recent = context.get_list_state(ListStateDescriptor("recent"))
        self.kinds = context.get_map_state(MapStateDescriptor("kinds"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.recent.add(value)
        if len(list(self.recent.get())) > 3:
            self.recent.update(list(self.recent.get())[1:])
        kind = value % 3
        self.kinds.put(kind, (self.kinds.get(kind) or 0) + 1)
        if value in FAILING:
            Faults.once(f"running-{value}")
        yield (
            context.get_current_key(),
            count,
            tuple(self.recent.get()),
            tuple(sorted(self.kinds.items())),
        )


def expected_running() -> list[Any]:
    results = []
    for key in range(7):
        values = [value for value in range(RECORDS) if value % 7 == key]
        for count in range(1, len(values) + 1):
            kinds = Counter(value % 3 for value in values[:count])
            recent = tuple(values[max(0, count - 3) : count])
            results.append((key, count, recent, tuple(sorted(kinds.items()))))
    return results


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_keyed_state_survives(tmp_path: Path, parallelism: int, options: dict[str, str]) -> None:
    env = environment(tmp_path, parallelism, options)
    stream = (
        env.from_sequence(0, RECORDS - 1)
        .set_parallelism(1)
        .map(failing_at([10, 900], "before"))
        .set_parallelism(1)
        .key_by(lambda value: value % 7)
        .process(Running())
        .map(failing_at([], "after"))
    )
    same(collected(stream), expected_running())
    assert len(Faults.hit) == 8


class Sum(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Any) -> Any:
        window = context.window()
        values = sorted(elements)
        for value in values:
            if value in FAILING:
                Faults.once(f"window-{value}")
        yield key, window.start, window.end, sum(values), len(values)


def event_time(value: int, _previous: int) -> int:
    """Out of order by at most 8 ms; and a gap of 200 ms after each 100 records."""
    return value * 10 + (value // 100) * 200 + (value * 5) % 9


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_windows_survive(tmp_path: Path, parallelism: int, options: dict[str, str]) -> None:
    env = environment(tmp_path, parallelism, options)
    stream = (
        env.from_sequence(0, RECORDS - 1)
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(
                Time.milliseconds(20)
            ).with_timestamp_assigner(event_time)
        )
        .set_parallelism(1)
        .map(failing_at([0, 640], "before"))
        .set_parallelism(1)
        .key_by(lambda value: value % 4)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(300)))
        .process(Sum())
    )
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for value in range(RECORDS):
        windows[value % 4, event_time(value, 0) // 300 * 300].append(value)
    same(
        collected(stream),
        [(key, at, at + 300, sum(got), len(got)) for (key, at), got in windows.items()],
    )
    assert len(Faults.hit) == 8


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_sessions_survive(tmp_path: Path, parallelism: int, backend: str) -> None:
    env = environment(tmp_path, parallelism, {"state.backend.type": backend})
    stream = (
        env.from_sequence(0, RECORDS - 1)
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(
                Time.milliseconds(20)
            ).with_timestamp_assigner(event_time)
        )
        .set_parallelism(1)
        .key_by(lambda value: value % 4)
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(100)))
        .process(Sum())
    )
    expected = []
    for key in range(4):
        times = sorted((event_time(v, 0), v) for v in range(RECORDS) if v % 4 == key)
        runs: list[list[tuple[int, int]]] = []
        for each in times:
            if runs and each[0] - runs[-1][-1][0] <= 100:
                runs[-1].append(each)
            else:
                runs.append([each])
        for run in runs:
            values = [value for _, value in run]
            expected.append((key, run[0][0], run[-1][0] + 100, sum(values), len(values)))
    assert len(expected) > 40
    same(collected(stream), expected)


class BehindEachRecord(WatermarkGenerator):
    """Which timers are deleted in time must not depend on where epochs end."""

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(event_timestamp - 1)

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Reminders(KeyedProcessFunction):
    """Each key reminds of its newest value 50 ms of event time after it came."""

    def open(self, context: Any) -> None:
        self.newest = context.get_state(ValueStateDescriptor("newest"))
        self.due = context.get_state(ValueStateDescriptor("due"))

    def process_element(self, value: int, context: Any) -> Any:
        if value in FAILING:
            Faults.once(f"timer-{value}")
        before = self.due.value()
        if before is not None:
            context.timer_service().delete_event_time_timer(before)
        self.newest.update(value)
        self.due.update(context.timestamp() + 50)
        context.timer_service().register_event_time_timer(context.timestamp() + 50)
        return []

    def on_timer(self, timestamp: int, context: Any) -> Any:
        if self.newest.value() in (99, 1_450):
            Faults.once(f"on-timer-{self.newest.value()}")
        yield context.get_current_key(), self.newest.value(), timestamp
        self.due.clear()


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_timers_survive(tmp_path: Path, parallelism: int, options: dict[str, str]) -> None:
    def time(value: int, _: int = 0) -> int:
        return value * 10 + (value // 20) * 100

    env = environment(tmp_path, parallelism, options)
    stream = (
        env.from_sequence(0, RECORDS - 1)
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_generator(BehindEachRecord).with_timestamp_assigner(time)
        )
        .set_parallelism(1)
        .key_by(lambda value: value % 3)
        .process(Reminders())
    )
    # A pause of 100 ms follows each 20 records; within them every key comes again in 30 ms. The
    # record behind the pause still finds, and deletes, the timer of its own key.
    expected = []
    for first in range(0, RECORDS, 20):
        for key in range(3):
            last = max(value for value in range(first, first + 20) if value % 3 == key)
            if first + 20 == RECORDS or key != (first + 20) % 3:
                expected.append((key, last, time(last) + 50))
    same(collected(stream), expected)


class Asked(AsyncFunction):
    """Waits, and fails on the way while other calls are in flight."""

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0.003 if value % 7 == 0 else 0)
        if value in FAILING:
            Faults.once(f"call-{value}")
        return [value, -value]


@pytest.mark.parametrize("wait", ["ordered_wait", "unordered_wait"])
@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_asynchronous_calls_survive(
    tmp_path: Path, parallelism: int, options: dict[str, str], wait: str
) -> None:
    env = environment(tmp_path, parallelism, options)
    records = env.from_sequence(0, RECORDS - 1).set_parallelism(1)
    calls = getattr(AsyncDataStream, wait)(records, Asked(), Time.minutes(1), 20)
    found = collected(calls.map(failing_at(FAILING, "behind")))
    expected = [sign * value for value in range(RECORDS) for sign in (1, -1)]
    if parallelism == 1 and wait == "ordered_wait":
        assert found == expected
    same(found, expected)


class Numbered(MapFunction, CheckpointedFunction):
    """List state: how many records this subtask saw; union state: the subtasks that reported."""

    def __init__(self) -> None:
        self.seen = 0

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.counts = store.get_list_state(ListStateDescriptor("counts"))
        self.all = store.get_union_list_state(ListStateDescriptor("all"))
        self.seen = sum(self.counts.get())

    def snapshot_state(self, context: Any) -> None:
        self.counts.update([self.seen])
        self.all.update([self.seen])

    def map(self, value: int) -> Any:
        self.seen += 1
        if value in FAILING:
            Faults.once(f"list-{value}")
        return value, self.seen


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_operator_state_survives(tmp_path: Path, parallelism: int, options: dict[str, str]) -> None:
    env = environment(tmp_path, parallelism, options)
    numbered = env.from_sequence(0, RECORDS - 1).set_parallelism(1).rebalance().map(Numbered())
    results = collected(numbered)
    same([value for value, _ in results], range(RECORDS))
    # Each subtask numbers its records without a gap, whatever it was given.
    shares = Counter(number for _, number in results)
    longest = max(shares)
    assert all(shares[number] >= shares[number + 1] for number in range(1, longest))
    assert max(shares.values()) <= parallelism


class Apply(BroadcastProcessFunction):
    def process_element(self, value: int, context: Any) -> Any:
        if value in FAILING:
            Faults.once(f"broadcast-{value}")
        factor = context.get_broadcast_state(RULES).get("factor")
        yield value * factor

    def process_broadcast_element(self, value: tuple[str, int], context: Any) -> Any:
        context.get_broadcast_state(RULES).put(*value)
        return []


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_broadcast_state_survives(
    tmp_path: Path, parallelism: int, options: dict[str, str]
) -> None:
    env = environment(tmp_path, parallelism, options)
    rules = env.from_collection([("factor", 1), ("factor", 3)]).broadcast(RULES)
    stream = env.from_sequence(0, RECORDS - 1).set_parallelism(1).rebalance()
    same(collected(stream.connect(rules).process(Apply())), [3 * v for v in range(RECORDS)])


@pytest.mark.parametrize(("parallelism", "options"), VARIANTS)
def test_files_are_written_once(tmp_path: Path, parallelism: int, options: dict[str, str]) -> None:
    env = environment(tmp_path, parallelism, options)
    out = tmp_path / "out"
    stream = (
        env.from_sequence(0, RECORDS - 1)
        .set_parallelism(1)
        .key_by(lambda value: value % 5)
        .reduce(lambda a, b: a + b)
        .map(failing_at([0, 5, 75_050], "sum"))
    )
    encoder = Encoder.simple_string_encoder()
    stream.map(str).sink_to(FileSink.for_row_format(str(out), encoder).build())
    env.execute("files")
    lines = [
        line
        for path in out.rglob("*")
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    ]
    expected = []
    for key in range(5):
        expected += itertools.accumulate(range(key, RECORDS, 5))
    same(map(int, lines), expected)
    left = [path for path in out.rglob(".*") if path.is_file()]
    assert not left, left
