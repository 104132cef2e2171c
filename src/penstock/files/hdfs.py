"""Stored files on HDFS, through hdfs-native (extra `hdfs`), without a JVM.

The NameNode decides about names: of many renames to one name exactly one succeeds, and a rename
that replaces does so at once. So a file is written under a temporary name, its bytes are
synced to the disks of the DataNodes, and it is renamed. Listings are consistent, which makes
numbered records safe: HDFS can hold the records of high availability.

The client reads the cluster's configuration from HADOOP_CONF_DIR, or HADOOP_HOME/etc/hadoop.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Iterator
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
from penstock.files.disk import DIRECTORY_MODE, FILE_MODE
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
)
from penstock.files.local import TEMPORARY_PREFIX

if TYPE_CHECKING:
    from penstock.files.contract import Content

_ATTEMPTS: Final = "4"
"""By default the client looks for a NameNode for three minutes, at each request."""
# What the client raises for RPCs that fail, beside OSError.
_ERRORS: Final = (OSError, RuntimeError)


class HdfsStorage(RemoteStorage):
    """One name service.

    Args:
        client: Of hdfs-native.
        url: Where its root is.
        private: Whether only this user may read what is written; else the cluster's rules say.
    """

    capabilities = Capabilities(atomic_create=True, cas=False)
    client_errors = _ERRORS

    def __init__(self, client: Any, url: str, *, private: bool) -> None:
        import hdfs_native

        self.url = url
        self._client = client
        self._directory_mode = DIRECTORY_MODE if private else 0o755
        self._options = hdfs_native.WriteOptions(
            permission=FILE_MODE if private else 0o644, overwrite=False, create_parent=False
        )
        self._writer_id = secrets.token_hex(8)
        self._numbers = itertools.count()

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        if self.exists(key):
            raise ObjectExistsError(f"{self.url_of(key)} exists already.")
        self._write(key, content, replaces=False)

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self._write(key, content, replaces=True)

    def rename(self, key: str, new: str) -> None:
        with self._request("rename", key, unknown=True):
            self._client.rename(_path(key), _path(new), True)

    def pieces(self, key: str) -> Iterator[bytes]:
        with self._request("read", key):
            file = self._client.read(_path(key))
            yield from map(bytes, file.read_range_stream(0, len(file)))

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        with self._request("read", key):
            file = self._client.read(_path(key))
            if start + size_bytes > len(file):
                raise behind_the_end(self.url_of(key), start, size_bytes)
            return bytes(file.read_range(start, size_bytes))

    def entry(self, key: str) -> Entry | None:
        with self._request("look at", key), contextlib.suppress(FileNotFoundError):
            found = self._client.get_file_info(_path(key))
            return None if found.isdir else _entry(found)
        return None

    def delete(self, key: str) -> None:
        with self._request("delete", key, unknown=True):
            self._client.delete(_path(key), False)

    def list(self, prefix: str) -> Iterator[Entry]:
        with self._request("list", prefix), contextlib.suppress(FileNotFoundError):
            found = self._client.list_status(_path(prefix) if prefix else "/", True)
            yield from (_entry(status) for status in found if not status.isdir)

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        path = _path(key) if key else "/"
        try:
            if not exclusive:
                self._client.mkdirs(path, self._directory_mode, True)
                return
            # Making what exists is no error; renaming to it is one.
            above = path.rpartition("/")[0]
            temporary = self._temporary(path)
            self._client.mkdirs(above or "/", self._directory_mode, True)
            self._client.mkdirs(temporary, self._directory_mode, False)
            try:
                self._client.rename(temporary, path, False)
            except _ERRORS:
                self._client.delete(temporary, False)
                raise
        except FileExistsError as error:
            raise ObjectExistsError(f"{self.url_of(key)} exists already.") from error
        except _ERRORS as error:
            raise self._failed("create", key, error) from error

    def remove_directory(self, key: str) -> None:
        with contextlib.suppress(*_ERRORS):
            if self._client.get_file_info(_path(key)).isdir:
                self._client.delete(_path(key), False)  # Refused unless it is empty.

    # -- details ------------------------------------------------------------------------------

    def _write(self, key: str, content: Content, *, replaces: bool) -> None:
        path = _path(key)
        temporary = self._temporary(path)
        try:
            file = self._client.create(temporary, self._options)
        except FileNotFoundError as error:
            raise ObjectMissingError(
                f"{self.url_of(key)} cannot be written: its directory does not exist; its "
                "checkpoint was aborted or removed."
            ) from error
        except _ERRORS as error:
            raise self._failed("write", key, error) from error
        try:
            try:
                for piece in content.pieces(f"the source of {self.url_of(key)}"):
                    for start in range(0, len(piece), PIECE_BYTES):
                        file.write(piece[start : start + PIECE_BYTES])
                if content.size_bytes:
                    file.hsync()
            finally:
                file.close()
            self._client.rename(temporary, path, replaces)
        except BaseException as error:
            with contextlib.suppress(*_ERRORS):
                self._client.delete(temporary, False)
            if isinstance(error, FileExistsError):
                raise ObjectExistsError(f"{self.url_of(key)} exists already.") from error
            if isinstance(error, _ERRORS):
                raise self._failed("write", key, error, unknown=True) from error
            raise

    def _temporary(self, path: str) -> str:
        directory, _, name = path.rpartition("/")
        return f"{directory}/{TEMPORARY_PREFIX}{name}-{self._writer_id}-{next(self._numbers)}"

    def _said(self, error: Any) -> tuple[str, str | None]:
        # The NameNode sends its stack trace along.
        first = str(error).partition("\n")[0].partition("\\n")[0]
        denied = isinstance(error, PermissionError) or "AccessControlException" in first
        remedy = " Give the user of the job write permission, or configure another directory."
        return first, remedy if denied else None


def open_hdfs(url: str, *, private: bool) -> HdfsStorage:
    """Opens a name service; Hadoop's configuration files apply.

    Raises:
        ConfigurationError: The extra `hdfs` is not installed, or the name service is unknown.
    """
    try:
        import hdfs_native
    except ImportError as error:
        raise ConfigurationError(
            f"{url} needs the package hdfs-native. Install it with: {install_extra('hdfs')}."
        ) from error
    try:
        client = hdfs_native.Client(url, {"dfs.client.failover.max.attempts": _ATTEMPTS})
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"{url} cannot be opened: {first}. Name a NameNode and its port, or point "
            "HADOOP_CONF_DIR to the directory of the cluster's core-site.xml and hdfs-site.xml."
        ) from error
    return HdfsStorage(client, url, private=private)


def _path(key: str) -> str:
    return f"/{check_key(key)}"


def _entry(found: Any) -> Entry:
    modified_ms = int(found.modification_time)
    return Entry(found.path.lstrip("/"), int(found.length), modified_ms, str(modified_ms))
