"""Window joins and co-groups, checked against plain loops."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from window_driver import Driver

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.operators.windows.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.contents import PairContents
from penstock.operators.windows.evictors import CountEvictor
from penstock.operators.windows.functions import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
)
from penstock.operators.windows.spec import WindowSpec

MAX = 2**63 - 1
TUMBLING = TumblingEventTimeWindows.of(10)


def join_spec(assigner, function, **settings):
    return WindowSpec(assigner, contents=PairContents(), function=JoinPairs(function), **settings)


def flat_join_spec(assigner, function):
    return WindowSpec(assigner, contents=PairContents(), function=FlatJoinPairs(function))


def co_group_spec(assigner, function, **settings):
    function = CoGroupPairs(function)
    return WindowSpec(assigner, contents=PairContents(), function=function, **settings)


def test_pairs_of_a_window():
    driver = Driver(join_spec(TUMBLING, lambda left, right: (left, right)))
    driver.records(("k", "l1", 1), ("k", "l2", 2), ("k", "l3", 12), ("z", "l4", 3))
    driver.records(("k", "r1", 9), ("k", "r2", 3), ("z", "r3", 13), side=1)
    driver.reload().watermark(MAX)
    assert driver.out == [
        (("l1", "r1"), 9),
        (("l1", "r2"), 9),
        (("l2", "r1"), 9),
        (("l2", "r2"), 9),
    ]
    assert driver.left_over() == []


def test_overlapping_windows_give_a_pair_twice():
    driver = Driver(join_spec(SlidingEventTimeWindows.of(10, 5), lambda a, b: a + b))
    driver.records(("k", "l", 6)).records(("k", "r", 7), side=1).watermark(MAX)
    assert driver.out == [("lr", 9), ("lr", 14)]


def test_flat_join_and_function_objects():
    class Flat(FlatJoinFunction):
        def join(self, first, second):
            if first != second:
                yield first
                yield second

    class Plain(JoinFunction):
        def open(self, runtime_context):
            self.opened = True

        def join(self, first, second):
            assert self.opened
            return first * second

    for make, function, expected in (
        (flat_join_spec, Flat(), [2, 3]),
        (flat_join_spec, lambda a, b: None, []),
        (join_spec, Plain(), [6, 9]),
    ):
        driver = Driver(make(TUMBLING, function))
        driver.records(("k", 2, 1), ("k", 3, 1)).records(("k", 3, 2), side=1).watermark(MAX)
        assert driver.values == expected


def test_co_group_sees_sides_without_partner():
    class Group(CoGroupFunction):
        def co_group(self, first, second):
            yield sorted(first), sorted(second)

    driver = Driver(co_group_spec(TUMBLING, Group(), allowed_lateness_ms=5, late_tag="late"))
    driver.records(("k", 1, 1)).records(("z", 2, 2), side=1).watermark(9)
    driver.records(("k", 3, 3), side=1).watermark(14).records(("k", 4, 4))
    assert driver.values == [([1], []), ([], [2]), ([1], [3])]
    assert driver.side("late") == [(4, 4)]


def test_joins_in_other_windows():
    def pair(left, right):
        return left + right

    driver = Driver(join_spec(EventTimeSessionWindows.with_gap(10), pair))
    driver.records(("k", "a", 0)).records(("k", "b", 9), side=1).records(("k", "c", 18))
    assert driver.watermark(MAX).out == [("ab", 27), ("cb", 27)]
    driver = Driver(join_spec(CountTumblingWindowAssigner.of(2), pair))
    driver.records(("k", "a", None)).records(("k", "b", None), side=1)
    assert driver.values == ["ab"]
    driver = Driver(join_spec(TUMBLING, pair, evictor=CountEvictor.of(2)))
    driver.records(("k", "a", 1), ("k", "b", 2)).records(("k", "c", 3), side=1)
    assert driver.watermark(9).values == ["bc"]


def test_errors_name_the_window():
    driver = Driver(join_spec(TUMBLING, lambda a, b: a / b))
    driver.records(("k", 1, 1)).records(("k", 0, 1), side=1)
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError(.|\n)*TimeWindow\(start=0"):
        driver.watermark(9)


def test_wrong_functions_are_refused_early():
    with pytest.raises(ProgramError):
        join_spec(TUMBLING, 3)
    with pytest.raises(ProgramError, match="belong together"):
        WindowSpec(TUMBLING, function=JoinPairs(max))


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(-20, 20)))


@settings(max_examples=60)
@given(RECORDS, RECORDS, st.booleans())
def test_random_joins(left, right, general):
    spec = join_spec(SlidingEventTimeWindows.of(8, 4), lambda a, b: (a, b))
    driver = Driver(spec, general=general)
    # The same records in pieces, one side after the other.
    for start in range(0, max(len(left), len(right), 1), 3):
        driver.records(*left[start : start + 3])
        driver.records(*right[start : start + 3], side=1)
    driver.watermark(MAX)
    expected = [
        ((one, other), start + 7)
        for start in range(-32, 32, 4)
        for key, one, time in left
        for other_key, other, other_time in right
        if key == other_key and start <= time < start + 8 and start <= other_time < start + 8
    ]
    assert sorted(driver.out) == sorted(expected)
