"""What goes wrong with stored snapshots.

    PenstockError
    ├── CheckpointError
    │   ├── StorageError             the request failed and changed nothing
    │   │   ├── ObjectExistsError    put-if-absent found the name taken
    │   │   ├── ObjectMissingError   the file, or the directory it should be in, does not exist
    │   │   └── CapabilityError      this storage cannot do it at all
    │   ├── SnapshotDamagedError     files of a snapshot are missing or damaged, and will stay so
    │   ├── UnknownOutcomeError      the request may have taken effect: never delete, read again
    │   └── FencedError              another leader writes now: stop
    └── StateError
        └── DamagedError             bytes differ from what was written (core.envelope)
            └── ContentError         a data file has another length or checksum than its handle

`UnknownOutcomeError` is not a `StorageError`, so that nobody takes "unknown" for "failed".
"""

from __future__ import annotations

from typing import Final

from penstock.core.envelope import DamagedError
from penstock.core.errors import PenstockError


class CheckpointError(PenstockError):
    """A checkpoint or savepoint cannot be written, found or removed."""


class StorageError(CheckpointError):
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


class SnapshotDamagedError(CheckpointError):
    """Files of a snapshot are missing or damaged: trying again does not help."""


class UnknownOutcomeError(CheckpointError):
    """A request may or may not have taken effect."""


class FencedError(CheckpointError):
    """Another leader has taken over."""


class ContentError(DamagedError):
    """A file has another length or checksum than its handle says."""


LASTING_DAMAGE: Final = (DamagedError, SnapshotDamagedError)
"""Errors for people: trying again does not help, and an older checkpoint would repeat output."""
