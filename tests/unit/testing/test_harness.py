"""The harness that users test their functions with."""

from __future__ import annotations

import gc
import pathlib

import pytest

from penstock.core.errors import ProgramError
from penstock.core.times import MAX_WATERMARK
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    FilterFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from penstock.operators.results import OutputTag
from penstock.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness, spec_of


class CountPerKey(KeyedProcessFunction):
    """Emits the count of a key when its timer fires, ten after the first record."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = self.count.value() or 0
        if not count:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        self.count.update(count + 1)
        ctx.output(OutputTag("seen"), value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()
        self.count.clear()


def harness(**options):
    return OneOperatorHarness(CountPerKey(), key=lambda record: record[0], **options)


def test_events_are_kept_in_order():
    operator = harness()
    operator.process(("a", 1), ("a", 2), timestamps=[0, 5])
    operator.watermark(20)
    assert operator.take() == [
        ("side", "seen", ("a", 1), 0),
        ("side", "seen", ("a", 2), 5),
        ("record", ("a", 2), 10),
        ("watermark", 20),
    ]
    assert operator.take() == []


def test_views_of_the_output():
    operator = harness()
    operator.process(("a", 1), timestamps=[0])
    operator.watermark(MAX_WATERMARK)
    assert operator.values == [("a", 1)]
    assert operator.records == [(("a", 1), 10)]
    assert operator.side(OutputTag("seen")) == operator.side("seen") == [(("a", 1), 0)]
    assert operator.watermarks == [MAX_WATERMARK]


def test_a_restored_operator_repeats_what_it_did(tmp_path):
    operator = harness(directory=str(tmp_path))
    operator.process(("a", 1), timestamps=[0])
    operator.watermark(5)
    state = operator.snapshot()
    operator.take()

    def rest(other):
        other.process(("a", 2), ("b", 1), timestamps=[6, 7])
        other.watermark(100)
        return other.take()

    first = rest(operator)
    operator.restore(state)
    assert rest(operator) == first
    # Another worker starts from the same files.
    other = harness(directory=str(tmp_path))
    other.restore(state)
    assert rest(other) == first
    assert ("record", ("a", 2), 10) in first


def test_a_snapshot_of_nothing_can_be_restored():
    operator = harness()
    state = operator.snapshot()
    operator.process(("a", 1), timestamps=[0])
    operator.restore(state)
    operator.take()
    operator.watermark(100)
    assert operator.values == []


def test_the_temporary_directory_goes_with_the_harness():
    operator = harness()
    directory = pathlib.Path(operator.directory)
    assert directory.is_dir()
    del operator
    gc.collect()
    assert not directory.exists()


class Each(MapFunction):
    def map(self, value):
        return value


class Keep(FilterFunction):
    def filter(self, value):
        return True


class Total(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(MapStateDescriptor("rules")).get("x")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(MapStateDescriptor("rules")).put("x", value)


def test_functions_find_their_operator():
    assert spec_of(Each(), keyed=True).is_keyed
    assert not spec_of(Keep(), keyed=False).is_keyed
    total = OneOperatorHarness(Total(), key=lambda value: "k")
    total.process(1, 2, 3)
    assert total.values == [1, 3, 6]
    rules = OneOperatorHarness(Rules(), broadcast=(MapStateDescriptor("rules"),))
    rules.process2(5)
    rules.process("a")
    assert rules.values == [5]


class Selector(KeySelector):
    def get_key(self, value):
        return value


def test_other_functions_need_a_spec():
    with pytest.raises(ProgramError, match="a Selector does not say which operator"):
        OneOperatorHarness(Selector())
