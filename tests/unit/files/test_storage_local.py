"""Local storage: durability, permissions, failures."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.files.contract import Content
from penstock.files.disk import Disk
from penstock.files.errors import (
    CapabilityError,
    ContentError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.local import LocalStorage
from simulated_disk import SimulatedDisk

CONTENT = Content.of_bytes(b"some content")


def operations(disk: SimulatedDisk) -> list[str]:
    return [operation for operation, _ in disk.log]


def fresh(**arguments: object) -> tuple[SimulatedDisk, LocalStorage]:
    disk = SimulatedDisk()
    storage = LocalStorage("/data", disk)
    storage.make_directory("job")
    disk.log.clear()
    disk.calls = 0
    disk.failures = arguments.get("failures", {})  # type: ignore[assignment]
    return disk, storage


def test_the_steps_of_a_durable_write() -> None:
    disk, storage = fresh()
    storage.put_if_absent("job/a", CONTENT)
    steps = [step for step in operations(disk) if step != "write"]
    assert steps == ["create", "fsync", "link", "unlink", "sync_directory"]
    assert disk.log[-1] == ("sync_directory", "/data/job")


def test_many_files_share_one_directory_sync() -> None:
    disk, storage = fresh()
    for number in range(5):
        storage.put_if_absent(f"job/{number}", CONTENT, deferred=True)
    storage.flush("job")
    assert Counter(operations(disk))["fsync"] == 5
    assert Counter(operations(disk))["sync_directory"] == 1


def test_new_directories_are_synced_into_their_parents() -> None:
    disk = SimulatedDisk()
    LocalStorage("/data/checkpoints", disk).make_directory("job/chk-1")
    assert disk.log == [
        ("make_directory", "/data"),
        ("sync_directory", "/"),
        ("make_directory", "/data/checkpoints"),
        ("sync_directory", "/data"),
        ("make_directory", "/data/checkpoints/job"),
        ("sync_directory", "/data/checkpoints"),
        ("make_directory", "/data/checkpoints/job/chk-1"),
        ("sync_directory", "/data/checkpoints/job"),
    ]


@pytest.mark.parametrize("failing", ["create", "write", "fsync", "link"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_failure_before_the_name_exists_leaves_nothing(failing: str, number: int) -> None:
    disk, storage = fresh()
    storage.put_if_absent("job/probe", CONTENT)
    call = operations(disk).index(failing) + 1
    disk, storage = fresh(failures={call: number})
    with pytest.raises(StorageError) as caught:
        storage.put_if_absent("job/a", CONTENT)
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert os.strerror(number) in str(caught.value)
    assert "/data/job/a" in str(caught.value)
    assert ("Free some space" in str(caught.value)) == (number != errno.EIO)
    assert list(storage.list("")) == []
    # With space, or a disk that works, the same write succeeds.
    storage.put_if_absent("job/a", CONTENT)
    assert storage.read("job/a") == b"some content"


def test_a_descriptor_is_never_synced_twice() -> None:
    """After a failed fsync the kernel may have dropped the pages: a second one would lie."""
    disk, storage = fresh(failures={4: errno.EIO})
    with pytest.raises(StorageError):
        storage.put_if_absent("job/a", CONTENT)
    assert operations(disk)[3] == "fsync"
    storage.put_if_absent("job/a", CONTENT)
    synced = [path for operation, path in disk.log if operation == "fsync"]
    assert len(synced) == 2
    assert len(set(synced)) == 2


def test_a_failed_directory_sync_is_unknown_not_failed() -> None:
    disk, storage = fresh()
    storage.put_if_absent("job/probe", CONTENT)
    disk, storage = fresh(failures={disk.calls: errno.EIO})
    with pytest.raises(UnknownOutcomeError, match="power cut is unknown"):
        storage.put_if_absent("job/a", CONTENT)
    assert storage.read("job/a") == b"some content"


def test_a_file_system_without_hard_links_is_named() -> None:
    disk, storage = fresh()
    storage.put_if_absent("job/probe", CONTENT)
    call = operations(disk).index("link") + 1
    _, storage = fresh(failures={call: errno.EPERM})
    with pytest.raises(CapabilityError, match="no hard links"):
        storage.put_if_absent("job/a", CONTENT)
    assert list(storage.list("")) == []


def test_a_failed_directory_is_taken_back() -> None:
    """Otherwise the next try would find it, and not sync it again."""
    disk, storage = fresh(failures={2: errno.EIO})
    with pytest.raises(StorageError):
        storage.make_directory("job/chk-1")
    assert disk.entry("/data/job/chk-1") is None


# -- files that are linked ----------------------------------------------------------------------


def lying(disk: SimulatedDisk, path: str = "/state/a", data: bytes = b"some content") -> Content:
    """A local file that was written, and not synced."""
    disk.make_directory("/state")
    descriptor = disk.create(path)
    view = memoryview(data)
    while view:
        view = view[disk.write(descriptor, view) :]
    disk.close(descriptor)
    disk.log.clear()
    disk.calls = 0
    return replace(CONTENT, link=Path(path))


def test_a_local_file_is_synced_and_then_linked() -> None:
    disk, storage = fresh()
    storage.put_if_absent("job/a", lying(disk))
    assert disk.log == [
        ("sync_file", "/state/a"),
        ("link", "/data/job/a"),
        ("sync_directory", "/data/job"),
    ]
    disk.unlink("/state/a")
    disk.restart(random.Random(0))
    assert storage.read("job/a") == b"some content"
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("job/a", CONTENT)


def test_a_local_file_that_was_prepared_is_only_linked() -> None:
    disk, storage = fresh()
    content = lying(disk)
    storage.prepare(Path("/state/a"))
    storage.prepare(Path("/state/none"))
    storage.put_if_absent("job/a", content)
    assert operations(disk) == ["sync_file", "link", "sync_directory"]


def test_another_file_of_a_prepared_name_is_synced() -> None:
    """A restore brings a file back that was deleted, and nothing has synced the new one."""
    disk, storage = fresh()
    content = lying(disk)
    storage.prepare(Path("/state/a"))
    disk.unlink("/state/a")
    descriptor = disk.create("/state/a")
    view = memoryview(b"some content")
    while view:
        view = view[disk.write(descriptor, view) :]
    disk.close(descriptor)
    storage.put_if_absent("job/a", content)
    assert Counter(operations(disk))["sync_file"] == 2
    disk.restart(random.Random(0))
    assert storage.read("job/a") == b"some content"


def test_a_local_file_that_could_not_be_prepared_is_copied() -> None:
    disk, storage = fresh()
    content = lying(disk)
    disk.failures = {1: errno.EIO}
    storage.prepare(Path("/state/a"))
    storage.put_if_absent("job/a", content)
    disk.restart(random.Random(0))
    assert storage.read("job/a") == b"some content"
    assert Counter(operations(disk))["sync_file"] == 1
    assert "fsync" in operations(disk)


def test_a_file_of_another_volume_is_copied_and_the_next_not_tried() -> None:
    disk, storage = fresh()
    content = lying(disk)
    disk.failures = {2: errno.EXDEV}
    storage.put_if_absent("job/a", content)
    storage.put_if_absent("job/b", content)
    assert storage.read("job/a") == storage.read("job/b") == b"some content"
    assert Counter(operations(disk))["sync_file"] == 1
    assert Counter(operations(disk))["fsync"] == 2


def test_a_local_file_whose_sync_failed_is_never_linked() -> None:
    """A second sync would succeed, although the kernel has dropped what it could not write."""
    disk, storage = fresh()
    content = lying(disk)
    disk.failures = {1: errno.EIO, 2: errno.ENOSPC}
    with pytest.raises(StorageError):
        storage.put_if_absent("job/a", content)
    storage.put_if_absent("job/a", content)
    disk.restart(random.Random(0))
    assert storage.read("job/a") == b"some content"
    assert Counter(operations(disk))["sync_file"] == 1


def test_a_local_file_of_another_length_is_refused() -> None:
    disk, storage = fresh()
    short = Content(12, CONTENT.sha256, lambda: iter((b"some",)), Path("/state/a"))
    lying(disk, data=b"some")
    with pytest.raises(ContentError, match="4 bytes, expected 12"):
        storage.put_if_absent("job/a", short)
    assert list(storage.list("")) == []


def test_a_linked_file_is_the_local_one(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"some content")
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    storage.make_directory("job")
    content = Content.of_file(local, 12, CONTENT.sha256, may_link=True)
    storage.put_if_absent("job/a", content)
    assert (tmp_path / "checkpoints/job/a").samefile(local)
    copied = Content.of_file(local, 12, CONTENT.sha256)
    storage.put_if_absent("job/b", copied)
    assert not (tmp_path / "checkpoints/job/b").samefile(local)


# -- the real disk ----------------------------------------------------------------------------


def test_permissions(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        storage = LocalStorage(str(tmp_path / "checkpoints"))
        storage.make_directory("job/shared")
        storage.put_if_absent("job/shared/a", CONTENT)
    finally:
        os.umask(previous)
    for directory in ("checkpoints", "checkpoints/job", "checkpoints/job/shared"):
        assert (tmp_path / directory).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "checkpoints/job/shared/a").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "checkpoints/job/shared") == ["a"]


class CountingDisk(Disk):
    """Counts what makes a write durable, on the machine's own file system."""

    def __init__(self) -> None:
        self.syncs: list[str] = []

    def fsync(self, descriptor: int) -> None:
        self.syncs.append("file")
        super().fsync(descriptor)

    def sync_directory(self, path: str) -> None:
        self.syncs.append(path)
        super().sync_directory(path)


