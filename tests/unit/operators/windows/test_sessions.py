"""Session windows by hand, on both paths."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.functions import AggregateFunction
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from penstock.operators.windows.contents import AggregateContents, ReduceContents
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec
from penstock.state.descriptors import ValueStateDescriptor

MAX = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield tuple(context.window()), list(elements)


@pytest.fixture(params=[False, True], ids=["batches", "records"])
def general(request):
    return request.param


def sessions(general, assigner=None, **settings):
    assigner = assigner or EventTimeSessionWindows.with_gap(10)
    settings.setdefault("function", Show())
    return Driver(WindowSpec(assigner, **settings), general=general)


def test_windows_that_touch_are_one_session(general):
    run = sessions(general).records(("a", 1, 0), ("a", 2, 10), ("b", 3, 11), ("a", 4, 21))
    assert sorted(run.watermark(MAX).values) == [
        ((0, 20), [1, 2]),
        ((11, 21), [3]),
        ((21, 31), [4]),
    ]


def test_one_millisecond_decides(general):
    # [0, 10) and [10, 20) touch; [0, 10) and [11, 21) do not.
    assert sessions(general).records(("a", 1, 0), ("a", 2, 10)).watermark(MAX).values == [
        ((0, 20), [1, 2])
    ]
    assert sessions(general).records(("a", 1, 0), ("a", 2, 11)).watermark(MAX).values == [
        ((0, 10), [1]),
        ((11, 21), [2]),
    ]


def test_a_bridge_joins_sessions_from_state_and_batch(general):
    run = sessions(general).records(("a", 1, 0)).records(("a", 2, 30), ("a", 3, 31)).reload()
    run.records(("a", 4, 15), ("a", 5, 22), ("a", 6, 9))
    # 15 stands alone, 22 joins it to [30, 41), 9 joins both to [0, 10).
    assert run.watermark(MAX).values == [((0, 41), [1, 4, 2, 3, 5, 6])]
    assert run.left_over() == []


@pytest.mark.parametrize("times", [(0, 20, 10), (20, 0, 10)])
def test_a_bridge_that_only_touches_both_sides(general, times):
    run = sessions(general).records(*[("a", time, time) for time in times])
    assert run.watermark(MAX).values == [((0, 30), [0, 20, 10])]


def test_a_growing_session_is_not_rewritten(general):
    run = sessions(general)
    for time in range(0, 100, 5):
        run.records(("a", time, time))
    homes = {entry[3] for entry in run.left_over() if entry[1] == "list"}
    assert homes == {(0, 10)}
    timers = [entry for entry in run.left_over() if entry[1] == "event_timer"]
    assert [(entry[3], entry[4]) for entry in timers] == [((0, 105), 104)]


def test_a_late_record_may_be_saved_by_a_live_session(general):
    run = sessions(general, late_tag="late").records(("a", 1, 100)).watermark(105)
    # [90, 100) is over by itself, but it touches [100, 110), which is open.
    run.records(("a", 2, 90), ("a", 3, 89), ("a", 4, 70), ("b", 5, 90))
    assert run.side("late") == [(4, 70), (5, 90)]
    assert run.watermark(MAX).values == [((89, 110), [1, 2, 3])]


def test_a_session_that_ends_with_the_watermark_is_over(general):
    run = sessions(general, late_tag="late").watermark(9).records(("a", 1, 0), ("b", 2, 1))
    assert run.side("late") == [(1, 0)]
    assert run.watermark(10).values == [((1, 11), [2])]
    run = sessions(general, allowed_lateness_ms=1).watermark(9).records(("a", 1, 0))
    assert run.out == [(((0, 10), [1]), 9)]
    assert run.watermark(10).left_over() == []


def test_a_fired_session_that_grows_fires_again_at_its_new_end(general):
    run = sessions(general, allowed_lateness_ms=20).records(("a", 1, 0)).watermark(9)
    assert run.take() == [(((0, 10), [1]), 9)]
    run.records(("a", 2, 8))
    assert run.out == []
    assert run.watermark(17).take() == [(((0, 18), [1, 2]), 17)]
    # Inside and behind the watermark: fires at once; then cleanup at 17 + 20 in silence.
    assert run.records(("a", 3, 4)).take() == [(((0, 18), [1, 2, 3]), 17)]
    assert run.watermark(36).left_over() != []
    assert run.watermark(37).left_over() == []
    assert run.out == []


def test_a_shorter_gap_never_shrinks_a_session(general):
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda value: value)
    run = sessions(general, assigner).records(("a", 50, 0), ("a", 1, 10))
    assert run.watermark(MAX).values == [((0, 50), [50, 1])]


def test_a_window_with_the_bounds_of_a_grown_session_keeps_its_records(general):
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda value: value)
    run = sessions(general, assigner)
    run.records(("a", 10, 0)).records(("a", 10, 5)).records(("a", 15, 0))
    assert run.watermark(MAX).values == [((0, 15), [10, 10, 15])]


def test_processing_time_sessions(general):
    run = sessions(general, ProcessingTimeSessionWindows.with_gap(10), function=Show())
    run.now(100).records(("a", 1, None)).now(105).records(("a", 2, None))
    assert run.now(113).out == []
    assert run.now(114).out == [(((100, 115), [1, 2]), 114)]
    run.records(("a", 3, None)).now(999)
    assert run.values[1:] == [((114, 124), [3])]
    assert run.left_over() == []


def test_processing_time_sessions_with_gaps_of_the_records(general):
    run = sessions(general, ProcessingTimeSessionWindows.with_dynamic_gap(lambda value: value))
    # [100, 120), then [110, 115) inside it: a shorter gap does not end the session earlier.
    run.now(100).records(("a", 20, None)).now(110).records(("a", 5, None), ("b", 3, None))
    assert run.now(118).values == [((110, 113), [3])]
    assert run.now(119).values[1:] == [((100, 120), [20, 5])]
    with pytest.raises(ProgramError, match="returned 0 ms for the record 0"):
        run.records(("a", 0, None))


class Join(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return f"<{accumulator}>"

    def merge(self, acc_a, acc_b):
        return f"{acc_a}|{acc_b}"


@pytest.mark.parametrize(
    ("contents", "first", "second"),
    [
        (AggregateContents(Join()), "<p>", "<s|qrt>"),
        (ReduceContents(lambda left, right: f"({left}{right})"), "p", "((s(qr))t)"),
    ],
)
def test_accumulators_merge_in_order_of_their_windows(general, contents, first, second):
    run = sessions(general, contents=contents)
    run.records(("a", "p", 0), ("a", "q", 30), ("a", "r", 31))
    # 15 makes [15, 25); 20 joins it to [30, 41).
    run.records(("a", "s", 15), ("a", "t", 20))
    assert run.watermark(MAX).values == [((0, 10), [first]), ((15, 41), [second])]


def test_sessions_have_no_state_per_window(general):
    class Asks(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.global_state().get_state(ValueStateDescriptor("fine")).value()
            yield context.window_state().get_state(ValueStateDescriptor("mine"))

    run = sessions(general, function=Asks()).records(("a", 1, 1))
    with pytest.raises(UserFunctionError, match="per-window state 'mine'"):
        run.watermark(MAX)
