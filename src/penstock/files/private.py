"""Directories and files of this user alone: made, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.core.errors import ConfigurationError


def make_private(directory: Path, own: Path | None = None) -> None:
    """Makes a directory, and all that is missing above it, for this user alone.

    Args:
        directory: May exist.
        own: Itself or a directory above it. From there on, what exists must be this user's own and
            no link, and others must not be able to write to it: anybody can make a directory of
            this name in a place such as /tmp.

    Raises:
        ConfigurationError: Another user made it, or could have changed it.
        OSError: It cannot be made.
    """
    for level in (*reversed(directory.parents), directory):
        is_ours = own is not None and level.is_relative_to(own)
        if not level.is_dir() and not (is_ours and level.is_symlink()):
            level.mkdir(mode=0o700, exist_ok=True)
        if is_ours:
            _check_private(level)


def _check_private(directory: Path) -> None:
    facts = directory.lstat()
    mode = stat.S_IMODE(facts.st_mode)
    problem = ""
    if not stat.S_ISDIR(facts.st_mode):
        problem = "is a link or a file"
    elif facts.st_uid != os.geteuid():
        problem = f"belongs to user {facts.st_uid} and not to {os.geteuid()}, who runs this"
    elif mode & 0o022:
        problem = f"has mode {mode:04o}, with which other users can change what is in it"
    if problem:
        raise ConfigurationError(
            f"the working directory {directory} {problem}: state, programs and tokens would not "
            "be safe there. Remove it if you can, or set io.tmp.dirs (without it, TMPDIR counts) "
            "to a directory of your own."
        )
    if mode & 0o077:
        directory.chmod(0o700)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Writes a file, 0600, so that a reader sees all of it or what was there before.

    Args:
        path: The file.
        durable: Whether it must outlive a power cut.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if durable:
        make_durable(path.parent)


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Makes some bytes the content of a file; see `replacing`."""
    with replacing(path, durable=durable) as file:
        file.write(data)


def make_durable(path: Path) -> None:
    """Makes the content of a file, or the names in a directory, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
