"""Built-in aggregations of windows, checked against plain Python."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st
from window_driver import Driver

from penstock.core.errors import PenstockError, ProgramError
from penstock.core.row import Row
from penstock.operators.reduce import RollingAggregation
from penstock.operators.windows.aggregates import CountAggregate
from penstock.operators.windows.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.operators.windows.contents import AggregateContents, ReduceContents
from penstock.operators.windows.spec import WindowSpec

MAX = 2**63 - 1
TUMBLING = TumblingEventTimeWindows.of(10)


@pytest.fixture(params=[False, True], ids=["batches", "records"])
def general(request):
    return request.param


def results(general, contents, values, assigner=TUMBLING):
    driver = Driver(WindowSpec(assigner, contents=contents), general=general)
    for start in range(0, len(values), 3):
        driver.records(*[("k", value, 1) for value in values[start : start + 3]])
    return driver.watermark(MAX).values


class Click(NamedTuple):
    page: str
    price: float


def field(kind, position=0):
    return ReduceContents(RollingAggregation(kind, position))


CLICKS = [Click("x", 3.0), Click("y", 1.0), Click("z", 5.0), Click("v", 1.0), Click("w", 5.0)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", ("x", 15.0)),
        ("min", ("x", 1.0)),
        ("max", ("x", 5.0)),
        ("min_by", ("y", 1.0)),
        ("max_by", ("z", 5.0)),
    ],
)
@pytest.mark.parametrize("make", [tuple, lambda c: c, lambda c: Row(*c), list])
def test_fields(general, kind, expected, make):
    values = [make(click) for click in CLICKS]
    assert [tuple(v) for v in results(general, field(kind, 1), values)] == [expected]
    assert [tuple(value) for value in values] == [tuple(click) for click in CLICKS]


def test_fields_by_name(general):
    assert results(general, field("sum", "price"), CLICKS) == [("x", 15.0)]
    rows = [Row(page=page, price=price) for page, price in CLICKS]
    assert results(general, field("max_by", "price"), rows) == [rows[2]]


def test_plain_values_and_mixtures(general):
    assert results(general, field("sum"), [1, 2.5, True, 4]) == [8.5]
    assert results(general, field("sum"), ["a", "b", "c", "d"]) == ["abcd"]
    with pytest.raises(PenstockError, match="no such field"):
        results(general, field("sum", 2), CLICKS)


def test_values_that_do_not_go_together_are_explained_however_many_keys_there_are():
    driver = Driver(WindowSpec(TUMBLING, contents=field("sum")))
    records = [(key, 1, 1) for key in "abcdefgh"]
    with pytest.raises(PenstockError, match=r"sum\(0\) met values that cannot be added"):
        driver.records(*records, ("a", "x", 1))


def test_count(general):
    contents = AggregateContents(CountAggregate())
    assert results(general, contents, [None, 1, 1, "x"]) == [4]
    sessions = EventTimeSessionWindows.with_gap(5)
    assert results(general, contents, [1] * 7, sessions) == [7]


def test_sessions_merge_fields(general):
    driver = Driver(
        WindowSpec(
            EventTimeSessionWindows.with_gap(5),
            contents=field("sum", 1),
        ),
        general=general,
    )
    driver.records(("k", ("a", 1), 0), ("k", ("b", 2), 10)).records(("k", ("c", 4), 5))
    assert driver.watermark(MAX).values == [("a", 7)]


def test_unknown_kinds_are_refused_early():
    with pytest.raises(ProgramError, match="choose one of"):
        field("mean")


@settings(max_examples=60)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    st.sampled_from(["sum", "min", "max", "min_by", "max_by"]),
)
def test_folding_lists_equals_folding_records_bit_by_bit(values, kind):
    fold = {
        "sum": lambda a, b: a + b,
        "min": lambda a, b: b if b < a else a,
        "max": lambda a, b: b if b > a else a,
    }[kind.removesuffix("_by")]
    expected = [functools.reduce(fold, values)]
    assert results(False, field(kind), values) == expected
    assert results(True, field(kind), values) == expected