def test_the_real_disk_is_synced(tmp_path: Path) -> None:
    disk = CountingDisk()
    storage = LocalStorage(str(tmp_path), disk)
    storage.put_if_absent("a", CONTENT)
    assert disk.syncs == ["file", str(tmp_path)]


def test_reading_makes_no_directories(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "none"))
    assert storage.size("job/a") is None
    assert list(storage.list("job")) == []
    with pytest.raises(ObjectMissingError):
        storage.read("job/a")
    assert not (tmp_path / "none").exists()


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    storage.make_directory("job")
    (tmp_path / "checkpoints" / "job" / "shared").symlink_to(outside)
    for attempt in (
        lambda: storage.delete("job/shared/precious"),
        lambda: storage.read("job/shared/precious"),
        lambda: storage.put_if_absent("job/shared/new", CONTENT),
        lambda: storage.make_directory("job/shared/sub"),
    ):
        with pytest.raises(StorageError, match="no link is followed"):
            attempt()
    assert os.listdir(outside) == ["precious"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "volume")
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    storage.make_directory("job")
    storage.put_if_absent("job/a", CONTENT)
    assert (tmp_path / "volume" / "job" / "a").read_bytes() == b"some content"


def test_a_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    with pytest.raises(StorageError, match="configure a directory") as caught:
        storage.make_directory("job")
    assert not caught.value.retryable
    assert "Not a directory" in str(caught.value)


