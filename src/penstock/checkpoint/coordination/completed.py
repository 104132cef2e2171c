"""Completed checkpoints, ordered by id, and which of them go when one is added.

While there are more than `num-retained`, go from oldest to newest and drop an entry unless it is
the latest, or the newest that is not a savepoint, because later increments may build on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.checkpoint.settings import ClaimMode


class SnapshotKind(Enum):
    """What a request asks for."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class SavepointFormat(Enum):
    """Flink's formats of savepoints."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"

    @classmethod
    def of(cls, *, native: bool) -> SavepointFormat:
        """Returns the one that a user asks for."""
        return cls.NATIVE if native else cls.CANONICAL


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A snapshot whose commit point has passed."""

    checkpoint_id: int
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    location: str = ""  # Directory that holds its `_metadata`.
    epoch: int = 0  # Epoch whose end it holds.
    # Whether it is ours to delete once nobody needs it. Savepoints of this job and unclaimed
    # snapshots are the user's.
    is_deletable: bool = True
    may_be_base: bool = True  # Whether increments may refer to its files.
    # Whatever the storage wants back, such as the manifest; never looked into here.
    details: object = field(default=None, compare=False, repr=False)

    @property
    def is_savepoint(self) -> bool:
        return self.kind is SnapshotKind.SAVEPOINT


def claimed(checkpoint: CompletedCheckpoint, mode: ClaimMode) -> CompletedCheckpoint:
    """Returns a snapshot to start from as the claim mode says."""
    return replace(
        checkpoint, is_deletable=mode is ClaimMode.CLAIM, may_be_base=mode is not ClaimMode.NO_CLAIM
    )


class CompletedStore:
    """What the pointer names, in memory. Changes only after the pointer has changed."""

    def __init__(self, num_retained: int) -> None:
        self._num_retained = num_retained
        self.entries: tuple[CompletedCheckpoint, ...] = ()

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """Where recovery starts."""
        return self.entries[-1] if self.entries else None

    @property
    def base(self) -> CompletedCheckpoint | None:
        """The newest entry that increments may build on; None: the next one is full."""
        return next((entry for entry in reversed(self.entries) if entry.may_be_base), None)

    def after_adding(
        self, checkpoint: CompletedCheckpoint
    ) -> tuple[tuple[CompletedCheckpoint, ...], tuple[CompletedCheckpoint, ...]]:
        """Returns what would be kept, and what would be dropped; changes nothing."""
        assert not self.entries or checkpoint.checkpoint_id > self.entries[-1].checkpoint_id
        return split_surplus((*self.entries, checkpoint), self._num_retained)

    def replace(self, entries: Iterable[CompletedCheckpoint]) -> None:
        """Takes over what the pointer names now."""
        self.entries = tuple(sorted(entries, key=lambda entry: entry.checkpoint_id))


def split_surplus(
    entries: tuple[CompletedCheckpoint, ...], num_retained: int
) -> tuple[tuple[CompletedCheckpoint, ...], tuple[CompletedCheckpoint, ...]]:
    """Splits entries, oldest first, into those that stay and the surplus."""
    needed = {entries[-1]}
    needed.update([entry for entry in entries if not entry.is_savepoint][-1:])
    surplus = len(entries) - num_retained
    kept: list[CompletedCheckpoint] = []
    dropped: list[CompletedCheckpoint] = []
    for entry in entries:
        if len(dropped) < surplus and entry not in needed:
            dropped.append(entry)
        else:
            kept.append(entry)
    return tuple(kept), tuple(dropped)
