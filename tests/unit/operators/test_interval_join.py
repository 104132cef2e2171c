"""Interval joins against all pairs."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from penstock.core.errors import ProgramError
from penstock.operators.functions import ProcessJoinFunction
from penstock.operators.interval_join import IntervalJoinSpec
from penstock.operators.results import OutputTag
from penstock.testing.harness import OneOperatorHarness


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        times = ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()
        ctx.output(OutputTag("seen"), 1)
        yield left, right, times


def join(lower, upper, lower_inclusive=True, upper_inclusive=True, **tags):
    spec = IntervalJoinSpec(lower, upper, lower_inclusive, upper_inclusive, Pair(), **tags)
    return OneOperatorHarness(spec, key=lambda value: value[0])


def test_bounds_are_those_of_right_minus_left():
    harness = join(-2, 1)
    harness.process(("k", "left"), timestamps=[10])
    times = [7, 8, 9, 10, 11, 12]
    harness.process2(*[("k", time) for time in times], timestamps=times)
    assert [right[1] for _, right, _ in harness.values] == [8, 9, 10, 11]
    assert [time for _, time in harness.records] == [10, 10, 10, 11]
    assert harness.side("seen") == [(1, 10), (1, 10), (1, 10), (1, 11)]
    assert harness.values[0][2] == (10, 8, 10)


def test_exclusive_bounds():
    harness = join(-2, 1, False, False)
    harness.process2(*[("k", time) for time in (8, 9, 10, 11)], timestamps=[8, 9, 10, 11])
    harness.process(("k", "left"), timestamps=[10])
    assert [right[1] for _, right, _ in harness.values] == [9, 10]


def test_only_equal_keys_meet():
    harness = join(0, 10)
    harness.process(("a", 1), timestamps=[0])
    harness.process2(("b", 2), timestamps=[5])
    assert harness.values == []


def test_late_records_go_aside_or_are_counted():
    late_left, late_right = OutputTag("left"), OutputTag("right")
    harness = join(0, 10, left_late_tag=late_left, right_late_tag=late_right)
    harness.watermark(100)
    harness.process(("k", 1), ("k", 2), timestamps=[99, 100])
    harness.process2(("k", 3), ("k", 4), timestamps=[99, 100])
    assert harness.side(late_left) == [(("k", 1), 99)]
    assert harness.side(late_right) == [(("k", 3), 99)]
    assert [(left[1], right[1]) for left, right, _ in harness.values] == [(2, 4)]

    harness = join(0, 10)
    harness.watermark(100)
    harness.process(("k", 1), timestamps=[99])
    assert harness.context.metrics.report() == {"numLateRecordsDropped": 1}


def test_records_need_timestamps():
    with pytest.raises(ProgramError, match=r"a left record without a timestamp. Call assign_"):
        join(0, 1).process(("k", 1))
    with pytest.raises(ProgramError, match="a right record without"):
        join(0, 1).process2(("k", 1), timestamps=[-(2**63)])


def test_bounds_that_hold_no_pair_are_refused():
    with pytest.raises(ProgramError, match=r"can have no pairs. Swap the bounds or include them"):
        join(1, 0)
    with pytest.raises(ProgramError, match="upper bound exclusive"):
        join(0, 1, False, False)
    with pytest.raises(ProgramError, match="ProcessJoinFunction is needed"):
        IntervalJoinSpec(0, 1, True, True, lambda left, right: None)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right", "watermark", "restore"]),
        st.sampled_from("ab"),
        st.integers(0, 30),
    ),
    max_size=30,
)


@settings(max_examples=150)
@example([("left", "b", 9), ("watermark", "a", 17), ("right", "b", 17)], 0, 6, False, True)
@given(EVENTS, st.integers(-6, 6), st.integers(0, 6), st.booleans(), st.booleans())
def test_every_pair_within_the_interval_meets_exactly_once(
    events, lower, width, lower_inclusive, upper_inclusive
):
    upper = lower + width + 2
    harness = join(lower, upper, lower_inclusive, upper_inclusive)
    sides = {"left": [], "right": []}
    watermark = -(2**63)
    for number, (kind, key, time) in enumerate(events):
        if kind == "watermark":
            if time > watermark:
                watermark = time
                harness.watermark(time)
        elif kind == "restore":
            harness.restore(harness.snapshot())
        else:
            if time >= watermark:
                sides[kind].append((key, number, time, watermark))
            harness.process((key, number), timestamps=[time], input_index=int(kind == "right"))
    expected = set()
    # The bounds with both ends included, which also say how long a record waits.
    first, last = lower + (not lower_inclusive), upper - (not upper_inclusive)
    for left_key, left, left_time, left_watermark in sides["left"]:
        for right_key, right, right_time, right_watermark in sides["right"]:
            difference = right_time - left_time
            above = difference >= lower if lower_inclusive else difference > lower
            below = difference <= upper if upper_inclusive else difference < upper
            # As in Flink, a record at the watermark itself is not late, but the first advance that
            # reaches the end of a record's wait takes that record away.
            gone = left_time + max(last, 0) if left < right else right_time - min(first, 0)
            advanced = left_watermark != right_watermark
            waits = not advanced or max(left_watermark, right_watermark) < gone
            if left_key == right_key and above and below and waits:
                expected.add(
                    (
                        (left_key, left),
                        (right_key, right),
                        (left_time, right_time, max(left_time, right_time)),
                    )
                )
    assert len(harness.values) == len(expected)
    assert set(harness.values) == expected


def test_buffers_are_emptied_when_no_partner_can_come():
    harness = join(-5, 3)
    harness.process(("k", 1), timestamps=[10])
    harness.process2(("k", 2), timestamps=[10])
    state = harness.context.keyed_state
    left, right = state.map_table("left-buffer"), state.map_table("right-buffer")

    def held():
        return [len(list(table.items("k", None))) for table in (left, right)]

    harness.watermark(12)
    assert held() == [1, 1]
    harness.watermark(13)  # rights up to 13 could join the left one
    assert held() == [0, 1]
    harness.watermark(15)  # lefts up to 15 could join the right one
    assert held() == [0, 0]
    assert len(list(state.event_timers.all())) == 0
