"""Merging watermarks: hand-worked cases, and a naive model that recomputes everything."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings, strategies as st

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.source_watermarks import WatermarkMerger, WatermarkValve


def test_nothing_goes_out_until_each_channel_has_a_watermark():
    valve = WatermarkValve(3)
    assert valve.advance(0, 10) is None
    assert valve.advance(1, 20) is None
    assert valve.advance(2, 5) == 5
    assert valve.advance(2, 30) == 10
    assert valve.advance(0, 25) == 20


def test_a_watermark_never_goes_back():
    valve = WatermarkValve(1)
    assert valve.advance(0, 10) == 10
    assert valve.advance(0, 10) is None
    assert valve.advance(0, 7) is None
    assert valve.advance(0, 11) == 11


def test_an_idle_channel_is_ignored_and_its_watermarks_too():
    valve = WatermarkValve(2)
    assert valve.advance(0, 10) is None
    assert valve.set_idle(1, True) == (None, 10)
    assert valve.advance(1, 50) is None
    assert valve.advance(0, 60) == 60


def test_a_channel_that_comes_back_behind_the_output_is_ignored_until_it_catches_up():
    valve = WatermarkValve(2)
    valve.advance(0, 10)
    valve.set_idle(1, True)
    valve.advance(0, 100)
    assert valve.set_idle(1, False) == (None, None)
    assert valve.advance(1, 40) is None
    assert valve.advance(0, 120) == 120  # channel 1 at 40 does not hold it back
    assert valve.advance(1, 110) is None  # still behind 120
    assert valve.advance(0, 130) == 130
    assert valve.advance(1, 130) is None  # caught up: from now on it counts
    assert valve.advance(0, 200) is None
    assert valve.advance(1, 150) == 150


def test_the_last_active_channel_that_held_the_output_back_lets_the_largest_watermark_out():
    valve = WatermarkValve(2)
    valve.advance(0, 100)
    assert valve.advance(1, 30) == 30
    assert valve.set_idle(0, True) == (None, None)
    assert valve.set_idle(1, True) == (True, 100)


def test_a_channel_that_comes_back_ahead_of_the_output_raises_it_with_its_next_watermark():
    valve = WatermarkValve(3)
    valve.advance(0, 0)
    valve.advance(1, 1)
    assert valve.advance(2, 2) == 0
    assert valve.set_idle(0, True) == (None, 1)
    valve.set_idle(0, False)  # at 0 behind 1: unaligned
    valve.set_idle(2, True)
    valve.set_idle(1, True)
    assert valve.set_idle(2, False) == (None, None)
    assert valve.advance(0, 0) is None  # nothing new
    assert valve.output == 1
    assert valve.advance(2, 3) == 3  # no aligned channel is behind it


def test_the_last_active_channel_that_was_not_in_the_way_lets_nothing_out():
    valve = WatermarkValve(2)
    valve.advance(0, 100)
    valve.set_idle(1, True)  # output is 100 now
    valve.set_idle(1, False)  # unaligned at MIN
    assert valve.set_idle(0, True) == (None, None)
    assert valve.set_idle(1, True) == (True, None)
    assert valve.output == 100


def test_an_unaligned_channel_does_not_hold_back_and_so_lets_nothing_out():
    valve = WatermarkValve(3)
    valve.advance(0, 100)
    valve.advance(1, 30)
    assert valve.advance(2, 5) == 5
    assert valve.set_idle(2, True) == (None, 30)
    valve.set_idle(0, True)
    valve.set_idle(2, False)  # at 5 behind 30: unaligned
    assert valve.set_idle(1, True) == (None, None)
    assert valve.set_idle(2, True) == (True, None)
    assert valve.output == 30


def test_the_output_is_active_again_with_the_first_channel():
    valve = WatermarkValve(2)
    valve.set_idle(0, True)
    assert valve.set_idle(1, True) == (True, None)
    assert valve.set_idle(1, False) == (False, None)
    assert valve.set_idle(0, False) == (None, None)


def test_the_end_goes_out_when_all_channels_ended():
    valve = WatermarkValve(3)
    valve.advance(0, 10)
    valve.advance(1, 20)
    assert valve.advance(2, MAX_WATERMARK) == 10
    assert valve.advance(0, MAX_WATERMARK) == 20
    assert valve.advance(1, MAX_WATERMARK) == MAX_WATERMARK


def test_an_ended_channel_does_not_make_the_records_of_an_idle_one_late():
    valve = WatermarkValve(2)
    valve.advance(0, 50)
    valve.advance(1, 40)
    assert valve.set_idle(1, True) == (None, 50)
    # In Flink this would emit MAX although channel 1 may come back.
    assert valve.advance(0, MAX_WATERMARK) is None
    assert valve.status_change() is True
    assert valve.status_change() is None
    assert valve.set_idle(1, False) == (False, None)
    assert valve.advance(1, 70) == 70


def test_an_idle_channel_may_end():
    valve = WatermarkValve(2)
    valve.set_idle(0, True)
    valve.set_idle(1, True)
    assert valve.advance(0, MAX_WATERMARK) is None
    assert valve.advance(1, MAX_WATERMARK) == MAX_WATERMARK


def test_a_new_split_holds_the_output_until_it_has_caught_up():
    merger = WatermarkMerger(["a"])
    assert merger.advance("a", 100) == 100
    merger.add("b")
    assert merger.advance("a", 200) is None
    assert merger.advance("b", 50) is None
    assert merger.output == 100
    assert merger.advance("b", 150) == 150


def test_a_removed_split_no_longer_holds_the_output():
    merger = WatermarkMerger(["a", "b"])
    merger.advance("a", 100)
    merger.advance("b", 10)
    assert merger.remove("b") == 100
    assert merger.remove("a") is None
    assert merger.output == 100


def test_another_number_of_channels_keeps_the_output():
    valve = WatermarkValve(2)
    valve.advance(0, 10)
    valve.advance(1, 20)
    other = WatermarkValve(3)
    other.restore(valve.snapshot())
    assert other.output == 10
    assert [other.advance(channel, 15) for channel in range(3)] == [None, None, 15]


class NaiveValve:
    """The rules as sentences: no cases are told apart that the rules do not tell apart."""

    def __init__(self, count: int) -> None:
        self.marks = [MIN_WATERMARK] * count
        self.idle = [False] * count
        self.unaligned: set[int] = set()
        self.output = MIN_WATERMARK

    def _emit(self, watermark: int) -> int | None:
        if watermark > self.output:
            self.output = watermark
            return watermark
        return None

    def _counting(self) -> list[int]:
        return [
            mark
            for channel, mark in enumerate(self.marks)
            if not self.idle[channel] and channel not in self.unaligned
        ]

    def advance(self, channel: int, watermark: int) -> int | None:
        if self.idle[channel] or watermark <= self.marks[channel]:
            return None
        self.marks[channel] = watermark
        if self.marks[channel] >= self.output:
            self.unaligned.discard(channel)
        return self._emit(min(self._counting(), default=MIN_WATERMARK))

    def set_idle(self, channel: int, idle: bool) -> tuple[bool | None, int | None]:
        was_idle = all(self.idle)
        watermark = None
        if idle and not self.idle[channel]:
            held_back = channel not in self.unaligned and self.marks[channel] == self.output
            self.idle[channel] = True
            if not all(self.idle):
                watermark = self._emit(min(self._counting(), default=MIN_WATERMARK))
            elif held_back:
                watermark = self._emit(max(self.marks))
        elif not idle and self.idle[channel]:
            self.idle[channel] = False
            self.unaligned.discard(channel)
            if self.marks[channel] < self.output:
                self.unaligned.add(channel)
        return (all(self.idle) if all(self.idle) != was_idle else None), watermark


CHANNELS = 3
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("w"), st.integers(0, CHANNELS - 1), st.integers(0, 12)),
        st.tuples(st.just("idle"), st.integers(0, CHANNELS - 1), st.booleans()),
        st.tuples(st.just("restore"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=400)
@given(STEPS)
def test_the_valve_agrees_with_the_naive_one(steps):
    valve, naive = WatermarkValve(CHANNELS), NaiveValve(CHANNELS)
    for kind, channel, argument in steps:
        if kind == "w":
            assert valve.advance(channel, argument) == naive.advance(channel, argument)
        elif kind == "idle":
            assert valve.set_idle(channel, argument) == naive.set_idle(channel, argument)
        else:
            state = pickle.loads(pickle.dumps(valve.snapshot()))
            valve = WatermarkValve(CHANNELS)
            valve.restore(state)
        assert valve.output == naive.output


def test_restoring_nothing_starts_anew():
    valve = WatermarkValve(1)
    valve.advance(0, 5)
    valve.restore(None)
    assert valve.output == MIN_WATERMARK
    assert valve.advance(0, 3) == 3


def test_an_unknown_channel_is_an_error():
    with pytest.raises(KeyError):
        WatermarkValve(1).advance(1, 5)
