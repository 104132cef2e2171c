"""Storage by URL, and the rows that fsspec has of its own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import ConfigurationError
from penstock.files.contract import Content
from penstock.files.errors import StorageError, UnknownOutcomeError
from penstock.files.fsspec_files import FsspecStorage
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from penstock.files.wrappers import RetryingStorage

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = Content.of_bytes(b"content")


def test_a_path_and_a_file_url_are_the_same_directory(tmp_path: Path) -> None:
    storages = Storages()
    storage = storages.at(str(tmp_path / "a b"))
    assert isinstance(storage, RetryingStorage)
    assert isinstance(storage.inner, LocalStorage)
    storage.make_directory("")
    storage.put_if_absent("x", CONTENT)
    assert storages.at(f"file://{tmp_path}/a b").read("x") == b"content"
    above, key = storages.locate_shared(f"{tmp_path}/a b/x")
    assert (above.url, key) == (str(tmp_path), "a b/x")
    assert above.read(key) == b"content"


def test_other_schemes_go_through_fsspec() -> None:
    storage = Storages().at(f"memory://open-{os.getpid()}/job")
    assert not storage.capabilities.atomic_create
    assert not storage.capabilities.cas
    storage.make_directory("chk-1")
    storage.put_if_absent("chk-1/a", CONTENT)
    other = Storages().at(f"memory://open-{os.getpid()}/job/chk-1")
    assert other.read("a") == b"content"
    assert other.url == f"memory://open-{os.getpid()}/job/chk-1"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://host/dir", "cannot hold checkpoints"),
        ("zip://x", "cannot hold checkpoints"),
        ("nonsense://host/dir", "cannot be opened by fsspec"),
        ("", "not a directory for checkpoints"),
        ("s3://", "names no place"),
    ],
)
def test_what_cannot_be_opened(url: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Storages().at(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'fsspec>="):
        Storages().at("ftp://host/dir")


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("hdfs://host/dir", "hdfs_native", "hdfs-native"),
        ("s3://bucket/dir", "obstore.store", "obstore"),
        ("gs://bucket/dir", "obstore.store", "obstore"),
    ],
)
def test_missing_packages_of_stores_of_their_own(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=f"pip install '{extra}"):
        Storages().at(url)


def test_an_unknown_name_service_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"HADOOP_CONF_DIR"):
        Storages().at("hdfs://nowhere/dir")


def test_what_can_only_be_read_is_opened_for_reading() -> None:
    with pytest.raises(ConfigurationError, match="cannot hold checkpoints"):
        Storages().at("data://x")
    assert Storages().at("data://x", writes=False).url == "data://x"


def test_output_for_others_has_the_modes_of_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        for private, folder_mode, mode in ((True, 0o700, 0o600), (False, 0o755, 0o644)):
            place = tmp_path / str(private)
            storage = Storages(private=private).at(str(place))
            storage.make_directory("a")
            storage.write("a/b", CONTENT)
            storage.put_if_absent("a/c", CONTENT)
            assert (place / "a").stat().st_mode & 0o777 == folder_mode
            assert {path.stat().st_mode & 0o777 for path in (place / "a").iterdir()} == {mode}
    finally:
        os.umask(previous)


def test_roots_are_opened_once() -> None:
    opened = []

    def opener(url: str) -> MemoryStorage:
        opened.append(url)
        return MemoryStorage(url)

    storages = Storages(openers={"mem": opener})
    storages.at("mem://host/a/b").put_if_absent("x", CONTENT)
    assert storages.at("mem://host/a").read("b/x") == b"content"
    assert storages.at("mem://host/a/b").read("x") == b"content"
    storages.at("mem://other/a")
    assert opened == ["mem://host", "mem://other"]


class Breaking:
    """An fsspec file system whose named operation goes wrong."""

    def __init__(self, inner: Any, operation: str, error: Exception | None) -> None:
        self._inner = inner
        self._operation = operation
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name == self._operation:
            if self._error is None:
                return lambda *args, **options: 3
            return self._raise
        return getattr(self._inner, name)

    def _raise(self, *args: object, **options: object) -> None:
        assert self._error is not None
        raise self._error


def fsspec_storage(operation: str, error: Exception | None) -> FsspecStorage:
    import fsspec

    inner = fsspec.filesystem("memory")
    root = f"/breaking-{os.getpid()}-{operation}"
    inner.makedirs(root, exist_ok=True)
    return FsspecStorage(Breaking(inner, operation, error), root, f"memory:/{root}")


def test_fsspec_a_move_that_fails_is_unknown_and_leaves_no_temporary_file() -> None:
    storage = fsspec_storage("mv", OSError("connection reset"))
    with pytest.raises(UnknownOutcomeError, match="connection reset"):
        storage.put_if_absent("a", CONTENT)
    assert list(storage.list("")) == []


def test_fsspec_a_file_that_became_shorter_is_noticed() -> None:
    storage = fsspec_storage("size", None)
    with pytest.raises(UnknownOutcomeError, match="7 bytes, but has 3"):
        storage.put_if_absent("a", CONTENT)


def test_fsspec_no_permission_is_final() -> None:
    storage = fsspec_storage("open", PermissionError(13, "Permission denied"))
    with pytest.raises(StorageError, match="Permission denied") as caught:
        storage.put_if_absent("a", CONTENT)
    assert not caught.value.retryable


def test_fsspec_a_file_without_a_date_counts_as_new() -> None:
    storage = fsspec_storage("none", None)
    storage.put_if_absent("a", CONTENT)
    fs = storage._fs
    fs_find = fs._inner.find

    class Dateless(Breaking):
        def find(self, path: str, **options: object) -> dict[str, dict[str, object]]:
            found = fs_find(path, **options)
            return {p: {"size": i["size"], "type": i["type"]} for p, i in found.items()}

    dateless = FsspecStorage(Dateless(fs._inner, "", None), storage._root, storage.url)
    (entry,) = dateless.list("")
    assert entry.modified_ms > 2**60
    (entry,) = storage.list("")
    assert 1_600_000_000_000 < entry.modified_ms < 2**50


def test_fsspec_a_driver_that_does_not_load_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import fsspec

    def broken(_url: str) -> None:
        raise OSError("Unable to load libjvm\ndlopen(/a) failed\ndlopen(/b) failed")

    monkeypatch.setattr(fsspec.core, "url_to_fs", broken)
    with pytest.raises(ConfigurationError, match=r"libjvm\. Install and configure") as caught:
        Storages().at("ftp://cluster/checkpoints")
    assert "dlopen" not in str(caught.value)
