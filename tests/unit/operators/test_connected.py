"""Functions over two streams."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProgramError
from penstock.operators.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.process import CoFlatMapSpec, CoMapSpec, CoProcessSpec, KeyedCoProcessSpec
from penstock.operators.results import OutputTag
from penstock.state.descriptors import ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness


class Signs(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return None if value == 0 else -value


def test_co_map_drops_none():
    harness = OneOperatorHarness(CoMapSpec(Signs()))
    harness.process(1, 2, timestamps=[10, 20])
    harness.process2(3, 0, 4, timestamps=[30, 40, 50])
    harness.process2(0, 5)
    assert harness.records == [(1, 10), (2, 20), (-3, 30), (-4, 50), (-5, None)]


class Words(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from value.split()

    def flat_map2(self, value):
        return None if value < 0 else range(value)


def test_co_flat_map():
    harness = OneOperatorHarness(CoFlatMapSpec(Words()))
    harness.process("a b", "", timestamps=[1, 2])
    harness.process2(2, -1, 1, timestamps=[3, 4, 5])
    assert harness.records == [("a", 1), ("b", 1), (0, 3), (1, 3), (0, 5)]


class Switch(CoFlatMapFunction):
    """Input 2 opens the gate of a key for input 1."""

    def open(self, runtime_context):
        self.gate = runtime_context.get_state(ValueStateDescriptor("open"))

    def flat_map1(self, value):
        if self.gate.value():
            yield value

    def flat_map2(self, value):
        self.gate.update(value[1])


class Last(CoMapFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def map1(self, value):
        return value, self.last.value()

    def map2(self, value):
        self.last.update(value[1])


def test_keyed_functions_share_state_by_key():
    harness = OneOperatorHarness(
        CoFlatMapSpec(Switch(), keyed=True), key=lambda v: v, key2=lambda v: v[0]
    )
    harness.process2(("a", True), ("b", False))
    harness.process("a", "b", "a", timestamps=[1, 2, 3])
    assert harness.records == [("a", 1), ("a", 3)]

    harness = OneOperatorHarness(
        CoMapSpec(Last(), keyed=True), key=lambda v: v, key2=lambda v: v[0]
    )
    harness.process2(("a", 1), ("b", 2))
    harness.process("a", "b", "c")
    assert harness.values == [("a", 1), ("b", 2), ("c", None)]


class Both(CoProcessFunction):
    tag = OutputTag("seconds")

    def process_element1(self, value, ctx):
        yield 1, value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value, ctx):
        yield self.tag, value


def test_co_process():
    harness = OneOperatorHarness(CoProcessSpec(Both()))
    harness.watermark(3)
    harness.process("a", timestamps=[5])
    harness.process2("b", timestamps=[6])
    assert harness.records == [((1, "a", 5, 3), 5)]
    assert harness.side("seconds") == [("b", 6)]


class Match(KeyedCoProcessFunction):
    """Pairs an order with its payment; the first of them waits for ten."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting"))

    def process_element1(self, value, ctx):
        return self._meet("order", ctx)

    def process_element2(self, value, ctx):
        return self._meet("payment", ctx)

    def _meet(self, what, ctx):
        waiting = self.waiting.value()
        if waiting is not None and waiting[0] != what:
            ctx.timer_service().delete_event_time_timer(waiting[1] + 10)
            self.waiting.clear()
            return [(ctx.get_current_key(), "matched")]
        self.waiting.update((what, ctx.timestamp()))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        return None

    def on_timer(self, timestamp, ctx):
        waiting = self.waiting.value()
        self.waiting.clear()
        yield ctx.get_current_key(), f"only {waiting[0]}", ctx.time_domain().name


def test_keyed_co_process_shares_state_and_timers():
    harness = OneOperatorHarness(KeyedCoProcessSpec(Match()), key=lambda v: v)
    harness.process("x", "y", timestamps=[0, 1])
    harness.process2("y", "z", timestamps=[5, 6])
    harness.watermark(20)
    assert harness.records == [
        (("y", "matched"), 5),
        (("x", "only order", "EVENT_TIME"), 10),
        (("z", "only payment", "EVENT_TIME"), 16),
    ]


@pytest.mark.parametrize("spec", [CoMapSpec, CoFlatMapSpec, CoProcessSpec, KeyedCoProcessSpec])
def test_only_their_functions_are_taken(spec):
    with pytest.raises(ProgramError, match=r"Function is needed. Subclass it"):
        spec(lambda value: value)
