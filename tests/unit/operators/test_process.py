"""Process functions: context, side outputs, timers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.functions import KeyedProcessFunction, ProcessFunction
from penstock.operators.process import KeyedProcessSpec, ProcessSpec
from penstock.operators.results import OutputTag
from penstock.operators.runtime_context import TimeDomain
from penstock.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.testing.harness import OneOperatorHarness

ODD = OutputTag("odd")


class Call(ProcessFunction):
    """Runs any function as `process_element`."""

    def __init__(self, function):
        self.function = function

    def process_element(self, value, ctx):
        return self.function(value, ctx)


def process(function, **options):
    return OneOperatorHarness(ProcessSpec(Call(function)), **options)


def test_the_context_tells_timestamp_watermark_and_time():
    def look(value, ctx):
        timers = ctx.timer_service()
        yield ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()

    harness = process(look, now_ms=1000)
    harness.process("a", timestamps=[5])
    harness.process("b")
    harness.watermark(77)
    harness.processing_time(2000)
    harness.process("c", "d", timestamps=[80, MIN_WATERMARK])
    assert harness.values == [
        (5, MIN_WATERMARK, 1000),
        (None, MIN_WATERMARK, 1000),
        (80, 77, 2000),
        (None, 77, 2000),
    ]


@pytest.mark.parametrize(
    "results", [lambda value, ctx: None, lambda value, ctx: [], lambda value, ctx: iter(())]
)
def test_no_output(results):
    harness = process(results)
    harness.process(1, 2, timestamps=[1, 2])
    assert harness.take() == []


def test_outputs_have_the_timestamp_of_their_record():
    harness = process(lambda value, ctx: range(value))
    harness.process(2, 0, 1, timestamps=[10, 20, 30])
    assert harness.records == [(0, 10), (1, 10), (0, 30)]


@pytest.mark.parametrize("how", ["yield", "output"])
def test_side_outputs(how):
    def split(value, ctx):
        if value % 2:
            if how == "yield":
                yield ODD, value
            else:
                ctx.output(ODD, value)
        else:
            yield value

    harness = process(split)
    harness.process(1, 2, 3, timestamps=[10, 20, 30])
    harness.process(5, 6)
    assert harness.records == [(2, 20), (6, None)]
    assert harness.side(ODD) == [(1, 10), (3, 30), (5, None)]


def test_tuples_without_a_tag_stay_where_they_are():
    values = [(), (1,), (ODD,), ("odd", 2), [ODD, 3], (ODD, 4, 5)]
    harness = process(lambda value, ctx: [value])
    harness.process(*values)
    assert harness.values == values


def test_mixed_types_with_tags():
    harness = process(lambda value, ctx: [value])
    harness.process((ODD, 1), "text", (), (2, 3), timestamps=[1, 2, 3, 4])
    assert harness.records == [("text", 2), ((), 3), ((2, 3), 4)]
    assert harness.side(ODD) == [(1, 1)]


def test_a_side_output_needs_a_tag():
    with pytest.raises(UserFunctionError, match=r"named by an OutputTag, but got str 'odd'"):
        process(lambda value, ctx: ctx.output("odd", 1)).process(1)


def test_timers_need_a_key():
    def register(value, ctx):
        ctx.timer_service().register_event_time_timer(5)

    with pytest.raises(UserFunctionError, match="timers belong to keys, but its input is"):
        process(register).process(1)


def test_only_process_functions_are_taken():
    with pytest.raises(ProgramError, match="where a ProcessFunction is needed"):
        ProcessSpec(lambda value, ctx: None)
    with pytest.raises(ProgramError, match="where a KeyedProcessFunction is needed"):
        KeyedProcessSpec(Call(None))


# -- keyed ---------------------------------------------------------------------------------------


class Buffer(KeyedProcessFunction):
    """Holds values back until their timer; the input is (key, time, domain, value)."""

    def open(self, runtime_context):
        self.held = runtime_context.get_list_state(ListStateDescriptor("held"))

    def process_element(self, value, ctx):
        key, time, domain, payload = value
        assert ctx.get_current_key() == key
        timers = ctx.timer_service()
        if domain == "event":
            timers.register_event_time_timer(time)
        elif domain == "clock":
            timers.register_processing_time_timer(time)
        elif domain == "delete":
            timers.delete_event_time_timer(time)
            timers.delete_processing_time_timer(time)
            return
        self.held.add(payload)

    def on_timer(self, timestamp, ctx):
        assert timestamp == ctx.timestamp()
        assert ctx.time_domain() in TimeDomain
        held = list(self.held.get())
        self.held.clear()
        if ctx.time_domain() is TimeDomain.EVENT_TIME:
            assert ctx.timer_service().current_watermark() >= timestamp
        ctx.output(ODD, len(held))
        for payload in held:
            yield ctx.get_current_key(), timestamp, payload


def buffer(**options):
    return OneOperatorHarness(KeyedProcessSpec(Buffer()), key=lambda value: value[0], **options)


def test_event_timers_fire_in_order_before_the_watermark_goes_on():
    harness = buffer()
    harness.process(("a", 30, "event", 1), ("b", 10, "event", 2), ("a", 20, "event", 3))
    harness.watermark(25)
    harness.watermark(40)
    assert [event for event in harness.take() if event[0] != "side"] == [
        ("record", ("b", 10, 2), 10),
        ("record", ("a", 20, 1), 20),
        ("record", ("a", 20, 3), 20),
        ("watermark", 25),
        ("watermark", 40),
    ]


def test_side_outputs_of_timers():
    harness = buffer()
    harness.process(("a", 30, "event", 1), ("b", 10, "clock", 2))
    harness.watermark(30)
    harness.processing_time(10)
    assert harness.side(ODD) == [(1, 30), (1, None)]


def test_processing_timers_fire_once_and_carry_no_time():
    harness = buffer(now_ms=5)
    harness.process(("a", 10, "clock", 1), ("b", 20, "clock", 2), ("c", 500, "clock", 3))
    assert harness.logic.next_processing_timer() == 10
    harness.processing_time(100)
    harness.processing_time(100)
    assert harness.records == [(("a", 10, 1), None), (("b", 20, 2), None)]
    assert harness.logic.next_processing_timer() == 500


def test_a_timer_registered_twice_fires_once_and_a_deleted_one_never():
    harness = buffer()
    harness.process(("a", 10, "event", 1), ("a", 10, "event", 2), ("b", 10, "event", 3))
    harness.process(("b", 10, "delete", 0), ("b", 99, "delete", 0))
    harness.watermark(10)
    assert harness.values == [("a", 10, 1), ("a", 10, 2)]


def test_a_timer_behind_the_watermark_fires_at_the_next_advance():
    harness = buffer()
    harness.watermark(100)
    harness.process(("a", 50, "event", 1))
    assert harness.values == []
    harness.watermark(101)
    assert harness.records == [(("a", 50, 1), 50)]


def test_pending_processing_timers_are_dropped_at_the_end():
    harness = buffer()
    harness.process(("a", 10, "clock", 1), ("b", 10, "event", 2))
    harness.watermark(MAX_WATERMARK)
    assert harness.values == [("b", 10, 2)]
    assert harness.logic.next_processing_timer() is None
    harness.processing_time(100)
    assert harness.values == [("b", 10, 2)]


def test_state_and_timers_survive_and_what_came_after_does_not():
    harness = buffer()
    harness.process(("a", 10, "event", 1))
    harness.watermark(5)
    state = harness.snapshot()
    harness.process(("a", 10, "event", 2), ("b", 8, "event", 3))
    harness.restore(state)
    harness.take()
    harness.process(("c", 3, "event", 4))
    harness.watermark(10)
    assert harness.values == [("c", 3, 4), ("a", 10, 1)]


class Chain(KeyedProcessFunction):
    """A timer that registers the next one, up to a limit."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        if timestamp < 5:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield timestamp


