"""What completed checkpoints carry with them: the pointer's entry and the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.pointer import PointerEntry
from penstock.checkpoint.snapshot_load import LoadedSnapshot

if TYPE_CHECKING:
    from penstock.checkpoint.deletion import DeletionReport
    from penstock.checkpoint.upload_plan import UploadPlan


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


def check_complete(report: DeletionReport) -> None:
    """Raises when files are left."""
    if not report.is_complete:
        place, reason = report.failed[0]
        raise CheckpointError(
            f"{len(report.failed)} files could not be deleted, among them {place}: {reason}"
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


def figures_of(plan: UploadPlan) -> CheckpointFigures:
    """Returns the sizes that history and log show."""
    return CheckpointFigures(
        checkpointed_bytes=plan.new_bytes + plan.inline_bytes,
        state_bytes=plan.new_bytes + plan.inline_bytes + plan.reused_bytes,
        files_new=len(plan.puts),
        files_reused=plan.reused_files,
        inline_bytes=plan.inline_bytes,
    )
