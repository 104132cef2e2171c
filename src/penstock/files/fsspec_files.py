"""Stored files on any other file system that fsspec knows (extra `fsspec`).

fsspec has no durability contract, and neither exclusive creation nor compare-and-set in common. So:

* a file is written under a temporary name, moved to its own, and its length is looked at again;
* put-if-absent looks before it writes. Names of data files are never used twice, which makes that
  enough for them, but two leaders are kept apart by nothing: `capabilities` says so, and high
  availability needs another store for its pointers.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ConfigurationError, install_extra
from penstock.files.contract import (
    PIECE_BYTES,
    Capabilities,
    Entry,
    RemoteStorage,
    behind_the_end,
    check_key,
)
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
    UnknownOutcomeError,
)
from penstock.files.local import TEMPORARY_PREFIX

if TYPE_CHECKING:
    import datetime

    from penstock.files.contract import Content

_READ_ONLY: Final = {"data", "git", "github", "http", "https", "reference", "tar", "zip"}


class FsspecStorage(RemoteStorage):
    """One file system of fsspec, below a directory.

    Args:
        file_system: fsspec's object.
        root: Path of the directory in it.
        url: Where that is.
    """

    def __init__(self, file_system: Any, root: str, url: str) -> None:
        self.url = url
        self._fs = file_system
        self._root = root.rstrip("/")
        self._numbers = itertools.count()
        self.capabilities = Capabilities(atomic_create=False, cas=False)

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        if self.exists(key):
            raise ObjectExistsError(f"{self.url_of(key)} exists already.")
        self.write(key, content, deferred=deferred)

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        path = self._path(key)
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/{TEMPORARY_PREFIX}{name}-{os.getpid()}-{next(self._numbers)}"
        with self._request("write", key, unknown=True):
            if not self._fs.isdir(directory):
                raise ObjectMissingError(
                    f"{self.url_of(key)} cannot be written: its directory does not exist; its "
                    "checkpoint was aborted or removed."
                )
            try:
                with self._fs.open(temporary, "wb") as file:
                    for piece in content.pieces(f"the source of {self.url_of(key)}"):
                        file.write(piece)
                self._move(temporary, path)
            finally:
                if self._fs.exists(temporary):
                    self._fs.rm_file(temporary)
            found = self._fs.size(path)
        if found != content.size_bytes:
            raise UnknownOutcomeError(
                f"{self.url_of(key)} was written with {content.size_bytes:,} bytes, but has "
                f"{found:,}."
            )

    def rename(self, key: str, new: str) -> None:
        with self._request("rename", key, unknown=True):
            self._fs.info(self._path(key))
            self._move(self._path(key), self._path(new))

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        with self._request("read", key), self._fs.open(self._path(key), "rb") as file:
            file.seek(start)
            found: bytes = file.read(size_bytes)
        if len(found) < size_bytes:
            raise behind_the_end(self.url_of(key), start, size_bytes)
        return found

    def pieces(self, key: str) -> Iterator[bytes]:
        with self._request("read", key), self._fs.open(self._path(key), "rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def entry(self, key: str) -> Entry | None:
        with self._request("look at", key), contextlib.suppress(FileNotFoundError):
            # What a client remembers of a listing must not decide about a file.
            self._fs.invalidate_cache()
            found = self._fs.info(self._path(key))
            return None if found["type"] == "directory" else _entry(key, found)
        return None

    def delete(self, key: str) -> None:
        with self._request("delete", key, unknown=True), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        start, found = f"{self._root}/", {}
        with self._request("list", prefix), contextlib.suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            found = self._fs.find(self._path(prefix) if prefix else self._root, detail=True)
        for path, info in sorted(found.items()):
            inside = path if path.startswith(start) else f"/{path}"
            yield _entry(inside[len(start) :], info)

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        path = self._path(key) if key else self._root
        with self._request("create", key):
            if exclusive and self._fs.exists(path):
                raise ObjectExistsError(f"{self.url_of(key)} exists already.")
            self._fs.makedirs(path, exist_ok=True)

    def remove_directory(self, key: str) -> None:
        path = self._path(key)
        try:
            # Not every file system refuses to remove a directory that is not empty.
            if self._fs.isdir(path) and not self._fs.ls(path, detail=False):
                self._fs.rmdir(path)
        except (OSError, NotImplementedError):
            return

    # -- details ------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _move(self, path: str, new: str) -> None:
        if self._fs.exists(new):
            self._fs.rm_file(new)  # Not every file system replaces a file.
        self._fs.mv(path, new)

    def _said(self, error: Any) -> tuple[str, str | None]:
        lasts = isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError)
        return str(error.strerror or error), "" if lasts else None


def open_fsspec(url: str, *, writes: bool) -> FsspecStorage:
    """Opens a file system by the scheme of a URL; fsspec's own configuration applies.

    Args:
        url: Where it is.
        writes: Whether something will be written to it.

    Raises:
        ConfigurationError: fsspec or the package for the scheme is missing, or it cannot be
            written to.
    """
    scheme, _, place = url.partition("://")
    try:
        import fsspec
    except ImportError as error:
        raise ConfigurationError(
            f"{url} needs the package fsspec. Install it with: {install_extra('fsspec')}."
        ) from error
    if writes and scheme in _READ_ONLY:
        raise ConfigurationError(
            f"{url}: a {scheme} address cannot hold checkpoints, nor any other output. Use a "
            "directory, s3:, or a file system that can be written to."
        )
    try:
        file_system, root = fsspec.core.url_to_fs(url)
    except Exception as error:
        # A driver raises what it likes; the first line says it, and some add hundreds.
        first = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigurationError(
            f"{url} cannot be opened by fsspec: {first}. Install and configure what the scheme "
            f"'{scheme}' needs on this machine, or choose another directory."
        ) from error
    return FsspecStorage(file_system, root or place, url)


def _entry(key: str, info: Mapping[str, Any]) -> Entry:
    modified_ms = _modified_ms(info)
    version = info.get("ETag") or info.get("etag") or modified_ms
    # HTTP does not always say how long a file is.
    return Entry(key, int(info["size"] or 0), modified_ms, str(version))


def _modified_ms(info: Mapping[str, Any]) -> int:
    """Returns when a file was written; file systems name it differently, and some do not know."""
    for name in ("mtime", "modified", "last_modified", "LastModified", "created", "updated"):
        value: datetime.datetime | float | None = info.get(name)
        if isinstance(value, int | float):
            return int(value * 1000)
        if value is not None and hasattr(value, "timestamp"):
            return int(value.timestamp() * 1000)
    # Unknown counts as just written: the sweep leaves it alone.
    return 2**62
