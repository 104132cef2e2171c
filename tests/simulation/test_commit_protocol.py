"""The commit protocol under faults: every storage call fails once, in every way.

Whatever happens, a new leader finds every committed checkpoint whole, and life goes on.
"""

from __future__ import annotations

import contextlib
import errno
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from checkpoint_samples import JOB, LocalFiles, sha256
from commit_driver import LAYOUT, LIVE, Driver, check_recovery, content_of, sweep

from penstock.checkpoint.deletion import delete_snapshot
from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.paths import created_by
from penstock.core.codec import DamagedError
from penstock.files.errors import FilesError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from simulated_disk import (
    Fault,
    FaultyStorage,
    PowerCut,
    SimulatedCrash,
    SimulatedDisk,
)

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StoredHandle
    from penstock.files.contract import Content, Storage


def run_job(driver: Driver, rounds: int = 4) -> int:
    """Takes checkpoints; a failed one does not stop the job."""
    tried = 0
    try:
        driver.start()
        for number in range(rounds):
            try:
                driver.checkpoint(LIVE[number % 4], number + 1)
            except FencedError:
                raise
            except FilesError:
                continue
    finally:
        tried = _last_tried(driver)
    return tried


def _last_tried(driver: Driver) -> int:
    """The highest id that may be published although nobody said so."""
    metadata = [
        int(key.split("chk-")[1].split("/")[0])
        for operation, key in getattr(driver.root, "log", [])
        if operation == "put" and key.endswith("_metadata")
    ]
    return max(metadata, default=0)


def shared_names(storage: MemoryStorage) -> set[str]:
    """Names of the example by checksum, taken from the files that really exist."""
    known = {sha256(content_of(name)): name for live in LIVE for name in live}
    start = f"{LAYOUT.shared}/"
    return {known[key[len(start) :][:64]] for key in storage.files if key.startswith(start)}


# -- without faults ---------------------------------------------------------------------------


def test_the_example_of_the_documentation_to_the_letter() -> None:
    storage = MemoryStorage()
    driver = Driver(storage)
    driver.start()
    expected = [
        # live files, newly uploaded, registry, deleted
        ({"s1", "s2"}, {"s1", "s2"}, {"s1": 1, "s2": 1}, set()),
        (
            {"s1", "s2", "s3", "s4"},
            {"s3", "s4"},
            {"s1": 2, "s2": 2, "s3": 2, "s4": 2},
            set(),
        ),
        (
            {"s123", "s4", "s5"},
            {"s123", "s5"},
            {"s1": 2, "s2": 2, "s3": 2, "s4": 3, "s5": 3, "s123": 3},
            set(),
        ),
        (
            {"s123", "s456"},
            {"s456"},
            {"s4": 3, "s5": 3, "s123": 4, "s456": 4},
            {"s1", "s2", "s3"},
        ),
    ]
    names = {sha256(content_of(name)): name for live in LIVE for name in live}
    for number, (live, new, registry, deleted) in enumerate(expected, start=1):
        before = shared_names(storage)
        assert driver.checkpoint(LIVE[number - 1], number) == number
        after = shared_names(storage)
        one = driver.loaded[number].manifest
        assert {names[h.sha256] for h in one.shared_files.values()} == live
        assert {names[h.sha256] for h in one.shared_files.values() if h.created_by == number} == new
        assert after - before == new
        assert before - after == deleted
        found = {names[f.handle.sha256]: f.last_used for f in driver.registry.files.values()}
        assert found == registry
    counts = Counter(
        names[handle.sha256]
        for one in driver.loaded.values()
        for handle in one.manifest.shared_files.values()
    )
    assert counts == {"s123": 2, "s4": 1, "s5": 1, "s456": 1}
    assert [e.checkpoint_id for e in driver.pointer.known.completed] == [3, 4]


def test_content_that_comes_back_gets_a_new_name() -> None:
    storage = MemoryStorage()
    driver = Driver(storage, num_retained=1)
    driver.start()
    driver.checkpoint(("x",), 1)
    first = next(key for key in storage.files if LAYOUT.shared in key)
    driver.checkpoint(("y",), 2)
    driver.checkpoint(("x",), 3)
    third = [key for key in storage.files if LAYOUT.shared in key]
    assert first not in third
    assert [created_by(key.rpartition("/")[2]) for key in third] == [3]


