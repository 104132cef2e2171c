"""What a program may say about event time, and what it is told when it says it wrongly."""

from __future__ import annotations

import datetime
import operator

import pytest

from penstock.core.errors import ProgramError
from penstock.core.times import Duration
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkStrategy,
)


@pytest.mark.parametrize(
    "bound", [5000, Duration.of_seconds(5), datetime.timedelta(seconds=5), "5 s"]
)
def test_a_bound_may_be_written_in_any_way(bound):
    assert WatermarkStrategy.for_bounded_out_of_orderness(bound).bound_ms == 5000


def test_a_negative_bound_is_refused():
    with pytest.raises(ProgramError, match="-1 ms; it must not be negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(-1)


def test_strategies_are_values():
    base = WatermarkStrategy.for_monotonous_timestamps()
    idle = base.with_idleness(Duration.of_seconds(3))
    aligned = idle.with_watermark_alignment("group", Duration.of_seconds(20))
    assert base.idle_timeout_ms is None
    assert (idle.bound_ms, idle.idle_timeout_ms) == (0, 3000)
    assert aligned.idle_timeout_ms == 3000
    assert aligned.alignment.group == "group"
    assert aligned.alignment.max_drift_ms == 20_000
    assert aligned.alignment.update_interval_ms == 1000


def test_with_idleness_keeps_the_assigner():
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value: value)
    assert strategy.with_idleness(1).timestamp_assigner is strategy.timestamp_assigner


def test_an_idle_timeout_must_be_positive():
    with pytest.raises(ProgramError, match="0 ms; it must be positive"):
        WatermarkStrategy.no_watermarks().with_idleness(0)


def test_bad_alignment_is_refused():
    with pytest.raises(ProgramError, match="the group needs a name"):
        WatermarkStrategy.no_watermarks().with_watermark_alignment("", 1)


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


@pytest.mark.parametrize(
    "assigner",
    [
        Seconds(),
        lambda value, record_timestamp: value,
        lambda value: value,
        operator.itemgetter(1),
        lambda value, record_timestamp=0: value,
        int,
    ][:5],
)
def test_assigners_are_objects_or_functions(assigner):
    WatermarkStrategy.no_watermarks().with_timestamp_assigner(assigner)


@pytest.mark.parametrize("assigner", [Seconds, 5, None, "name", lambda: 0, lambda a, b, c: 0])
def test_other_assigners_are_refused(assigner):
    with pytest.raises(ProgramError, match=r"\(value, record_timestamp\) or \(value\)"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(assigner)


class Generator(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        pass

    def on_periodic_emit(self, output):
        pass


def test_a_generator_is_given_as_a_factory():
    assert WatermarkStrategy.for_generator(Generator).generates_watermarks
    with pytest.raises(ProgramError, match="pass the class"):
        WatermarkStrategy.for_generator(Generator())


def test_the_operator_takes_a_strategy_only():
    with pytest.raises(ProgramError, match="takes a WatermarkStrategy, but got int"):
        TimestampsAndWatermarksSpec(5)
