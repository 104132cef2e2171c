"""Stored files in a local directory, or one mounted from elsewhere, with real durability.

A file that is put is written in five steps, and a power cut between any two leaves either no file
of its name or the whole file:

1. create a temporary file in the same directory, 0600;
2. write and check the content;  3. fsync the file;
4. link it to its name, which fails if the name is taken;  remove the temporary name;
5. fsync the directory.

`write` renames in step 4, which replaces a file of the name and needs no hard links.

A local file on the same volume to which nothing is ever written again takes the place of the
temporary one: it is synced and linked, and neither read nor copied.

An fsync that failed is never repeated on the same descriptor: the kernel may have dropped the pages
and would then report success. The file is thrown away and a retry writes another one.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import posixpath
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.core.fault_points import fault_point
from penstock.files.contract import Capabilities, Content, Entry, Storage, behind_the_end, check_key
from penstock.files.disk import Disk, DiskEntry
from penstock.files.errors import (
    CapabilityError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
    advice,
)

if TYPE_CHECKING:
    from pathlib import Path


TEMPORARY_PREFIX: Final = ".tmp-"
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_LASTING: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG}
_MOST_SYNCED: Final = 10_000
_numbers = itertools.count()
_WRITE: Final = fault_point("storage.write")
_BEFORE_LINK: Final = fault_point("storage.link.before")
_AFTER_LINK: Final = fault_point("storage.link.after")
_BEFORE_DELETE: Final = fault_point("storage.delete.before")
_AFTER_DELETE: Final = fault_point("storage.delete.after")


class LocalStorage(Storage):
    """Files below one directory.

    Args:
        directory: Absolute path. It is made when something is first written, 0700.
        disk: The file system.
        real: Where the directory is for good; by default its own links are followed at each use,
            because a volume may be mounted elsewhere while a job runs.

    No link below the directory is followed.
    """

    capabilities = Capabilities(atomic_create=True, cas=False)

    def __init__(self, directory: str, disk: Disk | None = None, real: str | None = None) -> None:
        assert directory.startswith("/"), directory
        self.url = posixpath.normpath(directory)
        self._disk = disk or Disk()
        self._real = real
        self._links_local_files = True
        # Local files by path, number and time. Where a sync has failed, the kernel would report
        # success to the next one: such a file is copied from then on.
        self._synced: set[tuple[str, int, int]] = set()
        self._not_synced: set[tuple[str, int, int]] = set()
        self._turns = [threading.Lock() for _ in range(16)]

    def pinned(self) -> LocalStorage:
        return LocalStorage(self.url, self._disk, self._root())

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        path = self._path(key)
        with self._written(path, deferred=deferred) as directory:
            if content.link is None or not self._link_local(content, str(content.link), path):
                temporary = self._write_temporary(directory, content, path)
                try:
                    self._link(temporary, path)
                finally:
                    with contextlib.suppress(OSError):
                        self._disk.unlink(temporary)

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        path = self._path(key)
        with self._written(path, deferred=deferred) as directory:
            # A process that dies here leaves a file whose name says what it was to become.
            name = f"{posixpath.basename(path)}-"
            temporary = self._write_temporary(directory, content, path, name)
            try:
                self._rename(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._disk.unlink(temporary)
                raise

    @contextlib.contextmanager
    def _written(self, path: str, *, deferred: bool) -> Iterator[str]:
        """Gives the directory of a file that is written, and makes its name durable."""
        directory = posixpath.dirname(path)
        with self._errors("write", path):
            if self._disk.entry(directory) is None:
                raise ObjectMissingError(
                    f"{path} cannot be written: the directory {directory} does not exist; its "
                    "checkpoint was aborted or removed."
                )
            yield directory
        if not deferred:
            self._sync(directory)

    def rename(self, key: str, new: str) -> None:
        old, path = self._path(key), self._path(new)
        with self._errors("rename", old):
            self._rename(old, path)
        for directory in dict.fromkeys((posixpath.dirname(path), posixpath.dirname(old))):
            self._sync(directory)

    def prepare(self, local: Path) -> None:
        with self._errors("sync", str(local)):
            source = self._disk.real_path(str(local))
            found = self._disk.entry(source)
            if self._links_local_files and found is not None:
                self._sync_local(source, found)

    def pieces(self, key: str) -> Iterator[bytes]:
        path = self._path(key)
        with self._errors("read", path):
            yield from self._disk.pieces(path)

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        path = self._path(key)
        with self._errors("read", path):
            found = self._disk.read_range(path, start, size_bytes)
        if len(found) < size_bytes:
            raise behind_the_end(path, start, size_bytes)
        return found

    def entry(self, key: str) -> Entry | None:
        path = self._path(key)
        with self._errors("look at", path):
            found = self._disk.entry(path)
        return None if found is None or found.is_directory else _entry(key, found)

    def delete(self, key: str) -> None:
        # Not synced: a deletion undone by a power cut leaves an orphan, which the sweep finds.
        path = self._path(key)
        with self._errors("delete", path), contextlib.suppress(FileNotFoundError):
            _BEFORE_DELETE.reach(path)
            self._disk.unlink(path)
            _AFTER_DELETE.reach(path)

    def list(self, prefix: str) -> Iterator[Entry]:
        directory = self._path(prefix) if prefix else self._root()
        with self._errors("list", directory):
            found = self._disk.entry(directory)
            if found is None or not found.is_directory:
                return
            names = sorted(self._disk.names(directory))
        for name in names:
            key = f"{prefix}/{name}" if prefix else name
            with self._errors("look at", f"{directory}/{name}"):
                entry = self._disk.entry(f"{directory}/{name}")
            if entry is None:
                continue
            if entry.is_directory:
                yield from self.list(key)
            else:
                yield _entry(key, entry)

    def flush(self, directory: str) -> None:
        self._sync(self._path(directory) if directory else self._root())

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        path = self._path(key) if key else self._root()
        with self._errors("create", path):
            missing = []
            above = path
            while self._disk.entry(above) is None:
                missing.append(above)
                above = posixpath.dirname(above)
            if exclusive and not missing:
                raise ObjectExistsError(f"{path} exists already.")
            if self._disk.entry(above).is_directory is False:  # type: ignore[union-attr]
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
            for directory in reversed(missing):
                try:
                    self._disk.make_directory(directory)
                except FileExistsError:
                    if exclusive and directory == path:
                        raise ObjectExistsError(f"{path} exists already.") from None
                # Also when another writer made it just now: it may not have synced it yet.
                self._sync_new(directory)

    def remove_directory(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._disk.remove_directory(self._path(key) if key else self._root())

    # -- details ------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        path = f"{self._root().rstrip('/')}/{check_key(key)}"
        above = posixpath.dirname(path)
        # The disk refuses such a link too, without a race, but cannot say as well what is wrong.
        with self._errors("look at", path):
            found = self._disk.real_path(above)
        if found != above:
            raise StorageError(
                f"{self.url_of(key)} leads through a symbolic link to {found}; below a checkpoint "
                "directory no link is followed. Replace it by a directory, or configure its "
                "target.",
                retryable=False,
            )
        return path

    def _root(self) -> str:
        if self._real is not None:
            return self._real
        with self._errors("look at", self.url):
            return self._disk.real_path(self.url)

    def _sync_new(self, directory: str) -> None:
        """Makes the name of a new directory durable, or takes it back.

        Left there without that, the next try would find it and believe in it; a power cut would
        then take it away with all that was published below.
        """
        try:
            self._disk.sync_directory(posixpath.dirname(directory))
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.remove_directory(directory)
            raise

    def _link_local(self, content: Content, source: str, path: str) -> bool:
        """Gives a local file a name here as well; False where only a copy helps."""
        source = self._disk.real_path(source)
        found = self._disk.entry(source)
        if not self._links_local_files or found is None or found.size_bytes != content.size_bytes:
            return False  # If the length is wrong, the copy says so.
        if _WRITE.limit(path, content.size_bytes) is not None:
            _WRITE.tear()  # A link is there or not: nothing of it is torn.
        if not self._sync_local(source, found):
            return False
        try:
            self._link(source, path)
        except (CapabilityError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EXDEV:
                raise
            self._links_local_files = False  # It lies on another volume.
            return False
        return True

    def _sync_local(self, source: str, found: DiskEntry) -> bool:
        """Makes a local file durable, unless it is; False if that fails."""
        key = source, found.number, found.modified_ns
        # In turns: of two syncs at once, only one may see a failure.
        with self._turns[found.number % len(self._turns)]:
            if key in self._not_synced:
                return False
            if key not in self._synced:
                try:
                    self._disk.sync_file(source)
                except FileNotFoundError:
                    return False
                except OSError:
                    self._not_synced.add(key)
                    return False
                if len(self._synced) >= _MOST_SYNCED:
                    self._synced.clear()
                self._synced.add(key)
        return True

    def _write_temporary(self, directory: str, content: Content, path: str, name: str = "") -> str:
        while True:
            temporary = f"{directory}/{TEMPORARY_PREFIX}{name}{os.getpid()}-{next(_numbers)}"
            try:
                descriptor = self._disk.create(temporary)
                break
            except FileExistsError:
                continue
        try:
            try:
                left = _WRITE.limit(path, content.size_bytes)
                for piece in content.pieces(f"the source of {path}"):
                    view = memoryview(piece if left is None else piece[:left])
                    while view:
                        view = view[self._disk.write(descriptor, view) :]
                    if left is not None and (left := left - len(piece)) <= 0:
                        _WRITE.tear()
                self._disk.fsync(descriptor)
            finally:
                self._disk.close(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                self._disk.unlink(temporary)
            raise
        return temporary

    def _link(self, temporary: str, path: str) -> None:
        _BEFORE_LINK.reach(path)
        try:
            self._disk.link(temporary, path)
        except FileExistsError:
            raise ObjectExistsError(f"{path} exists already; it is never overwritten.") from None
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise CapabilityError(
                    f"the file system of {self.url} has no hard links ({error.strerror}), and so "
                    "no way to create a file exactly once. Choose a directory on another one."
                ) from error
            raise
        _AFTER_LINK.reach(path)

    def _rename(self, old: str, path: str) -> None:
        _BEFORE_LINK.reach(path)
        self._disk.rename(old, path)
        _AFTER_LINK.reach(path)

    def _sync(self, directory: str) -> None:
        try:
            self._disk.sync_directory(directory)
        except FileNotFoundError:
            raise ObjectMissingError(
                f"the directory {directory} was removed while files were written to it; its "
                "checkpoint was aborted."
            ) from None
        except OSError as error:
            raise UnknownOutcomeError(
                f"files in {directory} are written, but whether their names would survive a power "
                f"cut is unknown: {error.strerror or error}."
            ) from error

    @contextlib.contextmanager
    def _errors(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectMissingError(f"cannot {verb} {path}: it does not exist.") from error
        except OSError as error:
            raise StorageError(
                f"cannot {verb} {path}: {error.strerror or error}.{advice(error)}",
                retryable=error.errno not in _LASTING,
            ) from error


def _entry(key: str, found: DiskEntry) -> Entry:
    return Entry(key, found.size_bytes, found.modified_ns // 1_000_000, str(found.modified_ns))
