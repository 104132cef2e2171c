"""One job manager for one directory: a lock that the system lets go when its process dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.core.errors import ConfigurationError
from penstock.core.file_area import make_private
from penstock.jobmanager.job_directory import FILE_MODE


class DirectoryLock:
    """Held until `release`, or the end of the process.

    Args:
        directory: Made if it is missing.

    Raises:
        ConfigurationError: Another process holds it, or the directory cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        try:
            make_private(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, FILE_MODE)
        except OSError as error:
            raise ConfigurationError(
                f"the job manager cannot use {directory}: {error.strerror}. Set "
                "penstock.jobmanager.directory to a directory of your own."
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._descriptor, 100).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise ConfigurationError(
                f"another job manager (process {owner or 'unknown'}) works in {directory}. Use "
                "that one, stop it first, or give this one a directory of its own: "
                "-D penstock.jobmanager.directory=…"
            ) from None
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)
