"""Timer tables of both backends against sets; the conformance suite has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.clock import EpochClock
from penstock.core.file_area import FileArea
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.state.backend import create_backend
from penstock.state.timers import TimerTable

if TYPE_CHECKING:
    from pathlib import Path


def test_twice_is_once_and_times_come_in_order() -> None:
    table = TimerTable()
    for time, key, ns in (
        (5, "b", None),
        (5, "a", None),
        (5, "a", None),
        (3, "a", "w"),
        (9, "a", 1),
    ):
        table.add(time, key, ns)
    assert len(table) == 4
    assert table.next_time() == 3
    assert table.due(3) == [("a", "w")]
    assert sorted(table.due(5)) == [("a", None), ("b", None)]
    assert table.due(4) == []
    assert table.remove(3, "a", "w")
    assert not table.remove(3, "a", "w")
    assert not table.remove(3, "a", None)
    assert table.next_time() == 5
    table.remove(5, "a", None)
    table.remove(5, "b", None)
    assert table.next_time() == 9
    table.add(5, "c", None)
    assert table.next_time() == 5
    table.remove(5, "c", None)
    table.remove(9, "a", 1)
    assert table.next_time() is None
    assert len(table) == 0


def test_what_came_and_went_leaves_no_trace() -> None:
    table = TimerTable()
    table.add(1, "stays", None)
    table.collect()
    table.add(2, "short", None)
    table.remove(2, "short", None)
    table.remove(1, "stays", None)
    table.add(1, "stays", None)
    assert not table.is_dirty
    assert table.collect() == []
    table.remove(1, "stays", None)
    table.add(3, "new", "w")
    assert sorted(table.collect()) == [(1, None, [], ["stays"]), (3, "w", ["new"], [])]


def timers_of(tmp_path: Path, **settings: Any) -> Any:
    pytest.importorskip("rocksdict")
    backend = create_backend("rocksdb", max_deltas=1, merge_bytes=-1, **settings)
    return backend.create_state(0, 127, 128, FileArea(tmp_path), EpochClock(), "op")


def test_far_timers_leave_memory_and_come_back_in_order(tmp_path: Path) -> None:
    state = timers_of(tmp_path, timers_in_memory=10)
    table = state.event_timers
    expected = {(time * 7 % 1000, f"k{time % 13}", None) for time in range(1000)}
    for timer in expected:
        table.add(*timer)
    state.commit("v1")
    table.add(2000, "late", None)
    version = state.commit("v2")
    assert version.base
    in_memory = sum(len(keys) for spaces in table._buckets.values() for keys in spaces.values())
    assert in_memory <= 10
    expected.add((2000, "late", None))
    assert len(table) == len(expected)
    fired = []
    while (time := table.next_time()) is not None:
        for key, ns in table.due(time):
            assert table.remove(time, key, ns)
            fired.append((time, key, ns))
    assert [time for time, _, _ in fired] == sorted(time for time, _, _ in expected)
    assert set(fired) == expected
    assert len(table) == 0


def test_far_timers_can_be_removed_and_added_again(tmp_path: Path) -> None:
    state = timers_of(tmp_path, timers_in_memory=2)
    table = state.event_timers
    for time in range(20):
        table.add(time, "k", "w")
    state.commit("v1")
    table.add(50, "k", "w")
    version = state.commit("v2")
    assert version.base
    assert table.remove(15, "k", "w")
    assert not table.remove(15, "k", "w")
    table.add(16, "k", "w")
    assert len(table) == 20
    table.add(15, "k", "w")
    assert len(table) == 21
    table.remove(17, "k", "w")
    state.commit("v3")
    fresh = timers_of(tmp_path, timers_in_memory=2)
    fresh.restore((state.commit("v4"),))
    times = []
    while (time := fresh.event_timers.next_time()) is not None:
        assert fresh.event_timers.due(time) == [("k", "w")]
        fresh.event_timers.remove(time, "k", "w")
        times.append(time)
    assert times == [*range(17), 18, 19, 50]


@pytest.mark.parametrize("time", [MIN_TIMESTAMP, -1, 0, MAX_TIMESTAMP])
def test_times_of_the_whole_range_are_ordered_in_rows(tmp_path: Path, time: int) -> None:
    state = timers_of(tmp_path, timers_in_memory=1)
    for other in (MIN_TIMESTAMP, MIN_TIMESTAMP + 1, -1, 0, 1, MAX_TIMESTAMP - 1, MAX_TIMESTAMP):
        state.event_timers.add(other, "k", None)
        state.processing_timers.add(other, "k", None)
    state.event_timers.remove(time, "k", None)
    state.commit("v1")
    state.value_table("v").put("k", None, 1)
    state.commit("v2")
    found = []
    while (next_time := state.event_timers.next_time()) is not None:
        state.event_timers.remove(next_time, "k", None)
        found.append(next_time)
    assert found == sorted(found)
    assert len(found) == 6
    assert time not in found
    assert len(state.processing_timers) == 7
