"""Merging of deltas: sizes by hand, contents against applying one after the other."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from penstock.core.handles import FileHandle
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.delta_chain import merge, run_to_merge

if TYPE_CHECKING:
    from pathlib import Path


class CountingArea(FileArea):
    """Knows which files were read."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 0)
        self.names: list[str] = []

    def read(self, handle: FileHandle) -> bytes:
        self.names.append(handle.name)
        return super().read(handle)


def make(name: str, area: FileArea, **settings: Any) -> Any:
    return create_backend(name, **settings).create_state(0, 127, 128, area, EpochClock(), "op")


def handles(*sizes: int) -> list[FileHandle]:
    return [FileHandle(str(size), size, "") for size in sizes]


def test_runs_of_like_size_are_merged() -> None:
    assert run_to_merge(handles(5, 5, 5, 5), 1_000) == (0, 4)
    assert run_to_merge(handles(100, 5, 5, 5), 1_000) == (1, 4)
    assert run_to_merge(handles(30, 5, 5, 5), 1_000) == (0, 4)
    assert run_to_merge(handles(1000, 100, 10, 1), 1_000) == (2, 4)


def test_a_run_is_no_longer_than_what_a_commit_may_merge() -> None:
    assert run_to_merge(handles(5, 5, 5, 5), 15) == (0, 3)
    # The oldest that has a neighbour it fits beside.
    assert run_to_merge(handles(9, 9, 5, 5, 5), 12) == (2, 4)
    # None fits: the smallest two neighbours.
    assert run_to_merge(handles(9, 7, 5, 6, 8), 10) == (2, 4)


