"""Versions: what a commit writes, what a restore reads, and what happens to damage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.clock import EpochClock
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.file_area import FileArea
from penstock.core.handles import FileHandle
from penstock.core.keygroups import key_group
from penstock.state import codec, rocks_base
from penstock.state.backend import create_backend
from penstock.state.delta_merge import first_to_merge, merge
from penstock.state.descriptors import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.state.reader import read_entries
from penstock.state.versions import Payload, TableColumns, decode_payload

if TYPE_CHECKING:
    from pathlib import Path

BACKENDS = ["hashmap", "rocksdb"]
FOLD_ROWS = {"max_deltas": 0, "merge_bytes": -1}
"""Every commit of a rocksdb state writes a base."""


class CountingArea(FileArea):
    """Knows which files were read."""

    def __init__(self, directory: Path, threshold: int = 0) -> None:
        super().__init__(directory, threshold)
        self.names: list[str] = []

    def read(self, handle: FileHandle) -> bytes:
        self.names.append(handle.name)
        return super().read(handle)


def make(name: str, area: FileArea, groups: tuple[int, int] = (0, 127), **settings: Any) -> Any:
    backend = create_backend(name, **settings)
    return backend.create_state(*groups, 128, area, EpochClock(), "op")


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_commit_writes_what_changed_and_nothing_else(name: str, tmp_path: Path) -> None:
    state = make(name, FileArea(tmp_path, 0))
    values, lists = state.value_table("v"), state.list_table("l")
    for key in range(10_000):
        values.put(key, None, key)
    lists.extend("long", None, list(range(10_000)))
    first = state.commit("v1")
    values.put(7, None, 0)
    lists.append("long", None, "one more")
    second = state.commit("v2")
    assert second.deltas[:-1] == first.deltas
    assert second.deltas[-1].size_bytes < 300
    assert second.delta_ids == ("v1", "v2")


def test_nothing_changed_writes_nothing(name: str, tmp_path: Path) -> None:
    state = make(name, FileArea(tmp_path, 0))
    assert state.commit("v0").files == ()
    state.value_table("v").put(1, None, 1)
    version = state.commit("v1")
    files = sorted(tmp_path.iterdir())
    state.value_table("v").get(1)
    state.value_table("v").remove(2)
    state.list_table("l").extend(1, None, [])
    state.map_table("m").clear(1)
    assert state.commit("v2") == version
    assert sorted(tmp_path.iterdir()) == files


def test_a_held_version_costs_nothing_and_an_ancestor_its_missing_deltas(
    name: str, tmp_path: Path
) -> None:
    area = CountingArea(tmp_path)
    writer, other = make(name, area), make(name, area)
    versions = []
    for number in range(5):
        writer.value_table("v").put(number, None, number)
        versions.append(writer.commit(f"v{number}"))
    other.restore((versions[1],))
    area.names.clear()
    other.restore((versions[1],))
    assert area.names == []
    other.restore((versions[4],))
    assert area.names == ["v2.delta", "v3.delta", "v4.delta"]
    assert [other.value_table("v").get(number) for number in range(6)] == [0, 1, 2, 3, 4, None]
    # A held version that is no ancestor is no help.
    area.names.clear()
    other.restore((versions[0],))
    assert area.names == ["v0.delta"]
    assert other.value_table("v").get(1) is None


def test_uncommitted_changes_are_thrown_away(name: str, tmp_path: Path) -> None:
    state = make(name, FileArea(tmp_path))
    values = state.value_table("v")
    values.put(1, None, "old")
    version = state.commit("v1")
    values.put(1, None, "new")
    values.put(2, None, "new")
    state.event_timers.add(1, 1, None)
    state.restore((version,))
    assert (values.get(1), values.get(2), len(state.event_timers)) == ("old", None, 0)
    assert not state.is_dirty
    state.restore(())
    assert values.get(1) is None


def test_two_attempts_at_one_epoch_never_meet(name: str, tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    base = make(name, area)
    base.value_table("v").put(0, None, "base")
    start = base.commit("v1")
    attempts = []
    for value in ("zombie", "winner"):
        state = make(name, area)
        state.restore((start,))
        state.value_table("v").put(1, None, value)
        attempts.append(state.commit("v2-same-name-by-mistake"))
    for version, value in zip(attempts, ("zombie", "winner"), strict=True):
        state = make(name, area)
        state.restore((version,))
        assert state.value_table("v").get(1) == value


def test_after_a_failure_only_a_restore_helps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = FileArea(tmp_path, 0)
    state = make(name, area)
    state.value_table("v").put(1, None, 1)
    version = state.commit("v1")
    state.value_table("v").put(2, None, 2)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(area, "write", fail)
    with pytest.raises(OSError, match="No space"):
        state.commit("v2")
    monkeypatch.undo()
    with pytest.raises(StateError, match="half-way"):
        state.commit("v3")
    state.restore((version,))
    assert state.value_table("v").get(2) is None
    state.value_table("v").put(2, None, 2)
    state.commit("v4")


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
@pytest.mark.parametrize("is_folded", [False, True])
def test_damage_is_found_before_use(
    name: str, is_folded: bool, damage: str, tmp_path: Path
) -> None:
    area = FileArea(tmp_path, 0)
    fold = FOLD_ROWS if name == "rocksdb" else {"min_bytes": 0, "base_share": 0}
    state = make(name, area, **(fold if is_folded else {}))
    for key in range(1000):
        state.value_table("v").put(key, None, str(key))
    version = state.commit("v1")
    for victim in version.files:
        path = area.path(victim)
        content = path.read_bytes()
        path.unlink()
        if damage == "flip":
            middle = len(content) // 2
            changed = bytes([content[middle] ^ 1])
            path.write_bytes(content[:middle] + changed + content[middle + 1 :])
        elif damage == "cut":
            path.write_bytes(content[:-1])
        fresh = make(name, area)
        with pytest.raises(StateError) as error:
            fresh.restore((version,))
            fresh.value_table("v").get(1)
        assert victim.name in str(error.value)
        path.write_bytes(content)
    fresh = make(name, area)
    fresh.restore((version,))
    assert fresh.value_table("v").get(1) == "1"


def test_files_are_never_changed_after_their_commit(name: str, tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    small = {"merge_bytes": 1000} if name == "rocksdb" else {}
    state = make(name, area, max_deltas=2, min_bytes=0, **small)
    versions = []
    for number in range(12):
        for key in range(number, number + 200):
            state.value_table("v").put(key, None, number)
            state.map_table("m").put("k", None, key, number)
        versions.append(state.commit(f"v{number}"))
    for number, version in enumerate(versions):
        for handle in version.files:
            area.verify(handle)
        fresh = make(name, area)
        fresh.restore((version,))
        assert fresh.value_table("v").get(number + 199) == number
        assert fresh.value_table("v").get(number + 200) is None
        assert len(list(fresh.map_table("m").items("k"))) == number + 200


def test_sst_files_keep_their_handles_over_folds(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    state = make("rocksdb", area, **FOLD_ROWS)
    for key in range(5000):
        state.value_table("v").put(key, None, str(key) * 20)
    first = state.commit("v1")
    state.value_table("v").put(1, None, "changed")
    second = state.commit("v2")
    large = max(first.base, key=lambda handle: handle.size_bytes)
    assert large in second.base
    new = [handle for handle in second.base if handle not in first.base]
    assert sum(handle.size_bytes for handle in new) < large.size_bytes / 10


def test_private_directories_go_with_the_state(tmp_path: Path) -> None:
    state = make("rocksdb", FileArea(tmp_path, 0), **FOLD_ROWS)
    state.value_table("v").put(1, None, 1)
    version = state.commit("v1")
    assert [path for path in tmp_path.iterdir() if path.is_dir()]
    state.close()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert all((tmp_path / handle.name).exists() for handle in version.files)


# -- folding and merging


def handles(*sizes: int) -> list[FileHandle]:
    return [FileHandle(str(size), size, "") for size in sizes]


def test_runs_of_like_size_are_merged() -> None:
    assert first_to_merge(handles(5, 5, 5, 5)) == 0
    assert first_to_merge(handles(100, 5, 5, 5)) == 1
    assert first_to_merge(handles(30, 5, 5, 5)) == 0
    assert first_to_merge(handles(1000, 100, 10, 1)) == 2


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
    merged = merge(pickle.loads(pickle.dumps(payloads)), [str(n) for n in range(len(payloads))])
    held = data.draw(st.integers(0, len(payloads)))
    follower = make(name, area)
    for payload in [start, *payloads[:held]]:
        follower._apply(payload, 0)
    follower._apply(merged, 0)
    assert sorted(follower.entries(), key=repr) == sorted(state.entries(), key=repr)


# -- other ranges, other backends


@pytest.mark.parametrize("target", BACKENDS)
def test_another_backend_and_another_range(name: str, target: str, tmp_path: Path) -> None:
    area = FileArea(tmp_path)
    state = make(name, area)
    rules = StateTtlConfig.new_builder(10).build()
    descriptor = ListStateDescriptor("expiring")
    descriptor.enable_time_to_live(rules)
    expiring = state.get_state(descriptor)
    for key in range(50):
        state.key = key
        state.value_table("v").put(key, ("w", key), str(key))
        state.map_table("m").put(key, None, None, key)
        expiring.add(key)
        state.event_timers.add(key, key, "w")
    version = state.commit("v1")
    for groups in ((0, 127), (0, 42), (43, 127)):
        part = make(target, area, groups)
        part.restore((version,))
        kept = [key for key in range(50) if groups[0] <= key_group(key, 128) <= groups[1]]
        after = part.commit(f"part-{groups[0]}-{groups[1]}")
        assert after.base or (name == target and groups == (0, 127))
        rows = list(read_entries(after, area))
        assert sorted(row[2:] for row in rows if row[0] == "v") == [
            (key, ("w", key), str(key)) for key in kept
        ]
        assert sorted(row[2:] for row in rows if row[0] == "m") == [
            (key, None, (None, key)) for key in kept
        ]
        assert sorted(row[2:] for row in rows if row[0] == "expiring") == [
            (key, None, [key]) for key in kept
        ]
        assert sorted(row[2:] for row in rows if row[1] == "event_timer") == [
            (key, "w", key) for key in kept
        ]
        assert len(part.event_timers) == len(kept)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    data = pickle.dumps((99, [], [], [], ()))
    with pytest.raises(StateError, match=r"'a\.delta' has format 99"):
        decode_payload(data, "a.delta")
    assert decode_payload(Payload([TableColumns("v", "value", False, [])]).encode("op"), "x").tables


# -- settings and libraries


def test_backends_and_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError, match=r"'heap'.*'hashmap' or 'rocksdb'"):
        create_backend("heap")
    with pytest.raises(ConfigurationError, match=r"memory_bytes: no setting of the 'hashmap'"):
        create_backend("hashmap", memory_bytes=1)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks_base, "rocksdict", None)
    with pytest.raises(ConfigurationError, match=r"penstock\[rocksdb\]"):
        create_backend("rocksdb")


def test_what_cannot_be_pickled_is_named(name: str, tmp_path: Path) -> None:
    state = make(name, FileArea(tmp_path))
    state.key = 1
    state.get_state(ValueStateDescriptor("v")).update(lambda: None)
    with pytest.raises(StateError, match=r"'op'.*cannot be pickled"):
        state.commit("v1")


def test_a_registered_pickler_takes_what_pickle_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_fallbacks", [])
    codec.register_by_value_pickler(lambda value: pickle.dumps(repr(type(value))))
    assert "function" in codec.loads(codec.dumps(lambda: None, "state"))
