"""The few system calls that local storage is made of, so that a simulated disk can stand in.

A power cut between any two of them must leave every published checkpoint whole; the simulated disk
(`penstock.testing.simulated_disk`) shows that by trying.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.checkpoint.storage.content import PIECE_BYTES

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class DiskEntry:
    """What a path is."""

    is_directory: bool
    size_bytes: int
    modified_ms: int


class Disk(Protocol):
    """A file system; errors are `OSError` with their numbers."""

    def create(self, path: str) -> int:
        """Makes a new file, 0600, and returns a descriptor to write to."""

    def write(self, descriptor: int, data: memoryview) -> int:
        """Writes some of `data`; returns how much."""

    def fsync(self, descriptor: int) -> None:
        """Makes the content of a file durable."""

    def close(self, descriptor: int) -> None:
        """Closes a descriptor."""

    def link(self, existing: str, new: str) -> None:
        """Gives a file a second name, if that name is free."""

    def unlink(self, path: str) -> None:
        """Removes a name."""

    def make_directory(self, path: str) -> None:
        """Makes one directory, 0700."""

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory durable."""

    def pieces(self, path: str) -> Iterator[bytes]:
        """Reads a file."""

    def entry(self, path: str) -> DiskEntry | None:
        """Looks at a path; None when nothing is there."""

    def names(self, path: str) -> list[str]:
        """Lists a directory."""

    def real_path(self, path: str) -> str:
        """Follows all symbolic links."""


class SystemDisk:
    """The machine's own file systems."""

    def create(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, FILE_MODE)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def link(self, existing: str, new: str) -> None:
        os.link(existing, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, DIRECTORY_MODE)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def pieces(self, path: str) -> Iterator[bytes]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, PIECE_BYTES):
                yield piece
        finally:
            os.close(descriptor)

    def entry(self, path: str) -> DiskEntry | None:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            # Where a part of the path is a file, nothing can be said of what should be there.
            return None
        is_directory = stat.S_ISDIR(found.st_mode)
        return DiskEntry(is_directory, found.st_size, found.st_mtime_ns // 1_000_000)

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)
