"""The registry of shared files: a table by hand, and rebuilding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from checkpoint_samples import keyed, manifest, operator, shared
from hypothesis import given, settings, strategies as st

from penstock.checkpoint.deletion import SharedRegistry
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import SubtaskRecord

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest


def checkpoint(number: int, files: dict[str, int]) -> Manifest:
    """A checkpoint that names files, each with the checkpoint that uploaded it."""
    handles = [shared(name, name.encode() * 9, created) for name, created in files.items()]
    return manifest(number, operator("count", SubtaskRecord(keyed=keyed(*handles))))


def used(registry: SharedRegistry, names: dict[str, str]) -> dict[str, int]:
    return {names[path]: file.last_used for path, file in registry.files.items()}


CP1 = checkpoint(1, {"s1": 1, "s2": 1})
CP2 = checkpoint(2, {"s1": 1, "s2": 1, "s3": 2, "s4": 2})
CP3 = checkpoint(3, {"s123": 3, "s4": 2, "s5": 3})
CP4 = checkpoint(4, {"s123": 3, "s456": 4})
NAMES = {
    path: handle.name for one in (CP1, CP2, CP3, CP4) for path, handle in one.shared_files.items()
}


def test_the_table_to_the_letter() -> None:
    registry = SharedRegistry().registered(CP1)
    assert used(registry, NAMES) == {"s1": 1, "s2": 1}
    registry = registry.registered(CP2)
    assert used(registry, NAMES) == {"s1": 2, "s2": 2, "s3": 2, "s4": 2}
    registry = registry.registered(CP3)
    # CP1 leaves, L = 2: nothing is deleted.
    registry, deleted = registry.unregistered_below(2)
    assert deleted == ()
    assert used(registry, NAMES) == {"s1": 2, "s2": 2, "s3": 2, "s4": 3, "s5": 3, "s123": 3}
    registry = registry.registered(CP4)
    # CP2 leaves, L = 3.
    registry, deleted = registry.unregistered_below(3)
    assert {NAMES[each] for each in deleted} == {"s1", "s2", "s3"}
    assert used(registry, NAMES) == {"s4": 3, "s5": 3, "s123": 4, "s456": 4}


def test_registering_changes_nothing_in_place() -> None:
    first = SharedRegistry().registered(CP1)
    first.registered(CP2)
    first.unregistered_below(9)
    assert used(first, NAMES) == {"s1": 1, "s2": 1}


def test_a_late_registration_does_not_take_back_a_use() -> None:
    registry = SharedRegistry().registered(CP2).registered(CP1)
    assert used(registry, NAMES) == {"s1": 2, "s2": 2, "s3": 2, "s4": 2}


def test_files_of_a_snapshot_that_is_not_ours_stay() -> None:
    """LEGACY: increments may build on it, and it is never deleted."""
    registry = SharedRegistry(unclaimed_up_to=2).registered(CP2).registered(CP3)
    registry, deleted = registry.unregistered_below(9)
    assert {NAMES[each] for each in deleted} == {"s123", "s5"}
    assert registry.files == {}


def test_files_that_a_checkpoint_under_way_will_name_stay() -> None:
    path = next(path for path, name in NAMES.items() if name == "s3")
    registry = SharedRegistry().registered(CP2)
    registry, deleted = registry.unregistered_below(3, in_use={path})
    assert {NAMES[each] for each in deleted} == {"s1", "s2", "s4"}
    assert used(registry, NAMES) == {"s3": 2}


def test_a_name_that_was_used_again_is_an_error() -> None:
    reused = msgspec.structs.replace(shared("s1", b"other", 1), path=next(iter(CP1.shared_files)))
    other = manifest(2, operator("count", SubtaskRecord(keyed=keyed(reused))))
    with pytest.raises(CheckpointError, match=r"checkpoint 2 names .* but checkpoint 1 knows"):
        SharedRegistry().registered(CP1).registered(other)


@given(st.data())
@settings(max_examples=100)
def test_rebuilt_is_incremental(data: st.DataObject) -> None:
    """Random lives of files; after each step both registries and a simple model agree."""
    registry = SharedRegistry()
    live: dict[str, int] = {}
    retained: list[Manifest] = []
    on_disk: set[str] = set()
    num_retained = data.draw(st.integers(1, 4))
    for number in range(1, data.draw(st.integers(1, 12))):
        gone = data.draw(st.sets(st.sampled_from(sorted(live) or [""])))
        live = {name: created for name, created in live.items() if name not in gone}
        for index in range(data.draw(st.integers(0, 3))):
            live[f"f{number}.{index}"] = number
        one = checkpoint(number, live)
        on_disk |= set(one.shared_files)
        if data.draw(st.integers(0, 4)) == 0:
            continue  # It failed: uploaded, never registered.
        retained.append(one)
        registry = registry.registered(one)
        retained = retained[-num_retained:]
        registry, deleted = registry.unregistered_below(retained[0].checkpoint_id)
        on_disk -= set(deleted)
        assert registry == SharedRegistry.rebuilt(retained)
        model: dict[str, int] = {}
        for kept in retained:
            for path in kept.shared_files:
                model[path] = kept.checkpoint_id
        assert {path: file.last_used for path, file in registry.files.items()} == model
        assert set(model) <= on_disk
        # What was deleted comes back in no later checkpoint: a name has one life.
        assert not set(deleted) & set(one.shared_files)