def test_files_of_a_checkpoint_that_failed_are_not_reused() -> None:
    """Only a completed parent's manifest says what is stored."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    driver = Driver(storage, attempts=1)
    driver.start()
    driver.checkpoint(("s1",), 1)
    calls = storage.calls
    driver.checkpoint(("s1", "s2"), 2)
    metadata = [
        index
        for index, (operation, key) in enumerate(storage.log, start=1)
        if index > calls and operation == "put" and key.endswith("_metadata")
    ]
    inner, storage = MemoryStorage(), FaultyStorage(MemoryStorage())
    storage = FaultyStorage(inner, {metadata[0]: Fault.BEFORE})
    driver = Driver(storage, attempts=1)
    driver.start()
    driver.checkpoint(("s1",), 1)
    with pytest.raises(FilesError):
        driver.checkpoint(("s1", "s2"), 2)
    assert not [key for key in inner.files if "chk-2" in key]
    driver.checkpoint(("s1", "s2"), 3)
    ids = {h.name: h.created_by for h in driver.loaded[3].manifest.shared_files.values()}
    assert ids == {"s1": 1, "s2": 3}


def test_two_leaders() -> None:
    """A leader that slept through a take-over changes and deletes nothing any more."""
    storage = MemoryStorage()
    old = Driver(storage, leader_epoch=1, num_retained=1)
    old.start()
    old.checkpoint(LIVE[0], 1)
    old.checkpoint(LIVE[1], 2)
    new = Driver(storage, leader_epoch=2, num_retained=1)
    new.start()
    new.checkpoint(LIVE[2], 3)
    before = dict(storage.files)
    with pytest.raises(FencedError):
        old.checkpoint(LIVE[3], 4)
    with pytest.raises(FencedError):
        delete_snapshot(old.storages, old.loaded[2], old._confirm)
    used_up = f"{LAYOUT.counter}/current"
    keys = {*before, *storage.files} - {used_up}
    assert {key for key in keys if before.get(key) != storage.files.get(key)} == set()
    with pytest.raises(FencedError):
        old._publish(old.pointer.known)
    with pytest.raises(FencedError):
        old.start()


# -- every call fails -------------------------------------------------------------------------


def count_calls() -> int:
    storage = FaultyStorage(MemoryStorage())
    driver = Driver(storage)
    run_job(driver)
    assert driver.published == [1, 2, 3, 4]
    return storage.calls


CALLS = count_calls()


def test_the_run_without_faults_has_as_many_calls_as_expected() -> None:
    """A floor, so that the loops below do not silently run over nothing."""
    assert 80 < CALLS < 400


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.TIMEOUT])
def test_one_failing_call_fails_nothing(fault: Fault) -> None:
    """It is tried again: all four checkpoints complete, no id is doubled, nothing is left over."""
    hits = 0
    for index in range(1, CALLS + 1):
        inner = MemoryStorage()
        driver = Driver(FaultyStorage(inner, {index: fault}))
        tried = run_job(driver)
        assert driver.published == [1, 2, 3, 4], index
        assert shared_names(inner) == {"s123", "s4", "s5", "s456"}, index
        hits += len(driver.root.hit)  # type: ignore[attr-defined]
        check_recovery(inner, driver, tried)
    assert hits == CALLS


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.TIMEOUT])
def test_one_failing_call_without_retries(fault: Fault) -> None:
    """The checkpoint may fail, committed ones never do."""
    for index in range(1, CALLS + 1):
        inner = MemoryStorage()
        driver = Driver(FaultyStorage(inner, {index: fault}), attempts=1)
        try:
            tried = run_job(driver)
        except FilesError:
            assert driver.published == []
            tried = 0
        check_recovery(inner, driver, tried)


@pytest.mark.parametrize("fault", [Fault.GONE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_the_process_dies_or_the_storage_is_gone_at_every_call(fault: Fault) -> None:
    for index in range(1, CALLS + 1):
        inner = MemoryStorage()
        driver = Driver(FaultyStorage(inner, {index: fault}))
        with contextlib.suppress(SimulatedCrash, FilesError):
            run_job(driver)
        successor = check_recovery(inner, driver, _last_tried(driver))
        # After healing and sweep nothing is left that nobody names.
        sweep(successor, now_ms=10, grace_ms=5)
        named = {
            f"{LAYOUT.shared}/{h.path.rpartition('/')[2]}"
            for one in successor.loaded.values()
            for h in one.manifest.shared_files.values()
            if h.path is not None
        }
        assert {key for key in inner.files if key.startswith(LAYOUT.shared)} == named
        directories = {key.split("/")[1] for key in inner.files if "/chk-" in key}
        assert directories == {f"chk-{number}" for number in successor.loaded}


def test_killed_again_in_every_recovery() -> None:
    """Recovery is idempotent, wherever it is interrupted."""
    for first in range(1, CALLS + 1, 7):
        inner = MemoryStorage()
        driver = Driver(FaultyStorage(inner, {first: Fault.CRASH_AFTER}))
        with pytest.raises(SimulatedCrash):
            run_job(driver)
        for second in range(1, 30):
            again = Driver(FaultyStorage(inner, {second: Fault.CRASH_AFTER}), leader_epoch=2)
            try:
                again.start()
            except SimulatedCrash:
                continue
            break
        successor = Driver(inner, leader_epoch=3)
        successor.start()
        assert (successor.latest.checkpoint_id if successor.latest else 0) in {
            *driver.published[-1:],
            _last_tried(driver),
            *([0] * (not driver.published)),
        }


# -- power cuts -------------------------------------------------------------------------------


class FilesOnDisk(LocalFiles):
    """Local files on the disk that checkpoints are on; nothing has synced them."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self.disk = disk
        self.storage: Storage | None = None
        with contextlib.suppress(OSError):
            disk.make_directory("/state")

    def open_content(self, handle: StoredHandle) -> Content:
        content = super().open_content(handle)
        path = f"/state/{handle.name}"
        if self.disk.entry(path) is None:
            with contextlib.suppress(OSError):
                descriptor = self.disk.create(path)
                view = memoryview(content.read(path))
                while view:
                    view = view[self.disk.write(descriptor, view) :]
                self.disk.close(descriptor)
            if self.storage is not None and handle.name.startswith("s"):
                with contextlib.suppress(FilesError):
                    self.storage.prepare(Path(path))
        return replace(content, link=Path(path))