def test_timers_registered_by_timers_fire_while_they_are_due():
    harness = OneOperatorHarness(KeyedProcessSpec(Chain()), key=lambda value: "k")
    harness.process(1)
    harness.watermark(3)
    assert harness.values == [1, 2, 3]
    harness.watermark(100)
    assert harness.records == [(n, n) for n in (1, 2, 3, 4, 5)]


def test_many_timers_are_handed_on_in_parts():
    harness = OneOperatorHarness(KeyedProcessSpec(Chain()), key=lambda value: value)
    harness.process(*range(10, 40_010))
    harness.watermark(50_000)
    assert harness.records == [(n, n) for n in range(10, 40_010)]
    assert len(harness.output.batches) == 3


@pytest.mark.parametrize(
    ("time", "text"), [(math.inf, "float inf"), (True, "bool True"), (None, "")]
)
def test_a_time_is_an_int(time, text):
    harness = buffer()
    with pytest.raises(UserFunctionError, match=f"a timer's time is an int.*{text}"):
        harness.process(("a", time, "event", 1))


class Floats(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        for time in (value + 0.5, value + 1.25):
            timers.register_event_time_timer(time)
            timers.register_processing_time_timer(time)
        timers.delete_event_time_timer(value + 0.75)
        timers.delete_processing_time_timer(value + 0.0)

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, repr(timestamp)


def test_floats_lose_their_fraction_as_in_pyflink():
    harness = OneOperatorHarness(KeyedProcessSpec(Floats()), key=lambda value: "k")
    harness.process(10)
    harness.watermark(11)
    harness.processing_time(11)
    assert sorted(harness.values) == [("EVENT_TIME", "11"), ("PROCESSING_TIME", "11")]


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield ctx.get_current_key(), total, ctx.timestamp()


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), max_size=6), max_size=6
    ),
    st.booleans(),
)
def test_running_sums(batches, with_timestamps):
    harness = OneOperatorHarness(KeyedProcessSpec(Sum()), key=lambda value: value[0])
    totals: dict[str, int] = {}
    expected = []
    for batch in batches:
        stamps = [abs(value) for _, value in batch] if with_timestamps else None
        harness.process(*batch, timestamps=stamps)
        for key, value in batch:
            totals[key] = totals.get(key, 0) + value
            stamp = abs(value) if with_timestamps else None
            expected.append(((key, totals[key], stamp), stamp))
    assert harness.records == expected


def test_two_subtasks_in_one_process_do_not_share_their_function():
    spec = KeyedProcessSpec(Sum())
    one = OneOperatorHarness(spec, key=lambda value: value[0])
    two = OneOperatorHarness(spec, key=lambda value: value[0])
    one.process(("a", 1))
    two.process(("a", 10))
    one.process(("a", 1))
    assert one.values == [("a", 1, None), ("a", 2, None)]
    assert two.values == [("a", 10, None)]
