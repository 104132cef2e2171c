"""Timestamps, watermarks and idleness of one sequence of records, in hand-worked numbers."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.times import MIN_WATERMARK, NO_TIMESTAMP
from penstock.operators.watermark_strategy import (
    BoundedOutOfOrdernessWatermarks,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkStrategy,
)
from penstock.operators.watermark_tracker import WatermarkTracker


def tracker(strategy: WatermarkStrategy) -> WatermarkTracker:
    return WatermarkTracker(strategy, "orders")


def test_flink_2_emits_one_less_than_the_newest_minus_the_bound():
    # With bound 50 000 and window [0, 60 000), the window fires upon a record of 110 000.
    bounded = tracker(WatermarkStrategy.for_bounded_out_of_orderness(50_000))
    assert bounded.on_batch(["r"], [109_999]) == [(1, 59_998)]
    assert bounded.on_batch(["r"], [110_000]) == [(1, 59_999)]


def test_monotonous_is_a_bound_of_nothing():
    monotonous = tracker(WatermarkStrategy.for_monotonous_timestamps())
    assert monotonous.on_batch(["a", "b", "c"], [5, 9, 7]) == [(3, 8)]
    assert monotonous.on_batch(["d"], [9]) == []
    assert monotonous.on_batch(["e"], [3]) == []
    assert monotonous.on_batch(["f"], [10]) == [(1, 9)]
    assert monotonous.watermark == 9


def test_records_without_timestamps_advance_nothing():
    monotonous = tracker(WatermarkStrategy.for_monotonous_timestamps())
    assert monotonous.on_batch(["a"], None) == []
    assert monotonous.on_batch(["a"], [NO_TIMESTAMP]) == []
    assert monotonous.on_batch([], []) == []
    assert monotonous.watermark == MIN_WATERMARK


def test_no_watermarks_means_none():
    silent = tracker(WatermarkStrategy.no_watermarks())
    assert silent.on_batch(["a"], [5]) == []
    assert silent.on_periodic(1000) is None


@given(st.lists(st.lists(st.integers(-50, 50), min_size=1), max_size=8), st.integers(0, 20))
def test_the_vectorised_generator_is_the_one_that_flink_describes(batches, bound):
    ours = tracker(WatermarkStrategy.for_bounded_out_of_orderness(bound))
    newest = MIN_WATERMARK + bound + 1
    last = MIN_WATERMARK
    for batch in batches:
        expected = []
        for timestamp in batch:
            newest = max(newest, timestamp)
        if newest - bound - 1 > last:
            last = newest - bound - 1
            expected = [(len(batch), last)]
        assert ours.on_batch(batch, batch) == expected


@given(st.lists(st.lists(st.integers(-50, 50), min_size=1), max_size=8), st.integers(0, 20))
def test_the_generator_class_agrees_with_the_vectorised_one(batches, bound):
    built_in = tracker(WatermarkStrategy.for_bounded_out_of_orderness(bound))
    custom = tracker(
        WatermarkStrategy.for_generator(lambda: BoundedOutOfOrdernessWatermarks(bound))
    )
    for batch in batches:
        assert custom.on_batch(batch, batch) == built_in.on_batch(batch, batch)


# -- timestamps ------------------------------------------------------------------------------------


class Later(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + value


def test_assigners_see_the_timestamp_so_far():
    strategy = WatermarkStrategy.no_watermarks()
    later = tracker(strategy.with_timestamp_assigner(Later()))
    assert later.assign([1, 2], [10, 20]) == [11, 22]
    assert later.assign([1], None) == [MIN_WATERMARK + 1]
    of_value = tracker(strategy.with_timestamp_assigner(lambda value: value * 2))
    assert of_value.assign([1, 2], [10, 20]) == [2, 4]
    assert tracker(strategy).assign([1, 2], [10, 20]) == [10, 20]


def seconds(value: dict) -> float:
    return value["time"]


@pytest.mark.parametrize(
    ("given_time", "text"), [(math.nan, "float nan"), (None, "NoneType None"), (True, "bool True")]
)
def test_a_timestamp_that_is_no_int_names_the_assigner_and_the_record(given_time, text):
    broken = tracker(WatermarkStrategy.no_watermarks().with_timestamp_assigner(seconds))
    with pytest.raises(ProgramError) as caught:
        broken.assign([{"time": 1}, {"time": given_time}], None)
    message = str(caught.value)
    assert f"assigner seconds of 'orders' returned {text}" in message
    assert repr({"time": given_time}) in message


class Number:
    def __index__(self) -> int:
        return 7


def test_whole_numbers_of_other_types_become_ints():
    odd = tracker(WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value: Number()))
    assert odd.assign(["a", "b"], None) == [7, 7]


def test_floats_lose_their_fraction_as_in_pyflink():
    of_datetimes = tracker(WatermarkStrategy.no_watermarks().with_timestamp_assigner(seconds))
    records = [{"time": 1704067201000.7}, {"time": -1.5}, {"time": 3}]
    assert of_datetimes.assign(records, None) == [1704067201000, -1, 3]


def test_an_assigner_that_raises_names_the_record():
    broken = tracker(WatermarkStrategy.no_watermarks().with_timestamp_assigner(seconds))
    with pytest.raises(UserFunctionError) as caught:
        broken.assign([{"time": 1}, {"when": 2}], None)
    assert caught.value.record == "{'when': 2}"


# -- generators ------------------------------------------------------------------------------------


class Punctuated(WatermarkGenerator):
    """A watermark behind every record that is a multiple of ten."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event, event_timestamp, output):
        self.seen += 1
        if event % 10 == 0:
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output):
        pass


