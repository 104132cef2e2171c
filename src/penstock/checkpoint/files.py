"""The durable files of one job's checkpoints, and what the commit protocol does to them.

Each method does one thing and returns or raises; `executor` turns that into events.
"""

from __future__ import annotations

import contextlib
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint.coordination.checkpoints import (
    CompletedCheckpoint,
    SavepointFormat,
)
from penstock.checkpoint.deletion import (
    SharedRegistry,
    delete_entry,
    delete_shared,
    delete_unpublished,
)
from penstock.checkpoint.errors import CheckpointError, SnapshotDamagedError
from penstock.checkpoint.manifest import CheckpointProperties, Manifest, ManifestKind
from penstock.checkpoint.orphans import OrphanSweep
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.pointer import (
    CheckpointIdCounter,
    JobPointer,
    JobRecords,
    open_records,
)
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.checkpoint.snapshot_load import download_files, entry_of, find_problems, loaded_of
from penstock.checkpoint.upload_plan import UploadPlan, plan_checkpoint
from penstock.checkpoint.uploads import (
    Holders,
    begin_savepoint,
    local_files,
    prepare_directories,
    read_inline,
    run_upload,
    write_metadata,
)
from penstock.core.errors import PenstockError
from penstock.files.errors import FilesError
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages, probe_storage
from penstock.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.checkpoint.coordination import instructions
    from penstock.checkpoint.coordination.checkpoints import PendingCheckpoint
    from penstock.checkpoint.pointer import Pointer
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.upload_plan import ContentKey
    from penstock.core.times import Clock
    from penstock.core.versioned import Outcome

