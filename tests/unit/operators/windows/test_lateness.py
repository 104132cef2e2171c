"""When windows fire, what is late and what stays, by hand."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.core.errors import PenstockError
from penstock.operators.results import OutputTag
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.contents import ReduceContents
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import EventTimeTrigger, PurgingTrigger

MAX = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, tuple(context.window()), list(elements)


@pytest.fixture(params=[False, True], ids=["batches", "records"])
def general(request):
    return request.param


def tumbling(general, **settings):
    spec = WindowSpec(TumblingEventTimeWindows.of(10), function=Show(), **settings)
    return Driver(spec, general=general)


def test_a_window_fires_when_the_watermark_reaches_its_last_instant(general):
    driver = tumbling(general).records(("a", 1, 0), ("a", 2, 9), ("a", 3, 10))
    assert driver.watermark(8).out == []
    assert driver.watermark(9).out == [(("a", (0, 10), [1, 2]), 9)]
    assert driver.events[-1] == ("watermark", 9)
    assert driver.watermark(19).out[1:] == [(("a", (10, 20), [3]), 19)]
    assert driver.left_over() == []


def test_windows_fire_in_time_order_before_the_watermark_goes_on(general):
    driver = tumbling(general).records(("b", 1, 25), ("a", 2, 5), ("a", 3, 15)).watermark(100)
    assert [value[1] for value in driver.values] == [(0, 10), (10, 20), (20, 30)]
    assert driver.events[-1] == ("watermark", 100)


def test_a_record_behind_the_watermark_in_an_open_window_is_not_late(general):
    driver = tumbling(general, late_tag=OutputTag("late")).watermark(8).records(("a", 1, 3))
    assert driver.side("late") == []
    assert driver.watermark(9).values == [("a", (0, 10), [1])]


def test_late_records_go_to_the_side_output_with_their_timestamp(general):
    driver = tumbling(general, late_tag=OutputTag("late")).watermark(9)
    driver.records(("a", 1, 3), ("b", 2, 12), ("b", 3, 9))
    assert driver.side("late") == [(1, 3), (3, 9)]
    assert driver.dropped == 0
    assert driver.out == []


def test_late_records_without_side_output_are_counted(general):
    driver = tumbling(general).watermark(9).records(("a", 1, 3), ("b", 2, 12), ("b", 3, 9))
    assert driver.dropped == 2
    assert driver.watermark(MAX).values == [("b", (10, 20), [2])]


def test_allowed_lateness_fires_again_for_each_record(general):
    driver = tumbling(general, allowed_lateness_ms=5, late_tag="late")
    driver.records(("a", 1, 1)).watermark(9)
    assert driver.take() == [(("a", (0, 10), [1]), 9)]
    driver.records(("a", 2, 2), ("b", 3, 3), ("a", 4, 4))
    assert driver.take() == [
        (("a", (0, 10), [1, 2]), 9),
        (("b", (0, 10), [3]), 9),
        (("a", (0, 10), [1, 2, 4]), 9),
    ]
    # Cleanup at 9 + 5: state is there until the watermark reaches it, and goes without a word.
    assert driver.watermark(13).left_over() != []
    assert driver.watermark(14).left_over() == []
    assert driver.out == []
    assert driver.records(("a", 5, 5)).side("late") == [(5, 5)]


def test_purging_shows_late_records_alone(general):
    driver = tumbling(general, allowed_lateness_ms=5, trigger=PurgingTrigger.of(EventTimeTrigger()))
    driver.records(("a", 1, 1)).watermark(9).records(("a", 2, 2), ("a", 3, 3)).watermark(50)
    assert [value[2] for value in driver.values] == [[1], [2], [3]]
    assert driver.left_over() == []


def test_a_sliding_record_is_late_only_when_all_its_windows_are(general):
    spec = WindowSpec(SlidingEventTimeWindows.of(10, 5), function=Show(), late_tag="late")
    driver = Driver(spec, general=general).watermark(9)
    # [0, 10) is over, [5, 15) is open.
    driver.records(("a", 1, 7), ("a", 2, 4))
    assert driver.side("late") == [(2, 4)]
    assert driver.watermark(MAX).values == [("a", (5, 15), [1])]


def test_a_record_in_no_window_is_not_late_before_its_time(general):
    spec = WindowSpec(SlidingEventTimeWindows.of(4, 10), function=Show(), late_tag="late")
    driver = Driver(spec, general=general).watermark(6)
    driver.records(("a", 1, 7), ("a", 2, 5))
    assert driver.side("late") == [(2, 5)]
    assert driver.left_over() == []


def test_the_maximum_saturates(general):
    driver = tumbling(general, allowed_lateness_ms=MAX)
    driver.records(("a", 1, 1), ("b", 2, MAX - 1)).watermark(9)
    assert driver.take() == [(("a", (0, 10), [1]), 9)]
    # Cleanup would be at MAX: no timer, so the contents of "a" stay for ever.
    assert driver.watermark(MAX - 1).take()[0][1] == MAX - 1
    assert [entry[2] for entry in driver.left_over() if entry[1] == "list"] == ["a", "b"]
    # At MAX everything is late.
    driver.watermark(MAX).records(("a", 3, 1), ("b", 4, MAX))
    assert driver.out == []
    assert driver.dropped == 2


def test_the_last_watermark_fires_everything(general):
    spec = WindowSpec(EventTimeSessionWindows.with_gap(10), function=Show())
    driver = Driver(spec, general=general).records(("a", 1, 5), ("a", 2, MAX - 2)).watermark(MAX)
    assert driver.out == [(("a", (5, 15), [1]), 14), (("a", (MAX - 2, MAX), [2]), MAX - 1)]
    assert driver.left_over() == []


def test_windows_before_1970(general):
    driver = tumbling(general).records(("a", 1, -1), ("a", 2, -10), ("a", 3, -11)).watermark(-1)
    assert driver.out == [(("a", (-20, -10), [3]), -11), (("a", (-10, 0), [1, 2]), -1)]


def test_event_time_windows_refuse_records_without_timestamp(general):
    for records in ([("a", 1, None)], [("a", 1, 5), ("a", 2, -(2**63))]):
        with pytest.raises(PenstockError, match="assign_timestamps_and_watermarks"):
            tumbling(general).records(*records)


def test_processing_time_windows_fire_by_the_clock(general):
    spec = WindowSpec(
        TumblingProcessingTimeWindows.of(10), function=Show(), allowed_lateness_ms=100
    )
    driver = Driver(spec, general=general, now=25)
    driver.records(("a", 1, None), ("b", 2, None)).watermark(MAX).now(28).records(("a", 3, None))
    assert driver.out == []
    assert driver.now(1000).out == [(("a", (20, 30), [1, 3]), 29), (("b", (20, 30), [2]), 29)]
    # Lateness is for event time only: cleanup is at the last instant.
    assert driver.left_over() == []


def test_reduce_keeps_one_value_and_the_first_record_is_not_changed(general):
    def append(left, right):
        left.extend(right)
        return left

    records = [["x"], ["y"], ["z"]]
    spec = WindowSpec(SlidingEventTimeWindows.of(10, 5), contents=ReduceContents(append))
    driver = Driver(spec, general=general)
    driver.records(*[("a", record, 7) for record in records]).watermark(MAX)
    assert driver.values == [["x", "y", "z"], ["x", "y", "z"]]
    assert records == [["x"], ["y"], ["z"]]


def test_results_that_were_emitted_do_not_change_later(general):
    def append(left, right):
        left.extend(right)
        return left

    spec = WindowSpec(
        TumblingEventTimeWindows.of(10),
        contents=ReduceContents(append),
        allowed_lateness_ms=50,
    )
    driver = Driver(spec, general=general).records(("a", ["x"], 1)).watermark(9)
    driver.records(("a", ["y"], 2), ("a", ["z"], 3))
    assert driver.values == [["x"], ["x", "y"], ["x", "y", "z"]]
