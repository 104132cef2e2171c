"""Checkpoint storage on any other file system that fsspec knows: hdfs, gs, abfs (extra `fsspec`).

fsspec has no durability contract, and neither exclusive creation nor compare-and-set in common. So:

* a file is written under a temporary name, moved to its own, and its length is looked at again;
  object stores, where a file appears when it is whole, are written to directly;
* put-if-absent looks before it writes. Names of data files are never used twice, which makes that
  enough for them, but two leaders are kept apart by nothing: `capabilities` says so, and high
  availability needs another store for its pointers.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.core.errors import ConfigurationError
from penstock.core.naming import install_extra
from penstock.files.contract import PIECE_BYTES, Capabilities, Entry, Storage, check_key
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.local import TEMPORARY_PREFIX

if TYPE_CHECKING:
    import datetime

    from penstock.files.contract import Content

_APPEAR_WHOLE: Final = {"abfs", "abfss", "az", "gcs", "gs"}
_READ_ONLY: Final = {"data", "git", "github", "http", "https", "reference", "tar", "zip"}


class FsspecStorage(Storage):
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
        self._direct = url.partition("://")[0] in _APPEAR_WHOLE
        self._numbers = itertools.count()
        self.capabilities = Capabilities(atomic_create=False, cas=False)

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        path = self._path(key)
        directory, _, _ = path.rpartition("/")
        try:
            if self._fs.exists(path):
                raise ObjectExistsError(f"{self.url_of(key)} exists already.")
            if not self._direct and not self._fs.isdir(directory):
                raise ObjectMissingError(
                    f"{self.url_of(key)} cannot be written: its directory does not exist; its "
                    "checkpoint was aborted or removed."
                )
            if self._direct:
                self._write(path, content, key)
            else:
                temporary = f"{directory}/{TEMPORARY_PREFIX}{os.getpid()}-{next(self._numbers)}"
                try:
                    self._write(temporary, content, key)
                    self._fs.mv(temporary, path)
                finally:
                    if self._fs.exists(temporary):
                        self._fs.rm_file(temporary)
            found = self._fs.size(path)
        except OSError as error:
            self._raise("write", key, error, unknown=True)
        if found != content.size_bytes:
            raise UnknownOutcomeError(
                f"{self.url_of(key)} was written with {content.size_bytes:,} bytes, but has "
                f"{found:,}."
            )

    def pieces(self, key: str) -> Iterator[bytes]:
        try:
            with self._fs.open(self._path(key), "rb") as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            self._raise("read", key, error)

    def size(self, key: str) -> int | None:
        try:
            found = self._fs.info(self._path(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._raise("look at", key, error)
        return None if found["type"] == "directory" else int(found["size"])

    def delete(self, key: str) -> None:
        try:
            self._fs.rm_file(self._path(key))
        except FileNotFoundError:
            return
        except OSError as error:
            self._raise("delete", key, error, unknown=True)

    def list(self, prefix: str) -> Iterator[Entry]:
        start = f"{self._root}/"
        try:
            # What a client remembers of a listing must not decide about a sweep.
            self._fs.invalidate_cache()
            found = self._fs.find(self._path(prefix) if prefix else self._root, detail=True)
        except FileNotFoundError:
            return
        except OSError as error:
            self._raise("list", prefix, error)
        for path, info in sorted(found.items()):
            inside = path if path.startswith(start) else f"/{path}"
            yield Entry(inside[len(start) :], int(info["size"]), _modified_ms(info))

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        path = self._path(key) if key else self._root
        try:
            if exclusive and self._fs.exists(path):
                raise ObjectExistsError(f"{self.url_of(key)} exists already.")
            self._fs.makedirs(path, exist_ok=True)
        except OSError as error:
            self._raise("create", key, error)

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

    def _write(self, path: str, content: Content, key: str) -> None:
        with self._fs.open(path, "wb") as file:
            try:
                for piece in content.pieces(f"the source of {self.url_of(key)}"):
                    file.write(piece)
            except BaseException:
                discard = getattr(file, "discard", None)
                if self._direct and discard is not None:
                    discard()
                raise

    def _raise(self, verb: str, key: str, error: OSError, *, unknown: bool = False) -> NoReturn:
        text = f"cannot {verb} {self.url_of(key)}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            raise ObjectMissingError(text) from error
        if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
            raise StorageError(text, retryable=False) from error
        if unknown:
            raise UnknownOutcomeError(text) from error
        raise StorageError(text) from error


def open_fsspec(url: str) -> FsspecStorage:
    """Opens a file system by the scheme of a URL; fsspec's own configuration applies.

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
    if scheme in _READ_ONLY:
        raise ConfigurationError(
            f"{url}: a {scheme} address cannot hold checkpoints. Use a directory, s3:, or a file "
            "system that can be written to."
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
