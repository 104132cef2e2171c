"""Where a job starts: its own latest checkpoint, else the snapshot a user names, else nowhere.

A job has checkpoints of its own at the start when a job manager starts it again. Attempts before
this one are locked out of its pointer first: one that still lives publishes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, SnapshotKind, claimed
from penstock.checkpoint.deletion import SharedRegistry
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import CLAIM
from penstock.checkpoint.settings import ClaimMode
from penstock.checkpoint.snapshot_load import (
    LoadedSnapshot,
    completed_from,
    load_completed,
    load_snapshot,
)
from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.files.contract import Content
from penstock.files.errors import ObjectExistsError

if TYPE_CHECKING:
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.pointer import Pointer, PointerEntry
    from penstock.files.urls import Storages


@dataclass(frozen=True, slots=True)
class StartPoint:
    """What a job starts from."""

    loaded: LoadedSnapshot
    restored: events.Restored  # What the checkpoint coordinator is told.
    claim_mode: ClaimMode | None  # Who owns the snapshot; None when it is the job's own.
    registry: SharedRegistry  # Shared files of the job's own checkpoints.

    def adopt(self, files: CheckpointFiles, job_id: str) -> None:
        """Makes the snapshot the job's. Leaves a mark, so only after it was found to fit.

        Raises:
            CheckpointError: The job must own it, and another job has claimed it.
        """
        if self.claim_mode is ClaimMode.CLAIM:
            claim_snapshot(files.storages, self.loaded.directory, job_id)
        files.registry = self.registry


class JobEndedError(PenstockError):
    """The job is over: its checkpoints are gone, and starting from nothing would repeat its output.

    Attributes:
        status: How it ended.
    """

    def __init__(self, status: JobStatus) -> None:
        super().__init__(f"the job ended before, {status.name}; only its process did not tell.")
        self.status = status


def find_start(
    files: CheckpointFiles, restore_path: str | None, mode: ClaimMode
) -> StartPoint | None:
    """Returns what to start from; None for an empty state.

    Raises:
        CheckpointError: The snapshot cannot be read, or the checkpoint directory not be used.
        FencedError: A later attempt of the job runs already.
        JobEndedError: An earlier attempt came to the end, and died before it could tell.
    """
    files.probe()
    if files.leader_epoch > 1:
        pointer, last_id = files.take_over()
        if pointer.ended_job == files.job_id:
            raise JobEndedError(JobStatus[pointer.ended_status])
        own = own_start(pointer, last_id, files)
        if own is not None:
            return own
    if restore_path is None:
        return None
    loaded = load_snapshot(files.storages, restore_path)
    if mode is ClaimMode.CLAIM:
        registry = SharedRegistry().registered(loaded.manifest)
    else:
        registry = SharedRegistry(unclaimed_up_to=loaded.manifest.checkpoint_id)
    checkpoint = completed_from(loaded)
    restored = events.Restored((checkpoint,), checkpoint.checkpoint_id, mode)
    return StartPoint(loaded, restored, mode, registry)


def own_start(pointer: Pointer, last_id: int, files: CheckpointFiles) -> StartPoint | None:
    """Returns the latest of the job's own checkpoints; None when there is none."""
    if not pointer.completed:
        return None
    snapshots = load_completed(files.storages, pointer)
    owned = [entry.is_owned for entry in pointer.completed]
    foreign = [entry.checkpoint_id for entry in pointer.completed if not entry.is_owned]
    registry = SharedRegistry.rebuilt(
        (loaded.manifest for loaded, is_ours in zip(snapshots, owned, strict=True) if is_ours),
        unclaimed_up_to=max([*foreign, pointer.unclaimed_up_to]),
    )
    restored = events.Restored(
        tuple(_completed(each, is_ours) for each, is_ours in zip(snapshots, owned, strict=True)),
        last_id,
        subsumed=tuple(_subsumed(entry) for entry in pointer.subsumed),
    )
    # Without a directory for each job, another job may have left its pointer here.
    is_ours = snapshots[-1].manifest.job_id == files.job_id
    return StartPoint(snapshots[-1], restored, None, registry) if is_ours else None


def _completed(loaded: LoadedSnapshot, is_owned: bool) -> CompletedCheckpoint:
    """Returns a checkpoint of the job; one that is not its own is treated with most caution."""
    found = completed_from(loaded)
    return found if is_owned else claimed(found, ClaimMode.NO_CLAIM)


def _subsumed(entry: PointerEntry) -> CompletedCheckpoint:
    """Returns one whose deletion an earlier attempt may not have finished."""
    kind = SnapshotKind.SAVEPOINT if entry.is_savepoint else SnapshotKind.CHECKPOINT
    return CompletedCheckpoint(
        entry.checkpoint_id, kind, entry.directory, is_deletable=entry.is_owned, details=entry
    )


def claim_snapshot(storages: Storages, directory: str, job_id: str) -> None:
    """Makes a job the owner of a snapshot, by a marker put if absent; the same job may ask again.

    Raises:
        CheckpointError: Another job owns it.
    """
    storage = storages.at(directory)
    content = Content.of_bytes(job_id.encode())
    try:
        storage.put_if_absent(CLAIM, content)
    except ObjectExistsError:
        owner = storage.read(CLAIM)
        if owner != job_id.encode():
            raise CheckpointError(
                f"{directory} is claimed by job {owner.decode('utf-8', 'replace')[:64]!r} and can "
                f"not be claimed by {job_id} too: that job deletes it when it is done with it. "
                "Restore with claim mode NO_CLAIM."
            ) from None
