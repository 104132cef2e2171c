"""Timer tables of both backends against sets; the conformance suite has the rest."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.keygroups import key_group
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP, EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend, read_entries
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
    assert len(list(table.all())) == 4
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
    assert len(list(table.all())) == 0


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
    backend = create_backend(
        "rocksdb", max_deltas=1, merge_bytes=-1, fold_slice_ms=60_000, **settings
    )
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
    assert len(list(table.all())) == len(expected)
    fired = []
    while (time := table.next_time()) is not None:
        for key, ns in table.due(time):
            assert table.remove(time, key, ns)
            fired.append((time, key, ns))
    assert [time for time, _, _ in fired] == sorted(time for time, _, _ in expected)
    assert set(fired) == expected
    assert len(list(table.all())) == 0


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
    assert len(list(table.all())) == 20
    table.add(15, "k", "w")
    assert len(list(table.all())) == 21
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


class Lives:
    """A state over a base whose deltas are merged, and the timers that it ought to have."""

    def __init__(self, tmp_path: Path, timers: set[tuple[int, str]]) -> None:
        pytest.importorskip("rocksdict")
        self.area = FileArea(tmp_path)
        halves = [self.state(0, 63), self.state(64, 127)]
        self.expected = set(timers)
        for time, key in timers:
            halves[key_group(key, 128) // 64].event_timers.add(time, key, None)
        self.running = self.state()
        self.running.restore([half.commit(f"half {n}") for n, half in enumerate(halves)])
        # What comes of other key groups is written as a base.
        self.version = self.running.commit("base")
        assert self.version.base
        self.workers: list[Any] = []

    def state(self, first: int = 0, last: int = 127, **settings: Any) -> Any:
        backend = create_backend("rocksdb", **{"max_deltas": 2, **settings})
        return backend.create_state(first, last, 128, self.area, EpochClock(), "op")

    def epoch(self, added: set[tuple[int, str]], removed: set[tuple[int, str]]) -> None:
        table = self.running.event_timers
        for time, key in removed:
            assert table.remove(time, key, None)
        for time, key in added:
            table.add(time, key, None)
        self.expected = self.expected - removed | added
        self.version = self.running.commit(f"v{len(self.workers)}")
        worker = self.state()
        worker.restore((self.version,))
        self.workers.append(worker)

    def folded(self) -> None:
        """A fresh worker whose limits are low takes the version over and folds its deltas."""
        worker = self.state(max_deltas=1, merge_bytes=-1, fold_slice_ms=60_000)
        worker.restore((self.version,))
        worker.event_timers.add(99, "one more", None)
        self.expected.add((99, "one more"))
        self.version = worker.commit("folded")
        assert self.version.base
        assert not self.version.deltas

    def check(self) -> None:
        """Any worker, however far behind, has exactly the timers, and so has a reader."""
        stored = [(row[4], row[2]) for row in read_entries(self.version, self.area)]
        assert sorted(stored) == sorted(self.expected)
        for worker in (*self.workers, self.state()):
            worker.restore((self.version,))
            table = worker.event_timers
            assert len(list(table.all())) == len(self.expected)
            fired = set()
            while (time := table.next_time()) is not None:
                for key, ns in table.due(time):
                    assert table.remove(time, key, ns)
                    fired.add((time, key))
            assert fired == self.expected
            assert len(list(table.all())) == 0


def test_a_timer_that_came_and_went_within_merged_deltas_is_not_counted(tmp_path: Path) -> None:
    lives = Lives(tmp_path, set())
    lives.epoch({(5, "a"), (6, "b")}, set())
    lives.epoch(set(), {(5, "a"), (6, "b")})
    assert [file.name for file in lives.version.deltas] == ["v1.merged"]
    lives.folded()
    lives.check()


def test_a_base_keeps_a_timer_beside_one_that_came_and_went_within_merged_deltas(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path, {(9, "stays")})
    lives.epoch({(5, "a")}, set())
    lives.epoch(set(), {(5, "a")})
    assert [file.name for file in lives.version.deltas] == ["v1.merged"]
    lives.folded()
    lives.check()


def test_a_timer_deleted_and_registered_again_within_merged_deltas_stays(tmp_path: Path) -> None:
    lives = Lives(tmp_path, {(9, "back"), (9, "stays"), (9, "goes")})
    lives.epoch(set(), {(9, "back"), (9, "goes")})
    lives.epoch({(9, "back")}, set())
    assert [file.name for file in lives.version.deltas] == ["v1.merged"]
    lives.check()
    lives.folded()
    lives.check()


@pytest.mark.parametrize("seed", range(8))
def test_any_worker_catches_up_with_merged_timers(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    every = [(time, key) for time in range(4) for key in "abc"]
    lives = Lives(tmp_path, set(rng.sample(every, 5)))
    for _ in range(9):
        removed = {timer for timer in lives.expected if rng.random() < 0.4}
        lives.epoch({timer for timer in every if rng.random() < 0.2}, removed)
    assert any(file.name.endswith(".merged") for file in lives.version.deltas)
    lives.check()
    lives.folded()
    lives.check()


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
    assert len(list(state.processing_timers.all())) == 7


def test_a_fold_that_takes_epochs_loses_no_file_to_those_who_clean_up(tmp_path: Path) -> None:
    """What no version names yet is taken for what a failed task left, and deleted."""
    pytest.importorskip("rocksdict")
    backend = create_backend(
        "rocksdb",
        max_deltas=1,
        merge_bytes=-1,
        fold_slice_ms=0,
        fold_pace=2000,
        memory_bytes=1 << 30,
    )
    area = FileArea(tmp_path, 0)
    state = backend.create_state(0, 127, 128, area, EpochClock(), "op")
    expected = set()
    waits = 0
    for epoch in range(120):
        for number in range(1 if epoch else 20_000):
            state.event_timers.add(epoch, number, None)
            expected.add((epoch, number))
        version = state.commit(f"v{epoch}")
        waits += not version.base
        named = {file.name for file in version.files}
        for path in tmp_path.iterdir():
            if path.is_file() and path.name not in named:
                path.unlink()
    assert version.base
    assert waits > 5, "the fold was to take several epochs"
    fresh = backend.create_state(0, 127, 128, FileArea(tmp_path), EpochClock(), "op")
    fresh.restore((version,))
    assert {(time, key) for time, key, _ in fresh.event_timers.all()} == expected
