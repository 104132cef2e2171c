"""What goes wrong with stored snapshots.

FilesError                       stored files (files.errors)
└── CheckpointError
├── SnapshotDamagedError     files of a snapshot are missing or damaged, and will stay so
└── FencedError              another leader writes now: stop
"""

from __future__ import annotations

from typing import Final

from penstock.core.codec import DamagedError
from penstock.files.errors import FilesError


class CheckpointError(FilesError):
    """A checkpoint or savepoint cannot be written, found or removed."""


class SnapshotDamagedError(CheckpointError):
    """Files of a snapshot are missing or damaged: trying again does not help."""


class FencedError(CheckpointError):
    """Another leader has taken over."""


LASTING_DAMAGE: Final = (DamagedError, SnapshotDamagedError)
"""Errors for people: trying again does not help, and an older checkpoint would repeat output."""
