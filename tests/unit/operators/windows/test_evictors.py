"""Evictors by hand."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP
from penstock.operators.windows.assigners import GlobalWindows, TumblingEventTimeWindows
from penstock.operators.windows.contents import Buffer, ReduceContents
from penstock.operators.windows.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from penstock.operators.windows.functions import ProcessWindowFunction
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import CountTrigger

MAX = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield list(elements)


def every(count, evictor, contents=None):
    return Driver(
        WindowSpec(
            GlobalWindows.create(),
            CountTrigger.of(count),
            evictor,
            contents=contents or Buffer(),
            function=Show(),
        )
    )


def records(*values):
    return [("a", value, value) for value in values]


def test_count_evictor_makes_javas_sliding_count_windows():
    run = every(2, CountEvictor.of(3)).records(*records(1, 2, 3, 4)).reload()
    run.records(*records(5, 6, 7))
    assert run.values == [[1, 2], [2, 3, 4], [4, 5, 6]]
    # What remains after evicting is what state keeps, and the records since.
    assert [entry[4] for entry in run.left_over() if entry[1] == "list"] == [
        [(4, 4), (5, 5), (6, 6), (7, 7)]
    ]


def test_evicting_after_the_function():
    run = every(2, CountEvictor.of(1, do_evict_after=True)).records(*records(1, 2, 3, 4, 5, 6))
    assert run.values == [[1, 2], [2, 3, 4], [4, 5, 6]]


def test_time_evictor_keeps_what_is_younger_than_the_span():
    run = every(4, TimeEvictor.of(10)).records(*records(1, 11, 5, 2))
    # 11 - 10 = 1 goes, 2 stays.
    assert run.values == [[11, 5, 2]]


def test_time_evictor_leaves_records_without_timestamp_alone():
    run = every(2, TimeEvictor.of(1)).records(("a", 1, None), ("a", 2, None))
    assert run.values == [[1, 2]]
    elements = [TimestampedValue("x", NO_TIMESTAMP), TimestampedValue("y", 5)]
    TimeEvictor.of(1).evict_before(elements, 2, None, None)
    assert len(elements) == 2


def test_delta_evictor_compares_with_the_newest():
    run = every(4, DeltaEvictor.of(3, lambda old, new: abs(new - old)))
    # Differences from 10: 9, 3, 2, 0.
    assert run.records(*records(1, 7, 8, 10)).values == [[8, 10]]


def test_an_evictor_keeps_raw_records_also_with_reduce():
    run = every(2, CountEvictor.of(2), ReduceContents(lambda left, right: left + right))
    run.records(*records(1, 2, 3, 4))
    assert run.values == [[3], [7]]


class Everything(Evictor):
    def evict_before(self, elements, size, window, ctx):
        assert size == len(elements)
        ctx.get_metric_group().counter("evicted").inc(size)
        elements.clear()

    def evict_after(self, elements, size, window, ctx):
        assert (size, ctx.get_current_watermark()) == (0, -(2**63))


@pytest.mark.parametrize("contents", [Buffer(), ReduceContents(max)])
def test_no_function_is_called_for_nothing(contents):
    run = every(2, Everything(), contents).records(*records(1, 2, 3, 4))
    assert run.out == []
    assert run.metrics.counter("evicted").get_count() == 4
    assert [entry for entry in run.left_over() if entry[1] == "list"] == []


def test_evictors_in_time_windows():
    spec = WindowSpec(
        TumblingEventTimeWindows.of(10),
        evictor=CountEvictor.of(2),
        allowed_lateness_ms=5,
        function=Show(),
    )
    run = Driver(spec).records(*records(1, 2, 3)).watermark(9).records(("a", 4, 4)).watermark(99)
    assert run.out == [([2, 3], 9), ([3, 4], 9)]
    assert run.left_over() == []


def test_timestamped_values():
    value = TimestampedValue("x", 5)
    assert (value.get_value(), value.get_timestamp(), value.has_timestamp()) == ("x", 5, True)
    assert not TimestampedValue("x", NO_TIMESTAMP).has_timestamp()


@pytest.mark.parametrize(
    "make",
    [lambda: CountEvictor.of(-1), lambda: DeltaEvictor.of(1, 2), lambda: TimeEvictor.of("soon")],
)
def test_wrong_settings_are_refused(make):
    with pytest.raises(ProgramError):
        make()
