"""Trying a checkpoint directory before a job starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.files.contract import Content
from penstock.files.errors import StorageError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages, probe_storage
from simulated_disk import Fault, FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path


def test_good_storage_passes_and_nothing_is_left(tmp_path: Path) -> None:
    for storage in (
        MemoryStorage(),
        Storages().at(str(tmp_path / "deep" / "ckpt")),
        Storages().at("memory://probe/job"),
    ):
        probe_storage(storage, "job", "1")
        probe_storage(storage, "", "2")
        assert list(storage.list("")) == []
    assert (tmp_path / "deep" / "ckpt" / "job").is_dir()


def test_storage_that_overwrites_is_refused() -> None:
    class Careless(MemoryStorage):
        def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
            self.files[key] = content.read("it"), 0

    storage = Careless()
    with pytest.raises(StorageError, match=r"ignores conditional requests.*If-None-Match"):
        probe_storage(storage, "job", "1")
    assert storage.files == {}


def test_storage_that_swaps_blindly_is_refused() -> None:
    class Careless(MemoryStorage):
        def swap(self, key: str, data: bytes, tag: str | None) -> None:
            self.files[key] = data, 0

    storage = Careless()
    with pytest.raises(StorageError, match="should have been left alone"):
        probe_storage(storage, "job", "1")
    assert storage.files == {}


def test_storage_that_loses_bytes_is_refused() -> None:
    class Careless(MemoryStorage):
        def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
            super().put_if_absent(key, Content.of_bytes(b""))

    with pytest.raises(StorageError, match="does not hold what was written"):
        probe_storage(Careless(), "job", "1")


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "ckpt").write_text("a file")
    with pytest.raises(StorageError) as caught:
        probe_storage(LocalStorage(str(tmp_path / "ckpt")), "job", "1")
    assert f"{tmp_path}/ckpt/job cannot hold checkpoints" in str(caught.value)
    assert "configure a directory" in str(caught.value)
    assert "Nothing was started" in str(caught.value)


def test_every_failing_call_is_reported() -> None:
    counting = FaultyStorage(MemoryStorage())
    probe_storage(counting, "job", "1")
    for number in range(1, counting.calls - 1):
        with pytest.raises(StorageError, match="cannot hold checkpoints"):
            probe_storage(FaultyStorage(MemoryStorage(), {number: Fault.GONE}), "job", "1")
