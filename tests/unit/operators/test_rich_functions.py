"""State, timers and metrics in every method of every kind of function that may have them.

Each function counts its calls in keyed state and in a metric: `bump` returns the calls so far."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.types import Types
from penstock.operators.adapters import as_key_selector, as_partitioner
from penstock.operators.async_function import AsyncFunction
from penstock.operators.async_wait import AsyncWaitSpec
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ReduceFunction,
)
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.runtime_context import CheckpointedFunction
from penstock.operators.windows.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.operators.windows.contents import AggregateContents, PairContents, ReduceContents
from penstock.operators.windows.evictors import CountEvictor
from penstock.operators.windows.functions import (
    CoGroupPairs,
    JoinPairs,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import EventTimeTrigger, Trigger
from penstock.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness

CALLS = ValueStateDescriptor("calls", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Rich:
    """Counts calls per key in state and all of them in a metric."""

    def open(self, runtime_context):
        self.calls = runtime_context.get_state(CALLS)
        self.metric = runtime_context.get_metrics_group().counter("calls")

    def bump(self):
        self.metric.inc()
        count = (self.calls.value() or 0) + 1
        self.calls.update(count)
        return count


class Map(Rich, MapFunction):
    def map(self, value):
        return value[0], self.bump()


class FlatMap(Rich, FlatMapFunction):
    def flat_map(self, value):
        yield value[0], self.bump()


class Filter(Rich, FilterFunction):
    def filter(self, value):
        return self.bump() == 2


class Reduce(Rich, ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], self.bump()


class Process(Rich, KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield value[0], self.bump()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.bump()


class CoMap(Rich, CoMapFunction):
    def map1(self, value):
        return value[0], self.bump()

    map2 = map1


class CoFlatMap(Rich, CoFlatMapFunction):
    def flat_map1(self, value):
        yield value[0], self.bump()

    flat_map2 = flat_map1


class CoProcess(Rich, KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield value[0], self.bump()

    process_element2 = process_element1

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.bump()


class Broadcast(Rich, KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield value[0], self.bump()

    def process_broadcast_element(self, value, ctx):
        self.metric.inc()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.bump()


class Aggregate(Rich, AggregateFunction):
    """All of its methods use the state; the result is how often."""

    def create_accumulator(self):
        self.bump()
        return None

    def add(self, value, accumulator):
        self.bump()
        return value[0]

    def get_result(self, accumulator):
        return accumulator, self.bump()

    def merge(self, acc_a, acc_b):
        self.bump()
        return acc_a


class PerWindow(Rich, ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, self.bump()

    def clear(self, context):
        self.bump()


class ApplyWindow(Rich, WindowFunction):
    def apply(self, key, window, inputs):
        yield key, self.bump()


class Pair(Rich, ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[0], self.bump()


class Join(Rich, JoinFunction):
    def join(self, first, second):
        return first[0], self.bump()


class CoGroup(Rich, CoGroupFunction):
    def co_group(self, first, second):
        yield next(iter(first))[0], self.bump()


def key_of(value):
    return value[0]


def tumbling(**options):
    return WindowSpec(TumblingEventTimeWindows.of(10), **options)


def sessions(**options):
    return WindowSpec(EventTimeSessionWindows.with_gap(2), **options)


FOUR = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
"""Their second field is also their time."""
SO_FAR = [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
TIMERS = [("a", 4), ("b", 2)]
ONE_INPUT = {
    # Name: what runs, its results when FOUR came and time is over, how often it was called.
    "map": (lambda: MapSpec(Map(), keyed=True), SO_FAR, 4),
    "flat map": (lambda: FlatMapSpec(FlatMap(), keyed=True), SO_FAR, 4),
    "filter": (lambda: FilterSpec(Filter(), keyed=True), [("a", 3)], 4),
    "reduce": (Reduce, [("a", 1), ("b", 2), ("a", 1), ("a", 2)], 2),
    "process": (Process, SO_FAR + TIMERS, 6),
    "broadcast": (Broadcast, SO_FAR + TIMERS, 6),
    "process window": (lambda: tumbling(function=PerWindow()), [("a", 1), ("b", 1)], 4),
    "window function": (lambda: tumbling(function=ApplyWindow()), [("a", 1), ("b", 1)], 2),
    "window reduce": (
        lambda: tumbling(contents=ReduceContents(Reduce())),
        [("a", 2), ("b", 2)],
        2,
    ),
    # Once made, three added, one result.
    "window aggregate": (
        lambda: tumbling(contents=AggregateContents(Aggregate())),
        [("a", 5), ("b", 3)],
        8,
    ),
    "window aggregate with a trigger": (
        lambda: tumbling(contents=AggregateContents(Aggregate()), trigger=Every()),
        [("a", 5), ("b", 3)],
        8,
    ),
    "window aggregate with an evictor": (
        lambda: tumbling(contents=AggregateContents(Aggregate()), evictor=CountEvictor.of(5)),
        [("a", 5), ("b", 3)],
        8,
    ),
}


class Every(Trigger):
    """Keeps what it counts in its own state, by window."""

    descriptor = ValueStateDescriptor("calls", Types.LONG())

    def bump(self, ctx):
        state = ctx.get_partitioned_state(self.descriptor)
        state.update((state.value() or 0) + 1)
        ctx.get_metric_group().counter("trigger").inc()
        return state.value()

    def on_element(self, element, timestamp, window, ctx):
        self.bump(ctx)
        ctx.register_event_time_timer(window.max_timestamp())
        return EventTimeTrigger().on_element(element, timestamp, window, ctx)

    def on_processing_time(self, time, window, ctx):
        raise AssertionError("there is none")

    def on_event_time(self, time, window, ctx):
        self.bump(ctx)
        return EventTimeTrigger().on_event_time(time, window, ctx)

    def on_merge(self, window, ctx):
        raise AssertionError("nothing merges")

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.descriptor).clear()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", ONE_INPUT)
def test_one_input(name, backend):
    make, expected, calls = ONE_INPUT[name]
    harness = OneOperatorHarness(make(), key=key_of, backend=backend, broadcast=(RULES,))
    harness.process(*FOUR, timestamps=[1, 2, 3, 4])
    harness.watermark(100)
    assert sorted(harness.values) == sorted(expected)
    assert harness.context.metrics.report()["calls"] == calls
    harness.close()


def report(harness, name="calls"):
    return harness.context.metrics.report()[name]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_sessions_that_merge(backend):
    harness = OneOperatorHarness(
        sessions(contents=AggregateContents(Aggregate())), key=key_of, backend=backend
    )
    harness.process(("a", 1), ("a", 5), timestamps=[1, 5])
    # Two accumulators were made and added to; the third makes one of them, and of all three one.
    harness.process(("a", 3), timestamps=[3])
    harness.watermark(100)
    [(key, calls)] = harness.values
    assert key == "a"
    assert calls == report(harness) >= 2 * 2 + 1 + 1 + 1


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("make", [CoMap, CoFlatMap, CoProcess])
def test_two_inputs_share_state(make, backend):
    harness = OneOperatorHarness(make(), key=key_of, backend=backend)
    harness.process(("a", 1), ("b", 2))
    harness.process2(("a", 3), ("a", 4))
    assert harness.values == SO_FAR
    assert report(harness) == 4
    harness.watermark(100)
    assert sorted(harness.values[4:]) == (TIMERS if make is CoProcess else [])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: IntervalJoinSpec(-10, 10, True, True, Pair()), [("a", 1), ("a", 2)]),
        (lambda: tumbling(contents=PairContents(), function=JoinPairs(Join())), None),
        (lambda: tumbling(contents=PairContents(), function=CoGroupPairs(CoGroup())), [("a", 1)]),
    ],
    ids=["interval join", "join", "co-group"],
)
def test_joins(make, expected):
    harness = OneOperatorHarness(make(), key=key_of)
    harness.process(("a", 1), timestamps=[1])
    harness.process2(("a", 2), ("a", 3), timestamps=[2, 3])
    harness.watermark(100)
    assert harness.values == (expected or [("a", 1), ("a", 2)])


def test_a_rich_reduce_keeps_its_state_over_snapshots():
    harness = OneOperatorHarness(Reduce(), key=key_of)
    harness.process(("a", 1), ("a", 2))
    saved = harness.snapshot()
    harness.process(("a", 3))
    harness.restore(saved)
    harness.process(("a", 3))
    assert harness.values == [("a", 1), ("a", 1), ("a", 2), ("a", 2)]


# -- where there is no key --------------------------------------------------------------------


class AtOpen(Rich, MapFunction):
    def open(self, runtime_context):
        super().open(runtime_context)
        self.calls.value()

    def map(self, value):
        return value


class AtClose(Rich, MapFunction):
    asked: list = []

    def map(self, value):
        return value

    def close(self):
        self.asked.append(self.calls.value())


class AtSnapshot(Rich, KeyedProcessFunction, CheckpointedFunction):
    def process_element(self, value, ctx):
        yield value

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        self.calls.value()


class AtBroadcast(Broadcast):
    def process_broadcast_element(self, value, ctx):
        self.calls.value()


def test_open_has_no_key():
    with pytest.raises(UserFunctionError, match=r"without a current key.*not in open\(\)"):
        OneOperatorHarness(MapSpec(AtOpen(), keyed=True), key=key_of)


def test_close_has_no_key_not_even_the_last_one(caplog):
    harness = OneOperatorHarness(MapSpec(AtClose(), keyed=True), key=key_of)
    harness.process(("a", 1))
    harness.close()
    assert AtClose.asked == []
    assert "without a current key" in caplog.text


def test_snapshots_have_no_key():
    harness = OneOperatorHarness(AtSnapshot(), key=key_of)
    harness.process(("a", 1))
    with pytest.raises(UserFunctionError, match="without a current key"):
        harness.snapshot()


def test_broadcast_records_have_no_key():
    harness = OneOperatorHarness(AtBroadcast(), key=key_of, broadcast=(RULES,))
    harness.process(("a", 1))
    with pytest.raises(UserFunctionError, match="broadcast elements"):
        harness.process2(("rule", 1))


class Unkeyed(Rich, ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class UnkeyedCo(Rich, CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    process_element2 = process_element1


class UnkeyedBroadcast(Rich, BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    process_broadcast_element = process_element


class Async(Rich, AsyncFunction):
    async def async_invoke(self, value):
        return [value]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MapSpec(Map()), "its input is not keyed. Call key_by first"),
        (lambda: FlatMapSpec(FlatMap()), "its input is not keyed"),
        (lambda: FilterSpec(Filter()), "its input is not keyed"),
        (Unkeyed, "its input is not keyed"),
        (UnkeyedCo, "its input is not keyed"),
        (UnkeyedBroadcast, "its input is not keyed"),
        (lambda: AsyncWaitSpec(Async(), 0), "an AsyncFunction has no keyed state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keyed_state_without_keys(make, says):
    with pytest.raises((ProgramError, UserFunctionError), match=says):
        OneOperatorHarness(make(), broadcast=(RULES,))


class Key(Rich, KeySelector):
    def get_key(self, value):
        return value[0]


class Choose(Rich, Partitioner):
    def partition(self, key, num_partitions):
        return 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: as_key_selector(Key())(("a", 1)),
        lambda: as_partitioner(Choose())("a", 3),
    ],
    ids=["key selector", "partitioner"],
)
def test_what_runs_on_the_sending_side_has_neither_state_nor_metrics(call):
    with pytest.raises(ProgramError, match="have neither state nor metrics"):
        call()