def test_punctuated_watermarks_keep_their_place():
    punctuated = tracker(WatermarkStrategy.for_generator(Punctuated))
    assert punctuated.on_batch([1, 10, 3, 20, 5], [1, 10, 3, 20, 5]) == [(2, 10), (4, 20)]
    assert punctuated.on_batch([10, 6, 30], [10, 6, 30]) == [(3, 30)]


class Twice(Punctuated):
    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)
        output.emit_watermark(event_timestamp + 1)


def test_of_two_watermarks_at_one_place_the_last_counts():
    assert tracker(WatermarkStrategy.for_generator(Twice)).on_batch([5], [5]) == [(1, 6)]


class ByClock(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        self.last = event_timestamp

    def on_periodic_emit(self, output):
        output.emit_watermark(getattr(self, "last", 0) - 3)


def test_periodic_generators_are_asked_behind_each_batch_and_epoch():
    by_clock = tracker(WatermarkStrategy.for_generator(ByClock))
    assert by_clock.on_periodic(0) == -3
    assert by_clock.on_batch([7, 9], [7, 9]) == [(2, 6)]
    assert by_clock.on_periodic(0) is None


class Nonsense(ByClock):
    def on_periodic_emit(self, output):
        output.emit_watermark("soon")


def test_a_watermark_is_an_int():
    with pytest.raises(UserFunctionError, match="takes an int in milliseconds, but got str"):
        tracker(WatermarkStrategy.for_generator(Nonsense)).on_periodic(0)


def test_a_factory_must_make_generators():
    with pytest.raises(ProgramError, match="returned int; it must return a WatermarkGenerator"):
        tracker(WatermarkStrategy.for_generator(lambda: 5))


class Gate(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        if event == "stop":
            output.mark_idle()

    def on_periodic_emit(self, output):
        pass


def test_generators_may_mark_their_input_idle():
    gate = tracker(WatermarkStrategy.for_generator(Gate))
    gate.on_batch(["stop"], [1])
    assert gate.is_idle
    gate.on_batch(["go"], [2])
    assert not gate.is_idle


# -- idleness --------------------------------------------------------------------------------------


def test_idle_after_longer_than_the_timeout_from_the_first_check_without_records():
    quiet = tracker(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000))
    quiet.on_batch(["a"], [5])
    quiet.on_periodic(100)  # saw a record
    quiet.on_periodic(5000)  # sees none: the time begins
    assert not quiet.is_idle
    quiet.on_periodic(6000)  # 1000 is not longer than 1000
    assert not quiet.is_idle
    quiet.on_periodic(6001)
    assert quiet.is_idle
    quiet.on_batch(["b"], [6])
    assert not quiet.is_idle
    quiet.on_periodic(6100)
    quiet.on_periodic(6200)
    quiet.on_periodic(7200)
    assert not quiet.is_idle


def test_an_epoch_is_asked_for_when_idleness_may_be_due():
    quiet = tracker(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000))
    assert quiet.next_check() is None
    quiet.on_batch(["a"], [5])
    quiet.on_periodic(100)
    assert quiet.next_check() == 300
    quiet.on_periodic(300)
    assert quiet.next_check() == 1301
    quiet.on_periodic(1301)
    assert quiet.is_idle
    assert quiet.next_check() is None
    assert tracker(WatermarkStrategy.for_monotonous_timestamps()).next_check() is None


