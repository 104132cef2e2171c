"""What completed checkpoints carry with them: the pointer's entry and the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.pointer import PointerEntry
from penstock.checkpoint.settings import ClaimMode
from penstock.checkpoint.snapshot_load import LoadedSnapshot

if TYPE_CHECKING:
    from penstock.checkpoint.deletion import DeletionReport
    from penstock.checkpoint.manifest import Manifest
    from penstock.checkpoint.upload_plan import UploadPlan


@dataclass(frozen=True, slots=True)
class SnapshotDetails:
    """What completed checkpoints carry for us.

    Attributes:
        entry: How the pointer names it.
        manifest: What it says.
    """

    entry: PointerEntry
    manifest: Manifest


def completed_from(loaded: LoadedSnapshot, claim_mode: ClaimMode) -> CompletedCheckpoint:
    """Returns a snapshot that was found on storage as the coordinator knows completed ones."""
    is_owned = claim_mode is ClaimMode.CLAIM
    manifest = loaded.manifest
    return CompletedCheckpoint(
        manifest.checkpoint_id,
        SnapshotKind.SAVEPOINT if manifest.kind.is_savepoint else SnapshotKind.CHECKPOINT,
        loaded.directory,
        manifest.epoch,
        details=SnapshotDetails(loaded.entry(is_owned=is_owned), manifest),
    )


def check_complete(report: DeletionReport) -> None:
    """Raises when files are left."""
    if not report.is_complete:
        place, reason = report.failed[0]
        raise CheckpointError(
            f"{len(report.failed)} files could not be deleted, among them {place}: {reason}"
        )


def details_of(checkpoint: CompletedCheckpoint) -> SnapshotDetails:
    """Returns what was attached when the checkpoint was written, or found on storage."""
    assert isinstance(checkpoint.details, SnapshotDetails)
    return checkpoint.details


def entry_of(checkpoint: CompletedCheckpoint) -> PointerEntry:
    """Returns how the pointer names it."""
    # Of one that a predecessor was deleting, no more is known than what the pointer says.
    details = checkpoint.details
    return details if isinstance(details, PointerEntry) else details_of(checkpoint).entry


def loaded_of(checkpoint: CompletedCheckpoint) -> LoadedSnapshot:
    """Returns it as if it was read just now: its manifest is at hand."""
    details = details_of(checkpoint)
    entry = details.entry
    return LoadedSnapshot(entry.directory, details.manifest, entry.size_bytes, entry.sha256)


def figures_of(plan: UploadPlan) -> CheckpointFigures:
    """Returns the sizes that history and log show."""
    return CheckpointFigures(
        checkpointed_bytes=plan.new_bytes + plan.inline_bytes,
        state_bytes=plan.new_bytes + plan.inline_bytes + plan.reused_bytes,
        files_new=len(plan.puts),
        files_reused=plan.reused_files,
        inline_bytes=plan.inline_bytes,
    )
