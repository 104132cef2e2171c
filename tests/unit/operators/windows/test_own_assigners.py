"""Assigners that a program writes itself, merging ones among them; numbers worked by hand."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.operators.windows.assigners import MergingWindowAssigner, WindowAssigner
from penstock.operators.windows.functions import (
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessWindowFunction,
)
from penstock.operators.windows.spec import WindowSpec
from penstock.operators.windows.triggers import EventTimeTrigger
from penstock.operators.windows.windows import TimeWindow

MAX = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, tuple(context.window()), list(elements)


class ByValue(WindowAssigner):
    """Numbers from 10 on wait for a window twice as long; each is in the window before, too."""

    def assign_windows(self, element, timestamp, context):
        size = 10 if element < 10 else 20
        start = timestamp - timestamp % size
        return [TimeWindow(start, start + size), TimeWindow(start - size, start)]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def is_event_time(self):
        return True


def test_own_assigner():
    run = Driver(WindowSpec(ByValue(), function=Show()))
    run.records(("a", 1, 12), ("a", 15, 25), ("b", 2, 13)).watermark(19)
    assert sorted(run.values) == [
        ("a", (0, 10), [1]),
        ("a", (0, 20), [15]),
        ("a", (10, 20), [1]),
        ("b", (0, 10), [2]),
        ("b", (10, 20), [2]),
    ]
    run.take()
    assert run.reload().watermark(MAX).values == [("a", (20, 40), [15])]


class Neighbours(MergingWindowAssigner):
    """Windows of ten that merge only with the one that begins exactly where they end."""

    def assign_windows(self, element, timestamp, context):
        start = timestamp - timestamp % 10
        return [TimeWindow(start, start + 10)]

    def merge_windows(self, windows, callback):
        runs = []
        for window in sorted(set(windows), key=lambda each: each.start):
            if runs and runs[-1][-1].end == window.start:
                runs[-1].append(window)
            else:
                runs.append([window])
        for run in runs:
            if len(run) > 1:
                callback.merge(run, TimeWindow(run[0].start, run[-1].end))

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def is_event_time(self):
        return True


def test_own_merging_assigner():
    run = Driver(WindowSpec(Neighbours(), function=Show()))
    run.records(("a", 1, 5), ("a", 2, 25), ("b", 3, 35)).reload()
    # What comes in between joins what is left and right of it.
    run.records(("a", 4, 17)).watermark(29)
    assert [(key, window, sorted(values)) for key, window, values in run.values] == [
        ("a", (0, 30), [1, 2, 4])
    ]
    run.take()
    assert run.watermark(MAX).values == [("b", (30, 40), [3])]


@pytest.mark.parametrize(
    "function", [PassThroughWindowFunction(), PassThroughAllWindowFunction()], ids=["key", "all"]
)
def test_functions_that_hand_records_on(function):
    run = Driver(WindowSpec(ByValue(), function=function))
    assert run.records(("a", 1, 5), ("a", 2, 6)).watermark(MAX).values == [1, 2, 1, 2]