def test_time_in_which_nobody_looked_does_not_count():
    quiet = tracker(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1000))
    quiet.on_periodic(0)
    state = quiet.snapshot()
    quiet.restore(state)
    quiet.on_periodic(3_600_000)  # an hour of downtime
    assert not quiet.is_idle
    quiet.on_periodic(3_601_001)
    assert quiet.is_idle


# -- state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        WatermarkStrategy.for_bounded_out_of_orderness(3).with_idleness(50),
        WatermarkStrategy.for_generator(Punctuated),
        WatermarkStrategy.for_generator(ByClock),
    ],
)
def test_a_restored_tracker_goes_on_as_if_nothing_had_happened(strategy):
    batches = [[1, 10], [4, 30, 2], [12], [50]]
    whole, parts = tracker(strategy), tracker(strategy)
    for now, batch in enumerate(batches):
        expected = whole.on_batch(batch, batch), whole.on_periodic(now)
        fresh = tracker(strategy)
        fresh.restore(pickle.loads(pickle.dumps(parts.snapshot())))
        parts = fresh
        assert (parts.on_batch(batch, batch), parts.on_periodic(now)) == expected


def test_the_state_of_a_generator_is_its_attributes_not_its_class():
    punctuated = tracker(WatermarkStrategy.for_generator(Punctuated))
    punctuated.on_batch([1, 2], [1, 2])
    assert punctuated.snapshot()["generator"] == {"seen": 2}


def test_a_changed_strategy_never_goes_back():
    before = tracker(WatermarkStrategy.for_monotonous_timestamps())
    before.on_batch(["a"], [100])
    after = tracker(WatermarkStrategy.for_bounded_out_of_orderness(20))
    after.restore(before.snapshot())
    assert after.on_batch(["b"], [110]) == []
    assert after.on_batch(["c"], [121]) == [(1, 100)]


@pytest.mark.parametrize(
    ("stamp", "unit"),
    [
        (1_700_000_000, "like seconds,"),
        (1_700_000_000_000, None),
        (1_700_000_000_000_000, "like microseconds,"),
        (1_700_000_000_000_000_000, "like nanoseconds,"),
        (0, None),
        (2**62, None),
        (2**70, None),
    ],
)
def test_timestamps_in_other_units_are_warned_of_once(stamp, unit, caplog):
    caplog.set_level("WARNING", "penstock")
    name = f"orders of {stamp}"  # Once in each process and operator.
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value)
    for _ in range(2):
        assert WatermarkTracker(strategy, name).assign([stamp], None) == [stamp]
    warned = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    assert [unit in text for text in warned] == ([] if unit is None else [True])