def driver_on(disk: SimulatedDisk, linked: bool) -> Driver:
    storage = LocalStorage("/data", disk)
    if not linked:
        return Driver(storage)
    local = FilesOnDisk(disk)
    driver = Driver(storage, local=local)
    local.storage = driver.storage
    return driver


def count_disk_calls(linked: bool) -> int:
    disk = SimulatedDisk()
    run_job(driver_on(disk, linked))
    assert linked == any(operation == "sync_file" for operation, _ in disk.log)
    return disk.calls


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("cut_after", [False, True])
def test_a_power_cut_at_every_call(cut_after: bool, linked: bool) -> None:
    """What was published is whole, whatever the disk made of the rest."""
    total = count_disk_calls(linked)
    assert 150 < total < 2000
    for index in range(1, total + 1):
        disk = SimulatedDisk(cut_at=index, cut_after=cut_after)
        driver = Driver(LocalStorage("/data", disk))
        with contextlib.suppress(PowerCut):
            driver = driver_on(disk, linked)
        with contextlib.suppress(PowerCut):
            run_job(driver)
            # Only the very last call may fail by itself and so have no successor.
            assert index == total
        disk.restart(random.Random(index))
        tried = max([*driver.published, 0]) + 1
        check_recovery(LocalStorage("/data", disk), driver, tried)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("linked", [False, True])
def test_a_disk_call_that_fails(number: int, linked: bool) -> None:
    total = count_disk_calls(linked)
    for index in range(1, total + 1):
        disk = SimulatedDisk(failures={index: number})
        driver = driver_on(disk, linked)
        run_job(driver)
        assert driver.published[-1] == 4, index
        disk.restart(random.Random(index))
        check_recovery(LocalStorage("/data", disk), driver, 4)


# -- damage -----------------------------------------------------------------------------------


def test_a_damaged_newest_checkpoint_stops_recovery() -> None:
    storage = MemoryStorage()
    driver = Driver(storage)
    run_job(driver)
    key = LAYOUT.metadata(4)
    data, _ = storage.files[key]
    storage.files[key] = data[:-1] + b"\0", 0
    with pytest.raises(FilesError, match=r"checkpoint 4: .*chk-4.*(?s:.)*Readable: 3"):
        Driver(storage, leader_epoch=2).start()


def test_exchanged_metadata_stops_recovery() -> None:
    """Both are valid, and neither is what was published there."""
    storage = MemoryStorage()
    run_job(Driver(storage))
    three, four = LAYOUT.metadata(3), LAYOUT.metadata(4)
    storage.files[three], storage.files[four] = storage.files[four], storage.files[three]
    with pytest.raises(FilesError, match="damaged or replaced"):
        Driver(storage, leader_epoch=2).start()


def test_a_damaged_pointer_stops_recovery() -> None:
    storage = MemoryStorage()
    run_job(Driver(storage))
    key = f"{LAYOUT.pointer}/current"
    data, _ = storage.files[key]
    for length in range(len(data)):
        storage.files[key] = data[:length], 0
        with pytest.raises(DamagedError, match=JOB):
            Driver(storage, leader_epoch=2).start()
