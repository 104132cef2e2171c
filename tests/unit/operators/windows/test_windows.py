"""Windows as values: equality, hashing, pickling, merging."""

from __future__ import annotations

import pickle

from penstock.operators.windows.assigners import EventTimeSessionWindows, own_merge
from penstock.operators.windows.windows import (
    CountWindow,
    GlobalWindow,
    MergeCallback,
    MergingWindowSet,
    TimeWindow,
    Window,
)

MAX = 2**63 - 1


def test_windows_are_values():
    assert TimeWindow(0, 10) == TimeWindow(0, 10)
    assert hash(TimeWindow(0, 10)) == hash(TimeWindow(0, 10))
    assert TimeWindow(0, 10) != TimeWindow(0, 11)
    assert TimeWindow(0, 10) < TimeWindow(0, 11) < TimeWindow(1, 2)
    assert CountWindow(3) == CountWindow(3) != CountWindow(4)
    assert isinstance(TimeWindow(0, 1), Window)
    assert repr(TimeWindow(0, 10)) == "TimeWindow(start=0, end=10)"


def test_last_instants():
    assert TimeWindow(0, 10).max_timestamp() == 9
    assert CountWindow(3).max_timestamp() == MAX
    assert GlobalWindow.get().max_timestamp() == MAX


def test_windows_survive_pickling_and_are_small():
    windows = [TimeWindow(10**12, 10**12 + 60_000), CountWindow(7)]
    assert pickle.loads(pickle.dumps(windows, 5)) == windows
    assert type(pickle.loads(pickle.dumps(windows[0], 5))) is TimeWindow
    assert len(pickle.dumps([TimeWindow(i, i + 1) for i in range(1000)], 5)) < 20_000
    assert pickle.loads(pickle.dumps(GlobalWindow(), 5)) is GlobalWindow.get()


def test_windows_that_touch_meet():
    assert TimeWindow(0, 10).intersects(TimeWindow(10, 20))
    assert TimeWindow(10, 20).intersects(TimeWindow(0, 10))
    assert not TimeWindow(0, 10).intersects(TimeWindow(11, 20))
    assert TimeWindow(0, 10).cover(TimeWindow(15, 20)) == TimeWindow(0, 20)


class Collect(MergeCallback):
    def __init__(self) -> None:
        self.merges = []

    def merge(self, to_be_merged, merge_result):
        self.merges.append((sorted(to_be_merged), merge_result))


def test_merge_windows_finds_chains():
    collect = Collect()
    windows = [(20, 25), (0, 5), (5, 9), (40, 50), (8, 12), (25, 26)]
    TimeWindow.merge_windows([TimeWindow(*window) for window in windows], collect)
    assert collect.merges == [
        ([(0, 5), (5, 9), (8, 12)], (0, 12)),
        ([(20, 25), (25, 26)], (20, 26)),
    ]


class Table:
    """The one value that a merging set keeps per key."""

    def __init__(self) -> None:
        self.values = {}
        self.writes = 0

    def get(self, key, ns):
        return self.values.get(key)

    def put(self, key, ns, value):
        self.writes += 1
        self.values[key] = value


class Custom(EventTimeSessionWindows):
    """Asks the callback, as an assigner of a program's own does."""

    def merge_windows(self, windows, callback):
        TimeWindow.merge_windows(windows, callback)


def merge_all(assigner, *windows):
    merges = []
    table = Table()
    merging = MergingWindowSet(own_merge(assigner), table)
    merging.load("k")
    results = [
        merging.add_window(TimeWindow(*w), lambda *call: merges.append(call)) for w in windows
    ]
    merging.persist()
    return results, merges, merging, table


def test_both_ways_of_merging_agree():
    windows = [(0, 5), (20, 25), (10, 12), (3, 8), (8, 10), (11, 22), (0, 25), (40, 41)]
    first = merge_all(EventTimeSessionWindows.with_gap(5), *windows)
    second = merge_all(Custom(5), *windows)
    assert first[:2] == second[:2]
    assert first[2].mapping == second[2].mapping


def test_a_window_that_grows_keeps_its_home():
    results, merges, merging, _ = merge_all(EventTimeSessionWindows.with_gap(5), (0, 5), (3, 8))
    assert results == [(0, 5), (0, 8)]
    assert merges == [((0, 8), [(0, 5)], (0, 5), [])]
    assert merging.state_window(TimeWindow(0, 8)) == (0, 5)


def test_a_bridge_keeps_the_earliest_home():
    _, merges, merging, _ = merge_all(
        EventTimeSessionWindows.with_gap(5), (10, 15), (0, 5), (5, 10)
    )
    assert merges == [((0, 15), [(0, 5), (10, 15)], (0, 5), [(10, 15)])]
    assert merging.mapping == {(0, 15): (0, 5)}


def test_a_window_that_is_there_already_keeps_its_home():
    """Flink forgets the contents of a grown window when a new one has exactly its bounds."""
    _, _, merging, _ = merge_all(EventTimeSessionWindows.with_gap(5), (0, 5), (3, 8), (0, 8))
    assert merging.mapping == {(0, 8): (0, 5)}


def test_the_mapping_is_written_only_when_it_changed():
    _, _, merging, table = merge_all(EventTimeSessionWindows.with_gap(5), (0, 5))
    assert table.writes == 1
    merging.load("k")
    merging.add_window(TimeWindow(1, 3), lambda *call: None)
    merging.persist()
    assert table.writes == 1
    merging.retire(TimeWindow(0, 5))
    merging.persist()
    assert table.values == {"k": None}
