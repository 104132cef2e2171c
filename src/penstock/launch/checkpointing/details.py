"""What completed checkpoints carry with them: the pointer's entry and the manifest."""

from __future__ import annotations

from penstock.checkpoint.coordination.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.pointer import PointerEntry
from penstock.checkpoint.snapshot_load import LoadedSnapshot


def completed_from(loaded: LoadedSnapshot) -> CompletedCheckpoint:
    """Returns a snapshot that was found on storage as the coordinator knows completed ones."""
    manifest = loaded.manifest
    return CompletedCheckpoint(
        manifest.checkpoint_id,
        SnapshotKind.SAVEPOINT if manifest.kind.is_savepoint else SnapshotKind.CHECKPOINT,
        loaded.directory,
        manifest.epoch,
        details=loaded,
    )


def loaded_of(checkpoint: CompletedCheckpoint) -> LoadedSnapshot:
    """Returns what was attached when the checkpoint was written, or found on storage."""
    assert isinstance(checkpoint.details, LoadedSnapshot)
    return checkpoint.details


def entry_of(checkpoint: CompletedCheckpoint) -> PointerEntry:
    """Returns how the pointer names it."""
    # Of one that a predecessor was deleting, no more is known than what the pointer says.
    if isinstance(checkpoint.details, PointerEntry):
        return checkpoint.details
    return loaded_of(checkpoint).entry(is_owned=checkpoint.is_deletable)
