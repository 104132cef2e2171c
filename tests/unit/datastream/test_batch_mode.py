"""BATCH gives the last result of each key and no late record; STREAMING gives every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Time, Types, WatermarkStrategy
from penstock.core.errors import ProgramError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, NumberSequenceSource
from penstock.datastream.program import FinalReduce
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
