"""What goes wrong with stored files.

    PenstockError
    ├── FilesError
    │   ├── StorageError             the request failed and changed nothing
    │   │   ├── ObjectExistsError    put-if-absent found the name taken
    │   │   ├── ObjectMissingError   the file, or the directory it should be in, does not exist
    │   │   └── CapabilityError      this storage cannot do it at all
    │   └── UnknownOutcomeError      the request may have taken effect: never delete, read again
    └── StateError
        └── DamagedError             bytes differ from what was written (core.envelope)
            └── ContentError         a file has another length or checksum than its handle

`UnknownOutcomeError` is not a `StorageError`: "unknown" is not "failed".
"""

from __future__ import annotations

import errno

from penstock.core.codec import DamagedError
from penstock.core.errors import PenstockError


class FilesError(PenstockError):
    """A stored file cannot be written, found, read or removed."""

    failure_label = "storage"


class StorageError(FilesError):
    """A request failed and changed nothing.

    Attributes:
        retryable: Whether the same request may succeed a moment later.
    """

    retryable = True

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = self.retryable and retryable


class ObjectExistsError(StorageError):
    """The name is taken."""

    retryable = False


class ObjectMissingError(StorageError):
    """The file or its directory does not exist."""

    retryable = False


class CapabilityError(StorageError):
    """The storage cannot do what is needed."""

    retryable = False


class UnknownOutcomeError(FilesError):
    """A request may or may not have taken effect."""


class ContentError(DamagedError):
    """A file has another length or checksum than its handle says."""


def advice(error: OSError) -> str:
    """Returns what a user can do about an error of the operating system, after a blank."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return " Free some space there, or configure another directory."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return " Give the user of the job write permission, or configure another directory."
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return " A part of the path is a file; configure a directory."
    return ""
