"""The few system calls that local storage is made of, so that a simulated disk can stand in.

A power cut between any two of them must leave every published checkpoint whole; the simulated disk
(`tests/simulated_disk.py`) shows that by trying.

Paths are given without links in them, and none is followed on the way: each part is opened below
the one before. A directory that another user replaces by a link, at whatever moment, leads nowhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.files.contract import PIECE_BYTES

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
# A pipe that lies where a file should be is not waited for.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


@dataclass(frozen=True, slots=True)
class DiskEntry:
    """What a path is."""

    is_directory: bool
    size_bytes: int
    modified_ns: int
    number: int  # Of the file, on its volume: another one has another number or another time.


class Disk:
    """The machine's file systems; errors are `OSError` with their numbers.

    Args:
        private: Whether only this user may read what is written; else the process's umask says.
    """

    _file_mode, _directory_mode = FILE_MODE, DIRECTORY_MODE

    def __init__(self, *, private: bool = True) -> None:
        if not private:
            self._file_mode, self._directory_mode = 0o666, 0o777

    def create(self, path: str) -> int:
        """Makes a new file and returns a descriptor to write to."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _above(path) as (directory, name):
            return os.open(name, flags, self._file_mode, dir_fd=directory)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Writes some of `data`; returns how much."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Makes the content of a file durable."""
        os.fsync(descriptor)

    def sync_file(self, path: str) -> None:
        """Makes the content of a file durable that is not open."""
        with _opened(path) as descriptor:
            os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Closes a descriptor."""
        os.close(descriptor)

    def link(self, existing: str, new: str) -> None:
        """Gives a file a second name on its volume, if that name is free."""
        with _above(existing) as (source, old_name), _above(new) as (target, name):
            os.link(old_name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name on its volume, in place of a file that has it."""
        with _above(old) as (source, old_name), _above(new) as (target, name):
            os.rename(old_name, name, src_dir_fd=source, dst_dir_fd=target)

    def unlink(self, path: str) -> None:
        """Removes a name."""
        with _above(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def make_directory(self, path: str) -> None:
        """Makes one directory."""
        with _above(path) as (directory, name):
            os.mkdir(name, self._directory_mode, dir_fd=directory)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        with _above(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory durable."""
        with _opened(path, _DIRECTORY) as descriptor:
            os.fsync(descriptor)

    def read_range(self, path: str, start: int, size_bytes: int) -> bytes:
        """Reads a part of a file; less where it ends."""
        with _opened(path) as descriptor:
            return os.pread(descriptor, size_bytes, start)

    def pieces(self, path: str) -> Iterator[bytes]:
        """Reads a file."""
        with _opened(path) as descriptor:
            while piece := os.read(descriptor, PIECE_BYTES):
                yield piece

    def entry(self, path: str) -> DiskEntry | None:
        """Looks at a path; None when nothing is there."""
        try:
            with _above(path) as (directory, name):
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            # Where a part of the path is a file, nothing can be said of what should be there.
            return None
        is_directory = stat.S_ISDIR(found.st_mode)
        return DiskEntry(is_directory, found.st_size, found.st_mtime_ns, found.st_ino)

    def names(self, path: str) -> list[str]:
        """Lists a directory, without the links in it."""
        with _opened(path, _DIRECTORY) as descriptor, os.scandir(descriptor) as found:
            return [entry.name for entry in found if not entry.is_symlink()]

    def real_path(self, path: str) -> str:
        """Follows all symbolic links."""
        return os.path.realpath(path)


@contextlib.contextmanager
def _above(path: str) -> Iterator[tuple[int, str]]:
    """Opens the directory of a path, part by part; yields it and the name in it."""
    assert path.startswith("/"), path
    *parts, name = [part for part in path.split("/") if part] or ["."]
    descriptor = os.open("/", _PART)
    try:
        for part in parts:
            below = os.open(part, _PART, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: str, flags: int = _READ) -> Iterator[int]:
    with _above(path) as (directory, name):
        descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
