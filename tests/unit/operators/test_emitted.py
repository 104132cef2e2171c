"""What a function emitted, or put into state, is what it was at that moment.

Every function here emits one object again and again, changed in between.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.core.copies import unchanged
from penstock.core.row import Row
from penstock.core.types import Types
from penstock.operators.async_function import AsyncFunction
from penstock.operators.async_wait import AsyncWaitSpec
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.function_logic import FlatMapSpec, MapSpec
from penstock.operators.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ReduceFunction,
)
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.results import OutputTag
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.contents import AggregateContents, PairContents, ReduceContents
from penstock.operators.windows.functions import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
    ProcessWindowFunction,
)
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import ContinuousEventTimeTrigger, CountTrigger
from penstock.state.descriptors import (
    MapStateDescriptor,
)
from penstock.testing.harness import OneOperatorHarness

SIDE = OutputTag("side")
ANY = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)


class Reusing:
    """Has one object of each kind that records are made of, and fills it anew each time."""

    def __init__(self, kind="dict"):
        self.out = {
            "dict": {},
            "list": [None],
            "row": Row(n=None),
            "object": SimpleNamespace(n=None),
            "nested": ("key", {"deep": [None]}),
        }[kind]
        self.kind = kind

    def set(self, number):
        out = self.out
        if self.kind in {"dict", "row"}:
            out["n"] = number
        elif self.kind == "list":
            out[0] = number
        elif self.kind == "nested":
            out[1]["deep"][0] = number
        else:
            out.n = number
        return out


def number_of(record):
    """Returns the number in a record of any of these kinds."""
    if isinstance(record, dict):
        return record["n"]
    if isinstance(record, list):
        return record[0]
    return record[1]["deep"][0] if isinstance(record, tuple) else record.n


class Map(Reusing, MapFunction):
    def map(self, value):
        return self.set(value)


class FlatMap(Reusing, FlatMapFunction):
    def flat_map(self, value):
        yield self.set(value)
        yield self.set(value + 100)


class ListedFlatMap(Reusing, FlatMapFunction):
    def flat_map(self, value):
        return [self.set(value)]


class Process(Reusing, ProcessFunction):
    def process_element(self, value, ctx):
        yield self.set(value)


class Tagged(Reusing, ProcessFunction):
    def process_element(self, value, ctx):
        ctx.output(SIDE, self.set(value))
        yield SIDE, self.set(value + 100)


class KeyedProcess(Reusing, KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield self.set(value)
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        yield self.set(timestamp + 1000)
        ctx.output(SIDE, self.set(timestamp))


class CoMap(Reusing, CoMapFunction):
    def map1(self, value):
        return self.set(value)

    def map2(self, value):
        return self.set(value)


class CoFlatMap(Reusing, CoFlatMapFunction):
    def flat_map1(self, value):
        yield self.set(value)

    def flat_map2(self, value):
        yield self.set(value)


class CoProcess(Reusing, CoProcessFunction):
    def process_element1(self, value, ctx):
        yield self.set(value)

    process_element2 = process_element1


class KeyedCoProcess(Reusing, KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield self.set(value)

    process_element2 = process_element1


class Broadcast(Reusing, BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield self.set(value)

    process_broadcast_element = process_element


class KeyedBroadcast(Reusing, KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield self.set(value)

    process_broadcast_element = process_element


class Async(Reusing, AsyncFunction):
    async def async_invoke(self, value):
        return [self.set(value)]


class Aggregate(Reusing, AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return self.set(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_b


class PerWindow(Reusing, ProcessWindowFunction):
    def process(self, key, context, elements):
        for value in elements:
            yield self.set(value)


class Pair(Reusing, ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield self.set(right)


class Joined(Reusing):
    def __call__(self, first, second):
        return self.set(second)

    def flat(self, first, second):
        yield self.set(second)

    def group(self, first, second):
        for value in second:
            yield self.set(value)


def one_key(value):
    return "k"


def tumbling(**options):
    return WindowSpec(TumblingEventTimeWindows.of(10), **options)


KEYED = {"key": one_key}
BROADCAST = {"broadcast": (RULES,)}
FIRST_INPUT = {
    "map": (lambda kind: MapSpec(Map(kind)), {}),
    "keyed map": (lambda kind: MapSpec(Map(kind), keyed=True), KEYED),
    "list": (lambda kind: FlatMapSpec(ListedFlatMap(kind)), {}),
    "process": (Process, {}),
    "keyed process": (KeyedProcess, KEYED),
    "co map": (CoMap, {}),
    "keyed co map": (CoMap, KEYED),
    "co flat map": (CoFlatMap, {}),
    "keyed co flat map": (CoFlatMap, KEYED),
    "co process": (CoProcess, {}),
    "keyed co process": (KeyedCoProcess, KEYED),
    "broadcast": (Broadcast, BROADCAST),
    "keyed broadcast": (KeyedBroadcast, KEYED | BROADCAST),
    "async": (lambda kind: AsyncWaitSpec(Async(kind), 0), {}),
}
KINDS = ("dict", "list", "row", "object", "nested")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FIRST_INPUT)
@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]], ids=["plain", "timed"])
def test_an_object_that_is_filled_again(name, kind, timestamps):
    make, options = FIRST_INPUT[name]
    harness = OneOperatorHarness(make(kind), **options)
    harness.process(1, 2, 3, timestamps=timestamps)
    harness.process(4)
    harness.logic.end_input()
    harness.close()
    assert list(map(number_of, harness.values)) == [1, 2, 3, 4]


@pytest.mark.parametrize("name", [n for n in FIRST_INPUT if "co " in n or "broadcast" in n])
def test_the_second_input(name):
    make, options = FIRST_INPUT[name]
    harness = OneOperatorHarness(make("dict"), **options)
    harness.process2(1, 2, 3)
    assert list(map(number_of, harness.values)) == [1, 2, 3]


@pytest.mark.parametrize("keyed", [False, True])
def test_several_results_of_one_record(keyed):
    harness = OneOperatorHarness(FlatMapSpec(FlatMap(), keyed), **(KEYED if keyed else {}))
    harness.process(1, 2, timestamps=[1, 2])
    assert list(map(number_of, harness.values)) == [1, 101, 2, 102]


@pytest.mark.parametrize("kind", KINDS)
def test_side_outputs(kind):
    harness = OneOperatorHarness(Tagged(kind))
    harness.process(1, 2, timestamps=[1, 2])
    assert [number_of(value) for value, _ in harness.side(SIDE)] == [1, 2, 101, 102]


def test_timers():
    harness = OneOperatorHarness(KeyedProcess(), key=one_key)
    harness.process(1, 2)
    harness.take()
    harness.watermark(5)
    assert list(map(number_of, harness.values)) == [1001, 1002]
    assert [number_of(value) for value, _ in harness.side(SIDE)] == [1, 2]


WINDOWS = {
    "process": lambda: tumbling(function=PerWindow()),
    "aggregate": lambda: tumbling(contents=AggregateContents(Aggregate())),
    "aggregate and process": lambda: tumbling(
        contents=AggregateContents(Aggregate()), function=PassOn()
    ),
    "every record": lambda: tumbling(function=PerWindow(), trigger=CountTrigger.of(1)),
}


class PassOn(ProcessWindowFunction):
    def process(self, key, context, elements):
        return elements


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    harness = OneOperatorHarness(WINDOWS[name](), key=lambda value: value)
    harness.process(1, 2, 3, timestamps=[1, 2, 3])
    harness.watermark(100)
    assert list(map(number_of, harness.values)) == [1, 2, 3]


@pytest.mark.parametrize(
    "pair",
    [
        lambda: JoinPairs(Joined()),
        lambda: FlatJoinPairs(Joined().flat),
        lambda: CoGroupPairs(Joined().group),
    ],
    ids=["join", "flat join", "co-group"],
)
def test_window_joins(pair):
    harness = OneOperatorHarness(tumbling(contents=PairContents(), function=pair()), key=one_key)
    harness.process(0, timestamps=[1])
    harness.process2(1, 2, 3, timestamps=[1, 2, 3])
    harness.watermark(100)
    assert list(map(number_of, harness.values)) == [1, 2, 3]


def interval_join(function):
    spec = IntervalJoinSpec(-10, 10, True, True, function)
    return OneOperatorHarness(spec, key=one_key)


def test_interval_joins():
    harness = interval_join(Pair())
    harness.process(0, timestamps=[1])
    harness.process2(1, 2, 3, timestamps=[1, 2, 3])
    assert list(map(number_of, harness.values)) == [1, 2, 3]


class Widen(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        left["n"] += right
        yield left


def test_a_joined_record_is_what_came_for_each_of_its_partners():
    harness = interval_join(Widen())
    harness.process({"n": 0}, timestamps=[1])
    harness.process2(1, 2, 3, timestamps=[1, 2, 3])
    assert list(map(number_of, harness.values)) == [1, 2, 3]


# -- windows whose records are seen again -----------------------------------------------------


class Grow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            element["n"] += 1
            yield element


SHARED = {
    "sliding": (SlidingEventTimeWindows.of(20, 10), None, 6),
    "early": (SlidingEventTimeWindows.of(20, 10), ContinuousEventTimeTrigger.of(10), 9),
    "count": (CountSlidingWindowAssigner(2, 1), None, 4),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_window_function_may_change_records_that_other_firings_see(name):
    assigner, trigger, results = SHARED[name]
    harness = OneOperatorHarness(WindowSpec(assigner, trigger, function=Grow()), key=one_key)
    harness.process({"n": 0}, {"n": 0}, {"n": 0}, timestamps=[5, 6, 7])
    harness.watermark(100)
    assert list(map(number_of, harness.values)) == [1] * results


class AppendInPlace(ReduceFunction):
    def reduce(self, value1, value2):
        value1[1].append(value2[1][0])
        return value1


def test_a_reduction_that_fires_early_goes_on_from_what_it_was():
    spec = tumbling(contents=ReduceContents(AppendInPlace()), trigger=CountTrigger.of(1))
    harness = OneOperatorHarness(spec, key=lambda pair: pair[0])
    harness.process(("a", [1]), ("a", [2]), timestamps=[1, 2])
    assert harness.values == [("a", [1]), ("a", [1, 2])]


# -- what is not copied -----------------------------------------------------------------------


class Same(MapFunction):
    def __init__(self, value):
        self.value = value

    def map(self, value):
        return self.value


@pytest.mark.parametrize("value", [7, "text", (1, "a"), None])
def test_what_cannot_change_is_the_same_object(value):
    harness = OneOperatorHarness(Same(value))
    value = harness.logic.function.value
    harness.process(1)
    assert harness.values[0] is value


def test_a_declared_type_of_fixed_values_is_believed():
    wrong = ConvertOutputSpec(MapSpec(Same(([],))), Types.TUPLE([ANY]))
    right = ConvertOutputSpec(MapSpec(Same((1,))), Types.TUPLE([Types.INT()]))
    for spec, is_believed in ((wrong, False), (right, True)):
        harness = OneOperatorHarness(spec)
        assert (tuple in harness.context.immutable) is is_believed


def test_object_reuse_hands_on_the_same_object():
    harness = OneOperatorHarness(Map())
    harness.context.snapshot = unchanged
    harness.process(1, 2, 3)
    assert list(map(number_of, harness.values)) == [3, 3, 3]
