"""BATCH gives the last result of each key and no late record; STREAMING gives every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock.common import Time, Types, WatermarkStrategy
from penstock.core.errors import ProgramError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, NumberSequenceSource
from penstock.datastream.functions import (
    CoFlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from penstock.datastream.program import FinalReduce
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.harness import OneOperatorHarness

ADD = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]


def results(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def test_reductions(env: StreamExecutionEnvironment) -> None:
    pairs = Types.TUPLE([Types.STRING(), Types.INT()])

    def reduced() -> Any:
        return env.from_collection(PAIRS, pairs).key_by(0).reduce(ADD)

    assert sorted(results(reduced())) == [("a", 1), ("a", 4), ("a", 8), ("b", 2)]
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert sorted(results(reduced())) == [("a", 8), ("b", 2)]
    assert sorted(results(env.from_collection(PAIRS).key_by(0).sum(1))) == [("a", 8), ("b", 2)]
    assert sorted(results(env.from_collection(PAIRS).key_by(0).max_by(1))) == [("a", 4), ("b", 2)]
    # AUTOMATIC is BATCH when all sources end.
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert sorted(results(reduced())) == [("a", 8), ("b", 2)]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5))))
def test_last_result_of_each_key(pairs: list[tuple[str, int]]) -> None:
    expected: Counter[str] = Counter()
    for key, number in pairs:
        expected[key] += number
    operator = OneOperatorHarness(FinalReduce(ADD), key=lambda pair: pair[0])
    operator.process(*pairs)
    assert operator.values == []
    operator.watermark(2**63 - 1)
    assert sorted(operator.values) == sorted((key, expected[key]) for key in {k for k, _ in pairs})


def test_no_record_is_late(env: StreamExecutionEnvironment) -> None:
    # With ascending timestamps declared, 5 and 3 come after the watermark has passed their window.
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value * 1_000
    )

    def counted() -> Any:
        numbers = env.from_collection([1, 70, 5, 3]).map(lambda value: value)
        timed = numbers.assign_timestamps_and_watermarks(strategy).rebalance().map(int)
        return (
            timed.key_by(lambda value: 0)
            .window(TumblingEventTimeWindows.of(Time.minutes(1)))
            .count()
        )

    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert results(counted()) == [3, 1]


class Noted(KeyedCoProcessFunction):
    """Gives what it gets, and the watermark it sees; a timer is due in the middle of its key."""

    def note(self, side: str, value: tuple[str, int], ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(3)
        assert ctx.timestamp() == value[1]
        yield value[0], side, value[1], ctx.timer_service().current_watermark()

    def process_element1(self, value: tuple[str, int], ctx: Any) -> Any:
        yield from self.note("left", value, ctx)

    def process_element2(self, value: tuple[str, int], ctx: Any) -> Any:
        yield from self.note("right", value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "timer", timestamp, ctx.timer_service().current_watermark()


class Last(CoFlatMapFunction):
    """Gives each record with the one before it of the same key, whichever input it is of."""

    def open(self, runtime_context: Any) -> None:
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.INT()))

    def flat_map1(self, value: tuple[str, int]) -> Any:
        yield value[0], self.before.value(), value[1]
        self.before.update(value[1])

    def flat_map2(self, value: tuple[str, int]) -> Any:
        yield from self.flat_map1(value)


class Sequence(KeyedProcessFunction):
    """Numbers the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Any:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value[0], number, value[1]


LEFT = [("a", 5), ("b", 4), ("a", 1), ("b", 2), ("a", 3)]
RIGHT = [("b", 1), ("a", 4), ("a", 2), ("b", 2)]
MIN, MAX = -(2**63), 2**63 - 1


def test_keyed_inputs_come_in_order_of_time(env: StreamExecutionEnvironment) -> None:
    """As Flink sorts in BATCH: by key, then timestamp, both inputs together."""
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value[1]
    )

    def keyed(records: list[tuple[str, int]]) -> Any:
        timed = env.from_collection(records).assign_timestamps_and_watermarks(strategy)
        return timed.key_by(lambda value: value[0])

    def of_key(stream: Any) -> tuple[list[Any], list[Any]]:
        rows = results(stream)
        return tuple([row[1:] for row in rows if row[0] == key] for key in "ab")

    def sequences() -> tuple[list[Any], list[Any]]:
        return of_key(keyed(LEFT).process(Sequence()))

    assert sequences() == ([(1, 5), (2, 1), (3, 3)], [(1, 4), (2, 2)])
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert sequences() == ([(1, 1), (2, 3), (3, 5)], [(1, 2), (2, 4)])
    a, b = of_key(keyed(LEFT).connect(keyed(RIGHT)).process(Noted()))
    assert [(side, time) for side, time, _ in a] == [
        ("left", 1),
        ("right", 2),
        ("left", 3),
        ("right", 4),
        ("left", 5),
        ("timer", 3),
    ]
    assert [(side, time) for side, time, _ in b] == [
        ("right", 1),
        ("left", 2),
        ("right", 2),
        ("left", 4),
        ("timer", 3),
    ]
    # What arrives is never late; timers fire at the end of all time.
    assert {watermark for side, _, watermark in a + b if side != "timer"} == {MIN}
    assert {watermark for side, _, watermark in a + b if side == "timer"} == {MAX}
    a, b = of_key(keyed(LEFT).connect(keyed(RIGHT)).flat_map(Last()))
    assert a == [(None, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert b == [(None, 1), (1, 2), (2, 2), (2, 4)]


def test_records_without_a_time_keep_their_order(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    keyed = env.from_collection(LEFT).key_by(lambda value: value[0])
    rows = results(keyed.process(Sequence()))
    assert [row[1:] for row in rows if row[0] == "a"] == [(1, 5), (2, 1), (3, 3)]


def test_timestamps_of_sources_stay(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value
    )
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_source(NumberSequenceSource(1, 3), strategy, "numbers").print()
    spec = env._stream_graph().nodes[1].spec
    assert spec.strategy.timestamp_assigner is strategy.timestamp_assigner
    assert not spec.strategy.generates_watermarks


def test_unbounded_sources(env: StreamExecutionEnvironment) -> None:
    endless = DataGeneratorSource(lambda n: n, None)
    env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless").key_by(int).sum().print()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    with pytest.raises(ProgramError, match=r"BATCH, but the sources Source: endless do not end"):
        env._stream_graph()
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert not isinstance(env._stream_graph().nodes[2].spec, FinalReduce)
