"""Connected streams, broadcast state and joins at the level of nodes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from program_nodes import node_of, spec_of

from penstock.common import Time, Types
from penstock.core.errors import ProgramError
from penstock.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FlatJoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStream,
    OutputTag,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    TumblingEventTimeWindows,
)
from penstock.graph.nodes import Broadcast, Forward, KeyGroups
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.process import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
)
from penstock.operators.windows.contents import PairContents
from penstock.operators.windows.functions import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
)
from penstock.testing.harness import OneOperatorHarness

MINUTE = TumblingEventTimeWindows.of(Time.minutes(1))


# ---- connected streams ----


class Maps(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class FlatMaps(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value]

    def flat_map2(self, value: Any) -> Any:
        return [value]


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return [("first", value, ctx)]

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return [("second", value, ctx)]


class BothKeyed(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return [value]

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return [value]


def test_second_input_is_marked(words: DataStream) -> None:
    other = words.map(str).union(words.map(str))
    inputs = node_of(words.connect(other).map(Maps())).inputs
    assert [each.input_index for each in inputs] == [0, 1, 1]
    assert all(each.partitioning == Forward() for each in inputs)


def test_connected_functions(words: DataStream) -> None:
    plain = words.connect(words)
    keyed = plain.key_by(len, len)
    maps, flat_maps, both, both_keyed = Maps(), FlatMaps(), Both(), BothKeyed()
    assert spec_of(plain.map(maps)) == CoMapSpec(maps, False)
    assert spec_of(keyed.map(maps)) == CoMapSpec(maps, True)
    assert spec_of(plain.flat_map(flat_maps)) == CoFlatMapSpec(flat_maps, False)
    assert spec_of(keyed.flat_map(flat_maps)) == CoFlatMapSpec(flat_maps, True)
    assert spec_of(plain.process(both)) == CoProcessSpec(both)
    assert spec_of(keyed.process(both_keyed)) == KeyedCoProcessSpec(both_keyed)
    assert all(
        isinstance(each.partitioning, KeyGroups)
        for each in node_of(keyed.process(both_keyed)).inputs
    )


def test_plain_function_on_keyed_streams_gets_state(words: DataStream) -> None:
    spec = spec_of(words.connect(words).key_by(len, len).process(Both()))
    assert isinstance(spec, KeyedCoProcessSpec)
    assert spec.function.process_element1(1, "ctx") == [("first", 1, "ctx")]
    assert spec.function.process_element2(2, "ctx") == [("second", 2, "ctx")]


class Remembers(CoProcessFunction, CheckpointedFunction):
    """Tells in its results what it was asked for; fires a timer, as Java's does."""

    def initialize_state(self, context: Any) -> None:
        state = context.get_operator_state_store()
        self.mine = state.get_list_state(ListStateDescriptor("mine"))

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def snapshot_state(self, context: Any) -> None:
        self.mine.add(context.get_checkpoint_id())

    def process_element1(self, value: str, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(5)

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.value(), timestamp


def test_plain_function_on_keyed_streams_keeps_its_own_state(words: DataStream) -> None:
    stream = words.connect(words).key_by(len, len).process(Remembers())
    with stream.execute_and_collect() as results:
        assert list(results) == [(1, 4, 5)]
    operator = OneOperatorHarness(spec_of(stream), key=len)
    saved = operator.snapshot()
    operator.snapshot()
    operator.restore(saved)
    assert operator.logic.function._function.mine.get() == [1]


def test_wrong_connected_streams(words: DataStream) -> None:
    with pytest.raises(
        ProgramError, match="BothKeyed is a KeyedCoProcessFunction, but the streams"
    ):
        words.connect(words).process(BothKeyed())
    with pytest.raises(ProgramError, match="only the first of two connected streams has a key"):
        words.key_by(len).connect(words).map(Maps())
    with pytest.raises(ProgramError, match="only the second of two connected streams has a key"):
        words.connect(words.key_by(len)).process(Both())
    with pytest.raises(ProgramError, match="CoMapFunction"):
        words.connect(words).map(lambda value: value)  # type: ignore[arg-type]


# ---- broadcast state ----

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


class Plain(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return []


class Keyed(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return []


def test_broadcast_state(words: DataStream, keyed: KeyedStream) -> None:
    rules = words.broadcast(RULES)
    plain, with_key = Plain(), Keyed()
    stream = words.connect(rules).process(plain)
    assert spec_of(stream) == BroadcastProcessSpec(plain, (RULES,))
    assert [type(each.partitioning) for each in node_of(stream).inputs] == [Forward, Broadcast]
    assert [each.input_index for each in node_of(stream).inputs] == [0, 1]
    by_key = keyed.connect(rules).process(with_key)
    assert spec_of(by_key) == KeyedBroadcastProcessSpec(with_key, (RULES,))
    assert [type(each.partitioning) for each in node_of(by_key).inputs] == [KeyGroups, Broadcast]


def test_wrong_broadcast(words: DataStream, keyed: KeyedStream) -> None:
    rules = words.broadcast(RULES)
    with pytest.raises(ProgramError, match="Keyed is a KeyedBroadcastProcessFunction, but"):
        words.connect(rules).process(Keyed())
    with pytest.raises(
        ProgramError, match="Plain is a BroadcastProcessFunction, but the stream has"
    ):
        keyed.connect(rules).process(Plain())
    with pytest.raises(ProgramError, match="takes MapStateDescriptors"):
        words.broadcast("rules")  # type: ignore[call-overload]


# ---- joins ----


class Pairs(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return []


def join(first: Any, second: Any) -> Any:
    return first, second


def test_join(words: DataStream) -> None:
    other = words.map(str)
    stream = (
        words.join(other)
        .where(len)
        .equal_to(lambda value: 7)
        .window(MINUTE)
        .allowed_lateness("1 s")
        .apply(join, Types.TUPLE([Types.STRING(), Types.STRING()]))
    )
    spec = spec_of(stream).inner
    assert (spec.assigner, spec.contents, spec.allowed_lateness_ms) == (
        MINUTE,
        PairContents(),
        1_000,
    )
    assert isinstance(spec.function, JoinPairs)
    first, second = node_of(stream).inputs
    assert (first.input_index, second.input_index) == (0, 1)
    assert first.partitioning.selector("abc") == 3
    assert second.partitioning.selector("abc") == 7
    assert node_of(stream).name == "Join-TumblingEventTimeWindows"


def test_flat_join_and_co_group(words: DataStream) -> None:
    joined = words.join(words).where(len).equal_to(len).window(MINUTE).apply(Pairs())
    assert isinstance(spec_of(joined).function, FlatJoinPairs)
    grouped = words.co_group(words).where(len).equal_to(len).window(MINUTE).apply(join)
    assert isinstance(spec_of(grouped).function, CoGroupPairs)
    assert node_of(grouped).name == "CoGroup-TumblingEventTimeWindows"
    with pytest.raises(ProgramError, match="takes a WindowAssigner"):
        words.join(words).where(len).equal_to(len).window(60)  # type: ignore[arg-type]


def test_interval_join(keyed: KeyedStream, words: DataStream) -> None:
    left, right = OutputTag("left"), OutputTag("right")

    def pair(first: Any, second: Any, ctx: Any) -> Any:
        return []

    stream = (
        keyed.interval_join(words.key_by(len))
        .in_event_time()
        .between(Time.seconds(-5), datetime.timedelta(seconds=3))
        .upper_bound_exclusive()
        .side_output_left_late_data(left)
        .side_output_right_late_data(right)
        .process(pair)
    )
    spec = spec_of(stream)
    assert isinstance(spec, IntervalJoinSpec)
    assert (spec.lower_ms, spec.upper_ms, spec.lower_inclusive, spec.upper_inclusive) == (
        -5_000,
        3_000,
        True,
        False,
    )
    assert (spec.left_late_tag, spec.right_late_tag) == (left, right)
    assert spec.function.process_element is pair
    assert [each.input_index for each in node_of(stream).inputs] == [0, 1]
    both = keyed.interval_join(keyed).between(0, 1).lower_bound_exclusive().process(pair)
    assert (spec_of(both).lower_inclusive, spec_of(both).upper_inclusive) == (False, True)


def test_wrong_interval_joins(keyed: KeyedStream, words: DataStream) -> None:
    with pytest.raises(ProgramError, match="the other stream has no key"):
        keyed.interval_join(words)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="lower bound 2 ms above the upper bound 1 ms"):
        keyed.interval_join(keyed).between(2, 1)
    with pytest.raises(ProgramError, match="event time only"):
        keyed.interval_join(keyed).in_processing_time()
    with pytest.raises(ProgramError, match="ProcessJoinFunction"):
        keyed.interval_join(keyed).between(0, 1).process(5)  # type: ignore[arg-type]
