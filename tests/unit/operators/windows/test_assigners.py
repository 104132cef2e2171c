"""Window starts, checks and durations, by hand."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st
from window_model import aligned

from penstock.core.errors import ProgramError
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP, NO_TIMESTAMP, Duration, Time
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from penstock.operators.windows.windows import TimeWindow

HOUR = 3_600_000
DAY = 24 * HOUR


def clock(hours: int, minutes: int, seconds: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


class Clock:
    """An assigner's context at one instant."""

    def __init__(self, now: int) -> None:
        self.now = now

    def get_current_processing_time(self) -> int:
        return self.now


def of(assigner: Any, time: int, now: int = 0, value: Any = None) -> list[Any]:
    return list(assigner.assign_windows(value, time, Clock(now)))


def test_windows_are_aligned_to_1970():
    windows = TumblingEventTimeWindows.of(10_000)
    assert of(windows, clock(20, 19, 35)) == [(clock(20, 19, 30), clock(20, 19, 40))]
    assert of(windows, clock(20, 22, 30)) == [(clock(20, 22, 30), clock(20, 22, 40))]


def test_times_before_1970_round_down():
    windows = TumblingEventTimeWindows.of(10_000)
    assert of(windows, -1) == [(-10_000, 0)]
    assert of(windows, -10_000) == [(-10_000, 0)]
    assert of(windows, -10_001) == [(-20_000, -10_000)]


def test_days_of_a_zone_eight_hours_east():
    days = TumblingEventTimeWindows.of(DAY, -8 * HOUR)
    # 2 January 1970, 01:00 in Shanghai is 1 January, 17:00 UTC.
    assert of(days, 17 * HOUR) == [(16 * HOUR, 40 * HOUR)]
    assert of(days, 16 * HOUR - 1) == [(-8 * HOUR, 16 * HOUR)]


def test_sliding_windows_come_latest_first():
    windows = SlidingEventTimeWindows.of(10, 5)
    assert of(windows, 12) == [(10, 20), (5, 15)]
    assert of(windows, 10) == [(10, 20), (5, 15)]
    assert of(windows, 9) == [(5, 15), (0, 10)]
    assert of(SlidingEventTimeWindows.of(10, 4, 1), 8) == [(5, 15), (1, 11)]


def test_sliding_windows_may_leave_gaps():
    windows = SlidingEventTimeWindows.of(4, 10)
    assert of(windows, 3) == [(0, 4)]
    assert of(windows, 4) == []


def test_windows_at_the_ends_of_time_are_clamped():
    assert of(TumblingEventTimeWindows.of(10), MAX_TIMESTAMP)[0].end == MAX_TIMESTAMP
    assert of(TumblingEventTimeWindows.of(10), MIN_TIMESTAMP + 1)[0].start == MIN_TIMESTAMP
    window = of(EventTimeSessionWindows.with_gap(10), MAX_TIMESTAMP - 3)[0]
    assert window == (MAX_TIMESTAMP - 3, MAX_TIMESTAMP)
    assert window.max_timestamp() == MAX_TIMESTAMP - 1


@given(
    st.integers(-(10**15), 10**15),
    st.integers(1, 50),
    st.integers(1, 50),
    st.integers(-49, 49),
)
def test_starts_equal_those_found_by_trying(time, size, slide, offset):
    if abs(offset) < slide:
        naive = aligned(size, slide, offset)(time)
        assert of(SlidingEventTimeWindows.of(size, slide, offset), time) == naive
    if abs(offset) < size:
        naive = aligned(size, size, offset)(time)
        assert of(TumblingEventTimeWindows.of(size, offset), time) == naive
        assert TimeWindow.get_window_start_with_offset(time, offset, size) == naive[0][0]


def test_processing_time_asks_the_clock():
    assert of(TumblingProcessingTimeWindows.of(10), 999, now=25) == [(20, 30)]
    assert of(SlidingProcessingTimeWindows.of(10, 5), 999, now=25) == [(25, 35), (20, 30)]
    assert of(ProcessingTimeSessionWindows.with_gap(7), 999, now=25) == [(25, 32)]


def test_sessions_start_at_the_record():
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return element

    assert of(EventTimeSessionWindows.with_gap(5), 3) == [(3, 8)]
    assert of(EventTimeSessionWindows.with_dynamic_gap(Gap()), 3, value=9) == [(3, 12)]
    with pytest.raises(ProgramError, match=r"gap > 0, but the extractor returned 0 ms .* record 0"):
        of(DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()), 3, value=0)


@pytest.mark.parametrize(
    "span", [Time.seconds(2), Duration.of_seconds(2), datetime.timedelta(seconds=2), 2000, "2 s"]
)
def test_spans_of_time_come_in_many_forms(span):
    assert of(TumblingEventTimeWindows.of(span), 2500) == [(2000, 4000)]


def test_a_timedelta_is_exact_to_the_millisecond():
    centuries = datetime.timedelta(days=200_000, milliseconds=1)
    assert TumblingEventTimeWindows.of(centuries).size == 200_000 * DAY + 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TumblingEventTimeWindows.of(10, 10), r"abs\(offset\) < size"),
        (lambda: TumblingEventTimeWindows.of(10, -10), r"abs\(offset\) < size"),
        (lambda: TumblingProcessingTimeWindows.of(0), r"abs\(offset\) < size"),
        (lambda: SlidingEventTimeWindows.of(10, 5, 5), r"abs\(offset\) < slide and size > 0"),
        (lambda: SlidingEventTimeWindows.of(0, 5), r"abs\(offset\) < slide and size > 0"),
        (lambda: SlidingProcessingTimeWindows.of(10, 0), r"abs\(offset\) < slide and size > 0"),
        (lambda: EventTimeSessionWindows.with_gap(0), "gap > 0"),
        (lambda: ProcessingTimeSessionWindows.with_gap(-1), "gap > 0"),
        (lambda: EventTimeSessionWindows.with_dynamic_gap(3), "SessionWindowTimeGapExtractor"),
        (lambda: TumblingEventTimeWindows.of(10.5), "a number of milliseconds"),
        (lambda: CountTumblingWindowAssigner.of(0), "positive number of records"),
        (lambda: CountSlidingWindowAssigner.of(3, 0), "positive number of records"),
    ],
)
def test_wrong_settings_are_refused(make, text):
    with pytest.raises(ProgramError, match=text):
        make()


@pytest.mark.parametrize(
    "assigner", [TumblingEventTimeWindows.of(5), EventTimeSessionWindows.with_gap(5)]
)
def test_event_time_needs_timestamps(assigner):
    with pytest.raises(ProgramError, match="assign_timestamps_and_watermarks"):
        of(assigner, NO_TIMESTAMP)


def test_default_triggers():
    def trigger(assigner: Any) -> type:
        return type(assigner.get_default_trigger())

    assert trigger(TumblingEventTimeWindows.of(5)) is EventTimeTrigger
    assert trigger(EventTimeSessionWindows.with_gap(5)) is EventTimeTrigger
    assert trigger(SlidingProcessingTimeWindows.of(5, 5)) is ProcessingTimeTrigger
    assert trigger(ProcessingTimeSessionWindows.with_gap(5)) is ProcessingTimeTrigger
    assert trigger(GlobalWindows.create()) is NeverTrigger
    assert trigger(CountTumblingWindowAssigner.of(5)) is CountTrigger