def test_what_lies_below_a_file_is_not_said_to_be_absent(tmp_path: Path) -> None:
    """A mount that was replaced by a file: nothing of it was deleted."""
    (tmp_path / "mount").write_text("")
    storage = LocalStorage(str(tmp_path / "mount"))
    for ask in (lambda: storage.size("job/pointer"), lambda: list(storage.list("job"))):
        with pytest.raises(StorageError, match="A part of the path is a file"):
            ask()


@pytest.mark.usefixtures("bound_by_permissions")
def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="write permission"):
        storage.put_if_absent("a", CONTENT)


def test_a_leftover_of_a_crash_is_not_in_the_way(tmp_path: Path) -> None:
    """Numbers of temporary files start again in a new process with an old id."""
    storage = LocalStorage(str(tmp_path))
    for number in range(2000):
        (tmp_path / f".tmp-{os.getpid()}-{number}").touch()
    storage.put_if_absent("a", CONTENT)
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("a", CONTENT)
    assert storage.read("a") == b"some content"


def test_concurrent_removal_of_the_directory(tmp_path: Path) -> None:
    class Racing(Disk):
        def link(self, existing: str, new: str) -> None:
            os.unlink(existing)
            os.rmdir(os.path.dirname(new))
            super().link(existing, new)

    storage = LocalStorage(str(tmp_path), Racing())
    LocalStorage(str(tmp_path)).make_directory("chk-1")
    with pytest.raises(ObjectMissingError):
        storage.put_if_absent("chk-1/a", CONTENT)
    assert not (tmp_path / "chk-1").exists()
