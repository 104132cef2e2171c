"""`assign_timestamps_and_watermarks` in the middle of a stream."""

from __future__ import annotations

from penstock.core.times import MAX_WATERMARK
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from penstock.testing.harness import OneOperatorHarness

BY_VALUE = WatermarkStrategy.for_bounded_out_of_orderness(2).with_timestamp_assigner(
    lambda value: value
)


def harness(strategy: WatermarkStrategy) -> OneOperatorHarness:
    return OneOperatorHarness(TimestampsAndWatermarksSpec(strategy))


def test_timestamps_are_replaced_and_watermarks_follow_their_batch():
    operator = harness(BY_VALUE)
    operator.process(5, 3, timestamps=[1000, 2000])
    operator.process(9)
    assert operator.take() == [
        ("record", 5, 5),
        ("record", 3, 3),
        ("watermark", 2),
        ("record", 9, 9),
        ("watermark", 6),
    ]


def test_upstream_watermarks_end_here_but_for_the_last():
    operator = harness(BY_VALUE)
    operator.watermark(100)
    operator.logic.advance_input_status(idle=True)
    assert operator.take() == []
    operator.watermark(MAX_WATERMARK)
    operator.end_of_epoch()
    assert operator.take() == [("watermark", MAX_WATERMARK)]


class Markers(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        if event < 0:
            output.emit_watermark(-event)

    def on_periodic_emit(self, output):
        pass


def test_punctuated_watermarks_stand_behind_their_record():
    operator = harness(WatermarkStrategy.for_generator(Markers))
    operator.process(1, -5, 2, -7, timestamps=[1, 2, 3, 4])
    assert operator.take() == [
        ("record", 1, 1),
        ("record", -5, 2),
        ("watermark", 5),
        ("record", 2, 3),
        ("record", -7, 4),
        ("watermark", 7),
    ]


def test_idle_and_active_again():
    operator = harness(BY_VALUE.with_idleness(1000))
    operator.process(5)
    operator.end_of_epoch()
    assert operator.logic.next_processing_timer() == 200
    operator.processing_time(200)
    operator.end_of_epoch()
    operator.processing_time(1201)
    operator.end_of_epoch()
    operator.process(9)
    assert operator.take() == [
        ("record", 5, 5),
        ("watermark", 2),
        ("idle", True),
        ("idle", False),
        ("record", 9, 9),
        ("watermark", 6),
    ]


def test_a_restored_generator_does_not_go_back():
    operator = harness(BY_VALUE)
    operator.process(50)
    state = operator.snapshot()
    operator.process(90)
    operator.restore(state)
    operator.take()
    operator.process(40)
    operator.process(60)
    assert operator.take() == [("record", 40, 40), ("record", 60, 60), ("watermark", 57)]