_UPLOAD_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Who takes checkpoints, and where its files are."""

    job_id: str  # 32 hex digits.
    job_name: str  # For people.
    state_directory: str  # Local directory of state files.
    leader_epoch: int = 1  # Rises with every attempt that a job manager starts.
    # Pointer and counter, when they are not in the checkpoint directory.
    records: JobRecords | None = None


class CheckpointFiles:
    """Reads and writes the snapshots of one job."""

    def __init__(
        self,
        job: JobIdentity,
        settings: CheckpointSettings,
        clock: Clock,
        storages: Storages | None = None,
    ) -> None:
        self._job = job
        self._settings = settings
        self._clock = clock
        self.storages = storages or Storages()
        if settings.storage is StorageKind.FILE_SYSTEM and settings.directory:
            self._storage = self.storages.at(settings.directory)
            self._inline_bytes: int | None = settings.inline_threshold_bytes
        else:
            place = f"memory://{job.job_id}"
            memory = MemoryStorage(place, clock.wall_ms)
            self.storages = self.storages.adding("memory", lambda _: memory)
            self._storage = self.storages.at(place)
            self._inline_bytes = None
        self._layout = layout_of(job.job_id, create_subdir=settings.create_subdirectory)
        self._open_content = local_files(job.state_directory)
        self.holders: Holders | None = None
        """Those who hold local files, where these are not in the job's directory."""
        self._threads = ThreadPoolExecutor(_UPLOAD_THREADS, "penstock-upload")
        self._preparer = ThreadPoolExecutor(1, "penstock-prepare")
        self._preparing: Future[None] | None = None
        self._unprepared: list[str] = []
        pointer, counter = open_records(job.records, self._storage, self._layout)
        self.pointer = JobPointer(pointer, job.leader_epoch, _new_id)
        self.pointer.job_id = job.job_id
        self.confirm_lead = self.pointer.confirm_lead
        self._counter = CheckpointIdCounter(counter, job.leader_epoch, _new_id)
        # Files of two writers never meet under one name, whatever becomes of the first.
        self._writer_id = _new_id()[:12]
        self._uploads: dict[int, UploadPlan] = {}
        """Those of checkpoints under way, whose shared files must not be deleted meanwhile."""
        self.metadata_under_way: dict[int, instructions.WriteMetadata] = {}
        self._publishing: instructions.Publish | None = None
        self.registry = SharedRegistry()
        self._aborted: set[int] = set()
        self.orphans = OrphanSweep(
            self._storage,
            self._layout,
            self._writer_id,
            settings.orphan_grace_ms,
            clock,
            self.confirm_lead,
        )

    @property
    def job_id(self) -> str:
        return self._job.job_id

    @property
    def leader_epoch(self) -> int:
        return self._job.leader_epoch

    # -- P0 to P6 -----------------------------------------------------------------------------

    def reserve_id(self, at_least: int) -> int:
        """Takes a new checkpoint id."""
        self._storage.make_directory(self._layout.counter)
        return self._counter.reserve(at_least)

    def upload(self, instruction: instructions.Upload) -> UploadPlan:
        """Writes the files of a checkpoint or savepoint."""
        pending = instruction.checkpoint
        number = pending.checkpoint_id
        inline = read_inline(pending.snapshot, self._inline_bytes, self._open_content, self.holders)
        begin = self._begin_savepoint if pending.is_savepoint else self._begin_checkpoint
        plan = self._uploads[number] = begin(pending, inline)
        if not pending.is_savepoint:
            # Once the plan is noted: what it is going to name is not released meanwhile.
            prepare_directories(self._storage, self._layout, number)
        # Not those of savepoints: they belong to people, who may change what they find there.
        content = local_files(self._job.state_directory, may_link=not pending.is_savepoint)
        try:
            run_upload(
                plan,
                content,
                executor=self._threads,
                is_cancelled=lambda: number in self._aborted,
                holders=self.holders,
            )
        except BaseException:
            if pending.is_savepoint:
                # At once, since a leader that was overruled is not told to discard it any more.
                delete_unpublished(plan)
            raise
        return plan

    def _begin_checkpoint(
        self, pending: PendingCheckpoint, inline: Mapping[ContentKey, bytes]
    ) -> UploadPlan:
        properties = CheckpointProperties(
            trigger="periodic" if pending.request.is_periodic else "manual",
            retention=self._settings.retention.value,
            incremental=self._settings.incremental,
        )
        return plan_checkpoint(
            pending.snapshot,
            self._draft(pending, ManifestKind.CHECKPOINT, properties),
            self._storage,
            self._layout,
            writer_id=self._writer_id,
            inline=inline,
            parent=None if pending.base is None else loaded_of(pending.base).manifest,
            incremental=self._settings.incremental,
        )

    def _begin_savepoint(
        self, pending: PendingCheckpoint, inline: Mapping[ContentKey, bytes]
    ) -> UploadPlan:
        request = pending.request
        assert request.target is not None, "the coordinator turns away who names no directory"
        is_native = request.format is SavepointFormat.NATIVE
        kind = ManifestKind.SAVEPOINT_NATIVE if is_native else ManifestKind.SAVEPOINT_CANONICAL
        trigger = "stop" if request.stop else "savepoint"
        properties = CheckpointProperties(trigger=trigger, drained=request.drain)
        return begin_savepoint(
            self.storages.at(request.target),
            pending.snapshot,
            self._draft(pending, kind, properties),
            inline=inline,
            new_uuid=_new_id,
        )

    def _draft(
        self, pending: PendingCheckpoint, kind: ManifestKind, properties: CheckpointProperties
    ) -> Manifest:
        return Manifest(
            job_id=self._job.job_id,
            job_name=self._job.job_name,
            checkpoint_id=pending.checkpoint_id,
            kind=kind,
            created_ms=self._clock.wall_ms(),
            leader_epoch=self._job.leader_epoch,
            epoch=0,
            penstock_version=__version__,
            properties=properties,
        )

    def prepare(self, names: Iterable[str]) -> None:
        """Has new local files synced before a checkpoint names them; called by one thread."""
        if not self._settings.is_enabled:
            return
        self._unprepared += names
        if self._preparing is None or self._preparing.done():
            batch, self._unprepared = self._unprepared, []
            # A job that was cancelled may end its last epoch after `close`.
            with contextlib.suppress(RuntimeError):
                self._preparing = self._preparer.submit(self._prepare, batch)

    def _prepare(self, names: list[str]) -> None:
        for name in names:
            # What cannot be done ahead is tried again at the checkpoint, which can tell.
            with contextlib.suppress(FilesError):
                self._storage.prepare(Path(self._job.state_directory, name))

    def stop_writing(self, number: int) -> None:
        """A checkpoint was aborted: its upload stops before the next file."""
        self._aborted.add(number)

    def write_metadata(self, instruction: instructions.WriteMetadata) -> LoadedSnapshot:
        """Writes `_metadata`; the snapshot is complete then. May be asked for again."""
        pending = instruction.checkpoint
        self.metadata_under_way[pending.checkpoint_id] = instruction
        # A savepoint stands alone.
        parent_id = None if pending.is_savepoint else instruction.parent_id
        return write_metadata(pending.uploaded, parent_id, instruction.job)

    # -- P7 -----------------------------------------------------------------------------------

    def publish(self, instruction: instructions.Publish) -> Outcome:
        """Makes the pointer name what is retained: the commit point."""

        def change(current: Pointer) -> Pointer:
            return msgspec.structs.replace(
                current.changed(
                    map(entry_of, instruction.retained),
                    dropped=map(entry_of, instruction.dropped),
                    forgotten=instruction.forgotten,
                ),
                unclaimed_up_to=max(self.registry.unclaimed_up_to, current.unclaimed_up_to),
            )

        if self._publishing is None:
            self._storage.make_directory(self._layout.pointer)
        self._publishing = instruction
        return self.pointer.publish(change)

    def register_published(self) -> None:
        """Notes which shared files the published checkpoint uses."""
        assert self._publishing is not None
        checkpoint = self._publishing.retained[-1]
        self.registry = self.registry.registered(loaded_of(checkpoint).manifest)

    def forget(self, number: int) -> None:
        """A checkpoint has completed: it will not be taken back."""
        self._uploads.pop(number, None)
        self.metadata_under_way.pop(number, None)

    # -- P8, P11 ------------------------------------------------------------------------------

    def fetch(self, loaded: LoadedSnapshot, *, only_output: bool = False) -> None:
        """Brings the files of a snapshot to the job's directory.

        Args:
            loaded: The snapshot.
            only_output: Only those of prepared output; workers fetch state themselves.

        Raises:
            CheckpointError: Files are missing or damaged; lists all of them.
        """
        pending = loaded.manifest.pending.values()
        try:
            download_files(
                self.storages,
                loaded,
                self._job.state_directory,
                handles=[each for files in pending for each in files] if only_output else None,
                executor=self._threads,
            )
        except PenstockError:
            self.check_whole(loaded)
            raise

    def check_whole(self, loaded: LoadedSnapshot) -> None:
        """Looks for damage, after files of a snapshot could not be fetched.

        Raises:
            CheckpointError: Files are missing or damaged; lists all of them.
        """
        found = find_problems(self.storages, loaded, self._threads)
        if not found:
            return
        listed = "".join(f"\n  - {problem.text}" for problem in found)
        is_lasting = any(problem.is_lasting for problem in found)
        raise (SnapshotDamagedError if is_lasting else CheckpointError)(
            f"the job cannot start from {loaded.directory}: {len(found)} of its files are "
            f"missing or damaged:{listed}\nRepair the storage, or start from another snapshot."
        )

    def take_over(self) -> tuple[Pointer, int]:
        """Locks lower leader epochs out; returns the pointer and the highest id reserved."""
        self._storage.make_directory(self._layout.counter)
        last_id = self._counter.take_over()
        self._storage.make_directory(self._layout.pointer)
        return self.pointer.take_over(), last_id

    def discard(self, number: int) -> None:
        """Removes what is private to an aborted checkpoint or savepoint."""
        plan = self._uploads.get(number)
        self.forget(number)
        if plan is not None:
            delete_unpublished(plan).check_complete()

    def delete(self, checkpoint: CompletedCheckpoint) -> None:
        """Deletes a checkpoint that the pointer no longer names."""
        delete_entry(self.storages, entry_of(checkpoint), self.confirm_lead).check_complete()

    def release_shared(self, lowest_id: int) -> None:
        """Deletes shared files that no retained checkpoint uses, nor one that is under way."""
        plans = list(self._uploads.values())
        in_use = {path for plan in plans for path in plan.manifest.shared_files}
        self.registry, gone = self.registry.unregistered_below(lowest_id, in_use=in_use)
        delete_shared(self.storages, gone, self.confirm_lead).check_complete()

    def probe(self) -> None:
        """Tries the directory before the first record.

        Raises:
            StorageError: It cannot hold checkpoints; says why and what to do.
        """
        if self._settings.is_enabled and self._settings.storage is StorageKind.FILE_SYSTEM:
            probe_storage(self._storage, self._layout.prefix, _new_id())

    def close(self) -> None:
        self.orphans.close()
        self._preparer.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._settings.is_enabled and self._layout.prefix:
            # Of a job that never took a checkpoint, such as one that could not start.
            with contextlib.suppress(FilesError):
                self._storage.remove_directory(self._layout.prefix)


def _new_id() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - names of files need only be unique
