"""One suite for the contract of checkpoint storage; every implementation is a row.

A row that lacks a capability is a strict xfail with the reason, never a silent skip.
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.files.contract import Content
from penstock.files.errors import ContentError, ObjectExistsError, ObjectMissingError, StorageError
from penstock.files.memory import MemoryStorage
from penstock.files.wrappers import RetryingStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.files.contract import Storage

NO_ATOMIC_CREATE = "fsspec has no exclusive creation that all of its file systems share"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- writing and reading ----------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 10_000], ids=len)
def test_what_is_put_is_read(storage: Storage, data: bytes) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(data))
    assert storage.read("job/chk-1/a") == data
    assert storage.read("job/chk-1/a", size_bytes=len(data), sha256=sha256(data)) == data
    assert storage.size("job/chk-1/a") == len(data)
    assert storage.exists("job/chk-1/a")


def test_a_name_is_written_once(storage: Storage, row: str) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"first"))
    with pytest.raises(ObjectExistsError, match="exists already"):
        storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"second"))
    assert storage.read("job/chk-1/a") == b"first"


def test_retries_accept_only_what_is_theirs() -> None:
    storage = RetryingStorage(MemoryStorage(), sleep=lambda seconds: None)
    storage.put_if_absent("a", Content.of_bytes(b"same"))
    storage.put_if_absent("a", Content.of_bytes(b"same"))
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("a", Content.of_bytes(b"diff"))


def test_of_many_writers_one_wins(
    storage: Storage, row: str, request: pytest.FixtureRequest
) -> None:
    if not storage.capabilities.atomic_create:
        assert row == "fsspec"
        request.applymarker(pytest.mark.xfail(reason=NO_ATOMIC_CREATE, strict=True))
        raise AssertionError(NO_ATOMIC_CREATE)
    barrier = threading.Barrier(8)

    def put(number: int) -> int | None:
        content = Content.of_bytes(b"%d" % number * 1000)
        barrier.wait()
        try:
            storage.put_if_absent("job/shared/contended", content)
        except ObjectExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(put, range(8)) if number is not None]
    assert len(winners) == 1
    assert storage.read("job/shared/contended") == b"%d" % winners[0] * 1000


def test_wrong_content_is_not_written(storage: Storage) -> None:
    """A local file that changed since its handle was made must not reach a checkpoint."""
    for wrong in (
        Content(5, sha256(b"other"), lambda: iter((b"hello",))),
        Content(4, sha256(b"hello"), lambda: iter((b"hello",))),
        Content(6, sha256(b"hello"), lambda: iter((b"he", b"llo"))),
    ):
        with pytest.raises(ContentError, match="expected"):
            storage.put_if_absent("job/chk-1/wrong", wrong)
        assert storage.size("job/chk-1/wrong") is None
    assert list(storage.list("job/chk-1")) == []


def test_a_source_that_breaks_leaves_nothing(storage: Storage) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"he"
        raise OSError(5, "Input/output error")

    with pytest.raises(Exception, match="Input/output"):
        storage.put_if_absent("job/chk-1/broken", Content(5, sha256(b"hello"), pieces))
    assert list(storage.list("job/chk-1")) == []


def test_damage_is_found(storage: Storage, tmp_path: Path) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"hello"))
    for size, digest in ((5, sha256(b"other")), (4, sha256(b"hell")), (6, sha256(b"hello!"))):
        with pytest.raises(ContentError) as caught:
            storage.read("job/chk-1/a", size_bytes=size, sha256=digest)
        assert storage.url_of("job/chk-1/a") in str(caught.value)
        with pytest.raises(ContentError):
            storage.check("job/chk-1/a", size, digest)
        with pytest.raises(ContentError):
            storage.download("job/chk-1/a", tmp_path / "copy", size, digest)
        assert list(tmp_path.glob("*copy*")) == []
    storage.check("job/chk-1/a", 5, sha256(b"hello"))


def test_download(storage: Storage, tmp_path: Path) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"hello"))
    storage.download("job/chk-1/a", tmp_path / "copy", 5, sha256(b"hello"))
    assert (tmp_path / "copy").read_bytes() == b"hello"
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_put_from_a_file_and_copy_between_storages(storage: Storage, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "local").write_bytes(data)
    storage.put_if_absent(
        "job/chk-1/a", Content.of_file(tmp_path / "local", len(data), sha256(data))
    )
    other = MemoryStorage()
    other.put_if_absent("b", storage.content("job/chk-1/a", len(data), sha256(data)))
    assert other.read("b") == data
    assert storage.holds("job/chk-1/a", Content.of_bytes(data))
    assert not storage.holds("job/chk-1/a", Content.of_bytes(data[:-1] + bytes([data[-1] ^ 1])))


def test_a_local_file_that_may_be_linked(storage: Storage, row: str, tmp_path: Path) -> None:
    """Whether a storage links or copies it, it outlives the local name, and is there once."""
    data = os.urandom(300_000)
    local = tmp_path / "state" / "local"
    local.parent.mkdir()
    local.write_bytes(data)
    content = Content.of_file(local, len(data), sha256(data), may_link=True)
    storage.put_if_absent("job/shared/a", content, deferred=True)
    storage.flush("job/shared")
    found = [tmp_path / "checkpoints" / "job" / "shared" / "a"] if row == "local" else []
    assert all(path.samefile(local) for path in found)
    with pytest.raises(ObjectExistsError):
        storage.put_if_absent("job/shared/a", Content.of_bytes(b"other"))
    local.unlink()
    storage.check("job/shared/a", len(data), sha256(data))
    storage.delete("job/shared/a")
    assert not storage.exists("job/shared/a")


# -- what sinks and sources need ------------------------------------------------------------


def test_what_is_written_replaces_what_was_there(storage: Storage) -> None:
    for data in (b"first", b"", b"second " * 500_000):
        storage.write("job/chk-1/a", Content.of_bytes(data))
        assert storage.read("job/chk-1/a") == data
    assert [entry.key for entry in storage.list("job")] == ["job/chk-1/a"]


def test_content_may_come_without_a_checksum(storage: Storage) -> None:
    pieces = [b"he", b"", b"llo"]
    storage.write("job/chk-1/a", Content(5, "", lambda: iter(pieces)), deferred=True)
    storage.flush("job/chk-1")
    assert storage.read("job/chk-1/a") == b"hello"
    assert storage.holds("job/chk-1/a", Content(5, "", lambda: iter(pieces)))
    assert not storage.holds("job/chk-1/a", Content(5, "", lambda: iter((b"hallo",))))
    with pytest.raises(ContentError, match="expected 6"):
        storage.write("job/chk-1/a", Content(6, "", lambda: iter(pieces)))
    assert storage.read("job/chk-1/a") == b"hello"


def test_a_file_gets_another_name(storage: Storage) -> None:
    storage.write("job/chk-1/.pending", Content.of_bytes(b"new"))
    storage.write("job/shared/.other", Content.of_bytes(b"newer"))
    storage.rename("job/chk-1/.pending", "job/chk-1/part")
    assert [entry.key for entry in storage.list("job/chk-1")] == ["job/chk-1/part"]
    assert storage.read("job/chk-1/part") == b"new"
    if storage.url != "/data":  # The simulated disk keeps to one directory.
        storage.rename("job/shared/.other", "job/chk-1/part")
        assert storage.read("job/chk-1/part") == b"newer"
        assert [entry.key for entry in storage.list("job")] == ["job/chk-1/part"]
    with pytest.raises(ObjectMissingError):
        storage.rename("job/chk-1/.pending", "job/chk-1/part")


def test_parts_of_a_file(storage: Storage) -> None:
    data = bytes(range(256)) * 20_000
    storage.write("job/chk-1/a", Content.of_bytes(data))
    for start, size in ((0, 1), (0, len(data)), (1_000_003, 2_000_001), (len(data) - 5, 5)):
        assert storage.read_range("job/chk-1/a", start, size) == data[start : start + size]
    for start, size in ((len(data) - 5, 6), (len(data) + 5, 1)):
        with pytest.raises(StorageError, match="ends before"):
            storage.read_range("job/chk-1/a", start, size)
    with pytest.raises(ObjectMissingError):
        storage.read_range("job/chk-1/none", 0, 1)


def test_a_file_as_a_stream(storage: Storage) -> None:
    data = bytes(range(256)) * 20_000
    storage.write("job/chk-1/a", Content.of_bytes(data))
    with storage.open("job/chk-1/a") as stream:
        assert stream.read(10) == data[:10]
        assert stream.seek(-7, os.SEEK_END) == len(data) - 7
        assert stream.read() == data[-7:]
        assert stream.read(1) == b""
        stream.seek(3_000_000)
        assert stream.read(1_500_000) == data[3_000_000:4_500_000]
        assert stream.tell() == 4_500_000
    with pytest.raises(ObjectMissingError):
        storage.open("job/chk-1/none")


def test_an_entry_says_whether_a_file_changed(storage: Storage, row: str) -> None:
    storage.write("job/chk-1/a", Content.of_bytes(b"first"))
    found = storage.entry("job/chk-1/a")
    assert found is not None
    assert (found.key, found.size_bytes) == ("job/chk-1/a", 5)
    assert storage.entry("job/chk-1/a") == found
    assert [*storage.list("job/chk-1")] == [found]
    assert storage.entry("job/chk-1") is None
    if row not in ("simulated-disk", "hdfs", "fsspec"):  # Whose clocks stand, or tick slowly.
        storage.write("job/chk-1/a", Content.of_bytes(b"other"))
        changed = storage.entry("job/chk-1/a")
        assert changed is not None
        assert changed.version != found.version


# -- what is not there ------------------------------------------------------------------------


def test_missing_files(storage: Storage, tmp_path: Path) -> None:
    assert storage.size("job/chk-1/none") is None
    assert not storage.exists("job/chk-9/none")
    with pytest.raises(ObjectMissingError):
        storage.read("job/chk-1/none")
    with pytest.raises(ObjectMissingError):
        storage.download("job/chk-1/none", tmp_path / "copy", 1, sha256(b"x"))
    storage.delete("job/chk-1/none")
    storage.delete("job/chk-9/none")
    assert list(storage.list("job/chk-9")) == []


def test_deleted_files_are_gone(storage: Storage) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"1"))
    storage.put_if_absent("job/chk-1/b", Content.of_bytes(b"2"))
    storage.delete("job/chk-1/a")
    storage.delete("job/chk-1/a")
    assert storage.size("job/chk-1/a") is None
    assert storage.read("job/chk-1/b") == b"2"


def test_a_late_writer_does_not_bring_a_directory_back(storage: Storage) -> None:
    """The checkpoint was aborted; its slow writer finds no directory and makes none."""
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"1"))
    storage.delete("job/chk-1/a")
    storage.remove_directory("job/chk-1")
    if storage.capabilities.directories:
        for put in (storage.put_if_absent, storage.write):
            with pytest.raises(ObjectMissingError, match="aborted"):
                put("job/chk-1/late", Content.of_bytes(b"2"))
        assert list(storage.list("job")) == []
    else:
        # Without directories it becomes an orphan, which the sweep finds.
        storage.put_if_absent("job/chk-1/late", Content.of_bytes(b"2"))


# -- directories and listing ------------------------------------------------------------------


def test_listing(storage: Storage) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"1"))
    storage.put_if_absent("job/shared/b", Content.of_bytes(b"22"))
    storage.make_directory("jobs")
    storage.put_if_absent("jobs/c", Content.of_bytes(b"333"))
    found = [(entry.key, entry.size_bytes) for entry in storage.list("job")]
    assert sorted(found) == [("job/chk-1/a", 1), ("job/shared/b", 2)]
    everything = sorted(entry.key for entry in storage.list(""))
    assert everything == ["job/chk-1/a", "job/shared/b", "jobs/c"]


def test_a_directory_with_files_is_not_removed(storage: Storage) -> None:
    storage.put_if_absent("job/chk-1/a", Content.of_bytes(b"1"))
    storage.remove_directory("job/chk-1")
    storage.remove_directory("job")
    storage.remove_directory("never")
    assert storage.read("job/chk-1/a") == b"1"


def test_an_exclusive_directory_is_new(storage: Storage) -> None:
    storage.make_directory("target/savepoint-1", exclusive=True)
    storage.put_if_absent("target/savepoint-1/a", Content.of_bytes(b"1"))
    with pytest.raises(ObjectExistsError):
        storage.make_directory("target/savepoint-1", exclusive=True)
    storage.make_directory("target/savepoint-1")
    storage.make_directory("target/savepoint-2", exclusive=True)


def test_deferred_files_are_there_after_the_flush(storage: Storage) -> None:
    for name in "abc":
        storage.put_if_absent(f"job/shared/{name}", Content.of_bytes(name.encode()), deferred=True)
    storage.flush("job/shared")
    assert [storage.read(f"job/shared/{name}") for name in "abc"] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../outside",
        "a/../../outside",
        "a/./b",
        "a//b",
        "a/",
        "..",
        ".",
        "a\\b",
        "a\0b",
        "a\nb",
        "x" * 1025,
    ],
)
def test_no_key_leads_outside(storage: Storage, key: str) -> None:
    content = Content.of_bytes(b"evil")
    attempts: list[Callable[[], object]] = [
        lambda: storage.put_if_absent(key, content),
        lambda: storage.read(key),
        lambda: storage.size(key),
        lambda: storage.delete(key),
        lambda: storage.write(key, content),
        lambda: storage.rename(key, "job/chk-1/a"),
        lambda: storage.read_range(key, 0, 1),
    ]
    if key:
        attempts += [
            lambda: list(storage.list(key)),
            lambda: storage.make_directory(key),
        ]
    for attempt in attempts:
        with pytest.raises(StorageError, match="not a name inside"):
            attempt()
