"""Where a worker's immutable files live: each is written once, named once, and read with a check.

A file is complete before its handle exists, so a writer that dies leaves a file that nothing names.
No name is ever used twice: a second file of a name gets a suffix, because a late attempt may still
be writing the first.

Where no other executor sees the directory (`HomeArea`), files stay with the executor that wrote
them: it uploads them for checkpoints, and a task elsewhere that needs them fails over to one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from penstock.core.errors import StateError, StateNotHereError
from penstock.core.handles import FileHandle
from penstock.files.errors import StorageError, advice
from penstock.files.private import make_private

DEFAULT_INLINE_THRESHOLD_BYTES: Final = 20 * 1024
_BUFFER_BYTES: Final = 1 << 20
Made = TypeVar("Made")


class FileArea:
    """One directory of immutable files.

    Args:
        directory: Made if it is missing, readable by its owner only.
        inline_threshold_bytes: Up to this size bytes travel in their handle; 0 writes every file.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        inline_threshold_bytes: int = DEFAULT_INLINE_THRESHOLD_BYTES,
    ) -> None:
        self.directory = Path(directory)
        self.inline_threshold_bytes = inline_threshold_bytes
        make_private(self.directory)

    def write(self, name: str, data: bytes, known: FileHandle | None = None) -> FileHandle:
        """Keeps `data`; the returned handle names the file, or holds the bytes when few.

        Args:
            name: Unique over all attempts.
            data: The bytes.
            known: A handle that may be of the same bytes; if it is, nothing is written.
        """
        digest = hashlib.sha256(data).hexdigest()
        if known is not None and (known.sha256, known.size_bytes) == (digest, len(data)):
            return known
        if 0 < len(data) <= self.inline_threshold_bytes:
            return FileHandle(name, len(data), digest, data)
        name, descriptor = self._create(name)
        try:
            try:
                view = memoryview(data)
                while len(view) > 0:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._unwritten(name, error) from error
        return FileHandle(name, len(data), digest)

    def read(self, handle: FileHandle) -> bytes:
        """Returns the bytes of a handle.

        Raises:
            StateError: The file is missing, or its length or checksum is not the handle's.
        """
        if handle.inline is not None:
            data = handle.inline
        else:
            try:
                data = self.path(handle).read_bytes()
            except OSError as error:
                raise self._unreadable(handle, error) from error
        self._check(handle, len(data), hashlib.sha256(data).hexdigest())
        return data

    def verify(self, handle: FileHandle) -> None:
        """Checks length and checksum of a handle's file without keeping its bytes.

        A process reads each file for this once, unless it has changed since: a base of a
        gigabyte would cost seconds at each restore.

        Raises:
            StateError: As for `read`.
        """
        if handle.inline is not None:
            self.read(handle)
            return
        path = self.path(handle)
        try:
            stamp = _stamp_of(path)
            if _verified.get((str(path), handle.sha256)) == stamp:
                return
            digest = _digest_of(path) if stamp.size_bytes == handle.size_bytes else ""
        except OSError as error:
            raise self._unreadable(handle, error) from error
        self._check(handle, stamp.size_bytes, digest)
        _remember(path, digest, stamp)

    def path(self, handle: FileHandle) -> Path:
        """Returns where the file of a handle lies."""
        return self.directory / handle.name

    def adopt(
        self,
        path: str | os.PathLike[str],
        name: str,
        digest: str | None = None,
        *,
        may_be_inline: bool = True,
    ) -> FileHandle:
        """Takes an existing file that will not change any more, by hard link or copy.

        Args:
            path: The file.
            name: What it is called here.
            digest: Its SHA-256, if that is known.
            may_be_inline: Whether its bytes may travel in the handle, when they are few.
        """
        source = Path(path)
        if may_be_inline and source.stat().st_size <= self.inline_threshold_bytes:
            data = source.read_bytes()
            if data:
                return FileHandle(name, len(data), hashlib.sha256(data).hexdigest(), data)
        digest = digest or _digest_of(source)
        name = self._link(source, name)
        target = self.directory / name
        target.chmod(0o600)
        stamp = _stamp_of(target)
        _remember(target, digest, stamp)
        return FileHandle(name, stamp.size_bytes, digest)

    def link_into(
        self, handle: FileHandle, directory: str | os.PathLike[str], filename: str
    ) -> Path:
        """Makes the bytes of a handle appear as `filename` in a private directory."""
        target = Path(directory) / filename
        if handle.inline is not None:
            target.write_bytes(self.read(handle))
            target.chmod(0o600)
            return target
        try:
            os.link(self.path(handle), target)
        except FileNotFoundError as error:
            raise self._unreadable(handle, error) from error
        except OSError:
            # Other file system, or one without hard links.
            shutil.copyfile(self.path(handle), target)
        return target

    def private_directory(self, prefix: str) -> Path:
        """Makes a new directory for working copies; the caller removes it."""
        return Path(tempfile.mkdtemp(prefix=f".{prefix}-", dir=self.directory))

    def _create(self, name: str) -> tuple[str, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        return self._under_new_name(name, lambda path: os.open(path, flags, 0o600))

    def _link(self, source: Path, name: str) -> str:
        try:
            return self._under_new_name(name, lambda path: os.link(source, path))[0]
        except OSError:
            name, descriptor = self._create(name)
        try:
            with os.fdopen(descriptor, "wb") as target, source.open("rb") as opened:
                shutil.copyfileobj(opened, target, _BUFFER_BYTES)
        except OSError as error:
            raise self._unwritten(name, error) from error
        return name

    def _under_new_name(self, name: str, make: Callable[[Path], Made]) -> tuple[str, Made]:
        candidate, number = name, 0
        while True:
            try:
                return candidate, make(self.directory / candidate)
            except FileExistsError:
                number += 1
                candidate = f"{name}.{number}"

    def _check(self, handle: FileHandle, size: int, digest: str) -> None:
        if size != handle.size_bytes:
            raise StateError(
                f"state file {handle.name!r} in {self.directory} has {size:,} bytes, "
                f"expected {handle.size_bytes:,}. It was truncated or replaced; "
                "restore from another checkpoint."
            )
        if digest != handle.sha256:
            raise StateError(
                f"state file {handle.name!r} in {self.directory} has SHA-256 {digest}, "
                f"expected {handle.sha256}. Its content is damaged; restore from another "
                "checkpoint."
            )

    def _unwritten(self, name: str, error: OSError) -> StorageError:
        # A full disk must not stay full of files without a name in any version.
        (self.directory / name).unlink(missing_ok=True)
        return StorageError(
            f"cannot write a state file in {self.directory}: {error.strerror or error}."
            f"{advice(error)} State of running jobs is below io.tmp.dirs, that of executors below "
            "spark.local.dir."
        )

    def _unreadable(self, handle: FileHandle, error: OSError) -> StateError:
        return StateError(
            f"state file {handle.name!r} ({handle.size_bytes:,} bytes) cannot be read from "
            f"{self.directory}: {error.strerror or error}. Restore from another checkpoint, or "
            "check that every worker sees the state directory."
        )


class HomeArea(FileArea):
    """A `FileArea` of one executor: what is not in it can only come from a checkpoint.

    Attributes:
        written: Names of files since `written` was cleared last.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        inline_threshold_bytes: int = DEFAULT_INLINE_THRESHOLD_BYTES,
    ) -> None:
        super().__init__(directory, inline_threshold_bytes)
        self.written: list[str] = []

    def _create(self, name: str) -> tuple[str, int]:
        found = super()._create(name)
        self.written.append(found[0])
        return found

    def _link(self, source: Path, name: str) -> str:
        found = super()._link(source, name)
        self.written.append(found)
        return found

    def remove(self, names: Iterable[str]) -> None:
        """Deletes files that nothing needs any more."""
        for name in names:
            (self.directory / name).unlink(missing_ok=True)

    def sweep(self, kept: Collection[str], prefix: str) -> None:
        """Deletes all files but those to be kept, and those whose names begin with `prefix`."""
        for path in self.directory.iterdir():
            # What begins with a dot is being written.
            if path.is_file() and path.name not in kept and not path.name.startswith((".", prefix)):
                path.unlink(missing_ok=True)

    def arrived(self, handle: FileHandle) -> None:
        """Notes that a file was checked while it was written here."""
        _remember(self.path(handle), handle.sha256, _stamp_of(self.path(handle)))

    def is_whole(self, handle: FileHandle) -> bool:
        """Whether the file of a handle is here, with the length and checksum that it must have."""
        try:
            self.verify(handle)
        except StateError:
            return False
        return True

    def _unreadable(self, handle: FileHandle, error: OSError) -> StateError:
        return StateNotHereError(
            f"state file {handle.name!r} ({handle.size_bytes:,} bytes) is not in {self.directory} "
            f"of this executor on {os.uname().nodename} ({error.strerror or error}): the task "
            "moved, or the executor was lost. The job goes on from its latest checkpoint."
        )


class _Stamp(NamedTuple):
    """What changes when a file is replaced or written to."""

    inode: int
    size_bytes: int
    modified_ns: int


_verified: dict[tuple[str, str], _Stamp] = {}
_MOST_VERIFIED: Final = 10_000


def _stamp_of(path: Path) -> _Stamp:
    found = path.stat()
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _remember(path: Path, digest: str, stamp: _Stamp) -> None:
    if len(_verified) >= _MOST_VERIFIED:
        _verified.clear()
    _verified[str(path), digest] = stamp


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
