"""Broadcast state: written on one side, read on the other."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.operators.process import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from penstock.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness

RULES = MapStateDescriptor("rules")
OTHER = MapStateDescriptor("other")


class Limits(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        limit = ctx.get_broadcast_state(RULES).get("limit")
        if limit is not None and value > limit:
            yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("limit", value)
        ctx.output("never", 0) if value < 0 else None
        yield "limit is", value


def test_the_stream_sees_what_was_broadcast():
    harness = OneOperatorHarness(BroadcastProcessSpec(Limits(), (RULES,)), now_ms=9)
    harness.process(100)
    harness.process2(10, timestamps=[1])
    harness.watermark(2)
    harness.process(5, 15, timestamps=[3, 4])
    assert harness.records == [(("limit is", 10), 1), ((15, 4, 2, 9), 4)]


def test_broadcast_state_is_in_the_snapshot():
    harness = OneOperatorHarness(BroadcastProcessSpec(Limits(), (RULES,)))
    harness.process2(10)
    state = harness.snapshot()
    harness.process2(1000)
    harness.restore(state)
    harness.take()
    harness.process(15)
    assert [value[0] for value in harness.values] == [15]


class Writes(Limits):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("limit", 0)


def test_the_stream_cannot_write():
    harness = OneOperatorHarness(BroadcastProcessSpec(Writes(), (RULES,)))
    with pytest.raises(UserFunctionError, match="read-only"):
        harness.process(1)


class Unknown(Limits):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(OTHER)


def test_states_must_be_named_in_broadcast():
    harness = OneOperatorHarness(BroadcastProcessSpec(Unknown(), (RULES,)))
    with pytest.raises(UserFunctionError, match=r"no broadcast state 'other'; it has 'rules'"):
        harness.process(1)
    with pytest.raises(ProgramError, match="described by a MapStateDescriptor, but got Value"):
        BroadcastProcessSpec(Limits(), (ValueStateDescriptor("v"),))


class Alarm(KeyedBroadcastProcessFunction):
    """Counts per key; sounds when the broadcast limit is reached, and again by a timer."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == ctx.get_broadcast_state(RULES).get("limit"):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
            yield ctx.get_current_key(), count

    def process_broadcast_element(self, value, ctx):
        if value == "peek":
            self.count.value()
        if value == "wait":
            ctx.timer_service().register_event_time_timer(5)
        ctx.get_broadcast_state(RULES)["limit"] = value

    def on_timer(self, timestamp, ctx):
        limit = ctx.get_broadcast_state(RULES).get("limit")
        yield ctx.get_current_key(), "again", limit, ctx.time_domain().name, ctx.timestamp()


def alarm():
    return OneOperatorHarness(KeyedBroadcastProcessSpec(Alarm(), (RULES,)), key=lambda v: v)


def test_keyed_broadcast():
    harness = alarm()
    harness.process2(2)
    harness.process("a", "b", "a", timestamps=[1, 2, 3])
    harness.process2(7)
    harness.watermark(13)
    assert harness.records == [
        (("a", 2), 3),
        (("a", "again", 7, "EVENT_TIME", 13), 13),
    ]


def test_keyed_state_is_out_of_reach_on_the_broadcast_side():
    harness = alarm()
    harness.process("a", timestamps=[1])
    with pytest.raises(UserFunctionError, match="without a current key"):
        harness.process2("peek")


def test_timers_are_out_of_reach_on_the_broadcast_side():
    with pytest.raises(UserFunctionError, match="but a broadcast record has none"):
        alarm().process2("wait")
