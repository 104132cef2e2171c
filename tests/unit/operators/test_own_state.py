"""A function's state never shares a name with a state that its operator keeps for itself."""

from __future__ import annotations

import pytest

from penstock.core.errors import PenstockError
from penstock.core.types import Types
from penstock.operators.functions import ProcessJoinFunction, ReduceFunction
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.reduce import ReduceSpec
from penstock.operators.windows.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.contents import ReduceContents
from penstock.operators.windows.evictors import CountEvictor
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import CountTrigger
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness

MINUTE = TumblingEventTimeWindows(60_000, 0)


class Keeping:
    """A function with one state, which it touches only while it runs."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def open(self, runtime_context):
        kind = type(self.descriptor).__name__.removesuffix("StateDescriptor").lower()
        obtain = "get_state" if kind == "value" else f"get_{kind}_state"
        self.kept = getattr(runtime_context, obtain)(self.descriptor)


class Reduce(Keeping, ReduceFunction):
    def reduce(self, left, right):
        return left[0], left[1] + right[1]


class Join(Keeping, ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


class Windows(Keeping, ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(list(elements))


class EveryOther(CountTrigger):
    """Not the library's own class, so that its state goes the general way."""

    def __init__(self):
        super().__init__(2)


def value(name):
    return ValueStateDescriptor(name, Types.LONG())


def listed(name):
    return ListStateDescriptor(name, Types.LONG())


def mapped(name):
    return MapStateDescriptor(name, Types.LONG(), Types.LONG())


def windows(descriptor, assigner=MINUTE, **parts):
    return WindowSpec(assigner, function=Windows(descriptor), **parts)


TAKEN = {
    "reduce": lambda: ReduceSpec(Reduce(value("reduce"))),
    "left buffer": lambda: IntervalJoinSpec(-5, 5, True, True, Join(mapped("left-buffer"))),
    "right buffer": lambda: IntervalJoinSpec(-5, 5, True, True, Join(mapped("right-buffer"))),
    "records": lambda: windows(listed("window-contents")),
    "folded": lambda: windows(
        value("window-contents"), contents=ReduceContents(lambda left, right: left)
    ),
    "evictor": lambda: windows(listed("window-records"), evictor=CountEvictor.of(2)),
    "sessions": lambda: windows(
        value("merging-window-set"), EventTimeSessionWindows(10), trigger=EveryOther()
    ),
    "sessions in batches": lambda: windows(
        value("merging-window-set"), EventTimeSessionWindows(10)
    ),
    "count windows": lambda: windows(
        value("tumble-count-assigner"), CountTumblingWindowAssigner(2)
    ),
    "count windows, own trigger": lambda: windows(
        value("tumble-count-assigner"), CountTumblingWindowAssigner(2), trigger=EveryOther()
    ),
    "count trigger": lambda: windows(
        value("trigger:count"), GlobalWindows.create(), trigger=CountTrigger(2)
    ),
    "own trigger": lambda: windows(
        value("trigger:count"), GlobalWindows.create(), trigger=EveryOther()
    ),
}


def first_records(spec, backend):
    harness = OneOperatorHarness(spec, key=lambda pair: pair[0], backend=backend)
    harness.process(("a", 1), ("a", 2), ("a", 3), timestamps=[1, 2, 3])
    if isinstance(spec, IntervalJoinSpec):
        harness.process2(("a", 1), ("a", 2), timestamps=[1, 2])
    harness.watermark(100_000)
    return harness.values


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN.keys())
def test_a_name_that_the_operator_uses_is_refused(make, backend):
    with pytest.raises(PenstockError, match=r"is used by .* and by .*another name"):
        first_records(make(), backend)


@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN.keys())
def test_any_other_name_is_free(make):
    spec = make()
    spec.function.descriptor.name = "mine"
    assert first_records(spec, "hashmap")
