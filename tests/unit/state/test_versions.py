"""Versions: what a commit writes, what a restore reads, and what happens to damage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core import codec
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.keygroups import key_group
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.state.backend import create_backend, read_entries
from penstock.state.descriptors import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.state.payload import Payload, TableColumns, decode_payload
from penstock.state.plain_serializer import pickle_bytes
from penstock.state.rocksdb import base as rocks_base

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.handles import FileHandle

BACKENDS = ["hashmap", "rocksdb"]
FOLD_ROWS = {"max_deltas": 0, "merge_bytes": -1, "fold_slice_ms": 60_000}
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
    assert (values.get(1), values.get(2), len(list(state.event_timers.all()))) == ("old", None, 0)
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
    hot = make(name, area)
    for version, value in zip(attempts * 2, ("zombie", "winner") * 2, strict=True):
        hot.restore((version,))
        assert hot.value_table("v").get(1) == value
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
    total = sum(handle.size_bytes for handle in first.base)
    assert sum(handle.size_bytes for handle in new) < total / 10


def test_a_fold_is_spread_over_commits(tmp_path: Path) -> None:
    """Each commit does its share; until the last one versions have the old base and all deltas."""
    area = FileArea(tmp_path, 0)
    state = make("rocksdb", area, replay_bytes=200_000, fold_slice_ms=0, fold_pace=4)
    model: dict[int, str] = {}
    bases: list[str] = []
    for number in range(80):
        # One large commit, whose rows are folded while small ones follow.
        for key in range(5000 if number == 1 else 1):
            model[key + number] = f"{number} {key}" * 10
            state.value_table("v").put(key + number, None, model[key + number])
            state.list_table("l").append("k", None, number)
        version = state.commit(f"v{number}")
        bases.append(version.base_id)
        if number % 7 == 0:
            fresh = make("rocksdb", area)
            fresh.restore((version,))
            entries = fresh.entries()
            assert {key: value for name, _, key, _, value in entries if name == "v"} == model
            assert fresh.list_table("l").get("k") == state.list_table("l").get("k")
            fresh.close()
    first = next(number for number, base in enumerate(bases) if base)
    assert 10 < first < 80, "neither at once nor never"
    assert bases[first] == "v2", "the base is what was there when the fold began"
    state.close()


def test_a_fold_that_falls_behind_ends_at_once(tmp_path: Path) -> None:
    state = make("rocksdb", FileArea(tmp_path, 0), replay_bytes=1000, fold_slice_ms=0, fold_pace=0)
    sizes = []
    for number in range(50):
        for key in range(20):
            state.value_table("v").put(key, None, f"{number} {key}")
        deltas = state.commit(f"v{number}").deltas
        sizes.append(sum(handle.size_bytes for handle in deltas))
    assert max(sizes) < 5000
    state.close()


def test_private_directories_go_with_the_state(tmp_path: Path) -> None:
    state = make("rocksdb", FileArea(tmp_path, 0), **FOLD_ROWS)
    state.value_table("v").put(1, None, 1)
    version = state.commit("v1")
    assert [path for path in tmp_path.iterdir() if path.is_dir()]
    state.close()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert all((tmp_path / handle.name).exists() for handle in version.files)


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
        assert len(list(part.event_timers.all())) == len(kept)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    data = Payload([TableColumns("v", "value", False, [])]).encode("op")
    assert decode_payload(data, "x").tables
    with pytest.raises(StateError, match=r"'a\.delta' has format 9, this release reads up to 1"):
        decode_payload(data.replace(b"PS1", b"PS9"), "a.delta")
    for other in (b"", pickle.dumps((1, [], [], [], ())), data[5:]):
        with pytest.raises(StateError, match=r"'a\.delta' is malformed"):
            decode_payload(other, "a.delta")


# -- settings and libraries


def test_backends_and_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError, match=r"'heap'.*'hashmap' or 'rocksdb'"):
        create_backend("heap")
    with pytest.raises(ConfigurationError, match=r"memory_bytes: no setting of the 'hashmap'"):
        create_backend("hashmap", memory_bytes=1)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks_base, "rocksdict", None)
    with pytest.raises(ConfigurationError, match=r"needs the package rocksdict"):
        create_backend("rocksdb")


def test_what_cannot_be_pickled_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_by_value", [])
    state = make(name, FileArea(tmp_path))
    state.key = 1
    state.get_state(ValueStateDescriptor("v")).update(lambda: None)
    with pytest.raises(StateError, match=r"'op'.*cannot be pickled"):
        state.commit("v1")


def test_a_registered_pickler_takes_what_pickle_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_by_value", [])
    codec.register_by_value_pickler(lambda value: pickle.dumps(repr(type(value))))
    assert "function" in pickle.loads(pickle_bytes(lambda: None, "state"))