def test_deltas_stay_few_and_are_rewritten_few_times(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    state = make("hashmap", area, max_deltas=8)
    for key in range(200_000):
        state.value_table("v").put(key, None, key)
    state.commit("base")
    state._needs_base = True
    version = state.commit("base again")
    written = changed = 0
    seen = set(version.files)
    for number in range(300):
        state.value_table("v").put(number, None, str(number))
        version = state.commit(f"v{number}")
        assert len(version.deltas) <= 8
        written += sum(handle.size_bytes for handle in set(version.files) - seen)
        seen |= set(version.files)
        changed += 130
    assert version.base_id == "base again", "a base of a megabyte is not rewritten for 300 keys"
    assert written < 12 * changed
    fresh = make("hashmap", area)
    fresh.restore((version,))
    assert [fresh.value_table("v").get(key) for key in (0, 299, 300)] == ["0", "299", 300]


def test_what_a_commit_merges_is_bounded(tmp_path: Path) -> None:
    """However much has changed since the base: the epoch waits for it."""
    area = FileArea(tmp_path, 0)
    full = {"full_bytes": 2_000, "full_share": 0.0, "min_bytes": 1 << 20}
    state = make("hashmap", area, max_deltas=4, **full)
    for key in range(5_000):
        state.value_table("v").put(key, None, 0)
    state._needs_base = True
    version = state.commit("base")
    merged = 0
    for number in range(200):
        for key in range(20 * number, 20 * number + 20):
            state.value_table("v").put(key, None, 1_000_000 + key)
        before, version = version, state.commit(f"v{number}")
        newest = version.deltas[-1]
        if len(version.deltas) <= len(before.deltas):
            merged += 1
            assert newest.size_bytes < 2 * 2_000
        kept = version.deltas[:-1]
        assert kept == before.deltas[: len(kept)], "older deltas stay as they are"
    assert merged > 40
    assert sum(delta.size_bytes >= 2_000 for delta in version.deltas) > 5
    fresh = make("hashmap", area)
    fresh.restore((version,))
    assert [fresh.value_table("v").get(key) for key in (0, 3_999, 4_000)] == [
        1_000_000,
        1_003_999,
        0,
    ]


def test_many_deltas_of_some_size_are_merged_over_several_commits(tmp_path: Path) -> None:
    """All of them in one commit would be a pause of seconds for states of small entries."""
    area = CountingArea(tmp_path)
    limits = {"full_bytes": 20_000, "merged_bytes": 20_000, "min_bytes": 1 << 30}
    state = make("hashmap", area, max_deltas=16, **limits)
    versions = []
    for number in range(100):
        for key in range(300):
            state.value_table("v").put((number * 7 + key) % 2_000, None, number)
        area.names.clear()
        versions.append(state.commit(f"v{number}"))
        read = {delta.name: delta.size_bytes for each in versions[-2:] for delta in each.deltas}
        assert sum(read[name] for name in area.names) <= 20_000
        assert sum(delta.size_bytes < 20_000 for delta in versions[-1].deltas) <= 16
    assert len(versions[-1].deltas) < 50
    for version in (versions[40], versions[-1]):
        fresh = make("hashmap", area)
        fresh.restore((version,))
        last = int(version.version_id.removeprefix("v"))
        expected = {
            (number * 7 + key) % 2_000: number for number in range(last + 1) for key in range(300)
        }
        assert {key: fresh.value_table("v").get(key) for key in expected} == expected


def test_a_worker_inside_a_merged_stretch_still_catches_up(tmp_path: Path) -> None:
    area = CountingArea(tmp_path)
    state = make("hashmap", area, max_deltas=4)
    for key in range(5000):
        state.value_table("v").put(key, None, key)
    state._needs_base = True
    state.commit("base")
    workers = []
    lists, maps, timers = state.list_table("l"), state.map_table("m"), state.event_timers
    for number in range(5):
        lists.extend("grows", None, [number])
        lists.replace("changes", None, [number] * (number + 1))
        if number == 3:
            lists.remove("changes")
        maps.put("k", None, number, number)
        maps.remove("k", None, number - 2)
        timers.add(number, "k", None)
        timers.remove(number - 1, "k", None)
        version = state.commit(f"v{number}")
        worker = make("hashmap", area)
        worker.restore((version,))
        workers.append(worker)
    assert [handle.name for handle in version.deltas] == ["v3.merged", "v4.delta"]
    for number in range(5, 9):
        lists.extend("grows", None, [number])
        version = state.commit(f"v{number}")
    assert [handle.name for handle in version.deltas] == ["v6.merged", "v7.delta", "v8.delta"]
    expected = list(state.entries())
    for worker in workers:
        area.names.clear()
        worker.restore((version,))
        assert not any(read.endswith(".base") for read in area.names)
        assert sorted(worker.entries(), key=repr) == sorted(expected, key=repr)


changes = st.lists(
    st.tuples(
        st.sampled_from(["put", "del", "append", "replace", "drop", "set", "unset", "clear"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(before=changes, epochs=st.lists(changes, min_size=2, max_size=5), data=st.data())
@pytest.mark.parametrize("name", ["hashmap"])
def test_merged_columns_do_what_they_were_merged_from(
    name: str, before: Any, epochs: Any, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    area = FileArea(tmp_path_factory.getbasetemp() / "merge")
    state = make(name, area)

    def work(steps: Any) -> Any:
        for what, key, number in steps:
            if what == "put":
                state.value_table("v").put(key, "w", number)
            elif what == "del":
                state.value_table("v").remove(key, "w")
            elif what == "append":
                state.list_table("l").append(key, None, number)
            elif what == "replace":
                state.list_table("l").replace(key, None, [number] * number)
            elif what == "drop":
                state.list_table("l").remove(key)
            elif what == "set":
                state.map_table("m").put(key, None, number, number)
            elif what == "unset":
                state.map_table("m").remove(key, None, number)
            else:
                state.map_table("m").clear(key)
            if number:
                state.event_timers.add(number, key, "w")
            else:
                state.event_timers.remove(1, key, "w")
        return pickle.loads(pickle.dumps(state._collect()))

    start = work(before)
    payloads = [work(steps) for steps in epochs]
    merged = merge(pickle.loads(pickle.dumps(payloads)), [str(n) for n in range(len(payloads))], 64)
    held = data.draw(st.integers(0, len(payloads)))
    follower = make(name, area)
    for payload in [start, *payloads[:held]]:
        follower._apply(payload, 0)
    follower._apply(merged, 0)
    assert sorted(follower.entries(), key=repr) == sorted(state.entries(), key=repr)


@pytest.mark.parametrize("name", ["hashmap", "rocksdb"])
def test_a_list_that_was_cleared_and_grew_again_stays_without_its_past(
    name: str, tmp_path: Path
) -> None:
    if name == "rocksdb":
        pytest.importorskip("rocksdict")
    area = FileArea(tmp_path)
    other = make("hashmap", area)
    other.list_table("l").extend("k", None, ["old", "older"])
    state = make(name, area, max_deltas=2)
    state.restore((replace(other.commit("other"), last_key_group=128),))
    # What comes of other key groups is written as a base.
    assert state.commit("base").base
    state.list_table("l").remove("k")
    state.commit("removed")
    state.list_table("l").append("k", None, "new")
    version = state.commit("grown")
    assert [handle.name for handle in version.deltas] == ["grown.merged"]
    fresh = make(name, area)
    fresh.restore((version,))
    assert fresh.list_table("l").get("k") == ["new"]
