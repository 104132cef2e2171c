"""Writes savepoints: directories that hold all they need, and may be copied anywhere.

1. make a new directory `savepoint-<6>-<12>` below the target;
2. write all data files into it, under names that say nothing;
3. write `_metadata`: the savepoint exists from then on, and is its own commit point.

One that failed leaves nothing behind; one of unknown outcome leaves everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import JobSnapshot, Manifest, StoredHandle
from penstock.checkpoint.paths import CLAIM, METADATA, savepoint_name
from penstock.checkpoint.publisher import write_metadata
from penstock.checkpoint.upload_plan import UploadPlan, plan_savepoint
from penstock.checkpoint.uploads import Holders, InlinePolicy, read_inline, run_upload
from penstock.files.contract import Content, Storage
from penstock.files.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.uploads import OpenContent
    from penstock.files.urls import Storages

_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class UploadedSavepoint:
    """A savepoint whose data files are durable, and which does not exist before its `_metadata`."""

    storage: Storage
    name: str  # Its directory there.
    manifest: Manifest  # What `_metadata` will say.
    plan: UploadPlan  # Its data files.

    @property
    def directory(self) -> str:
        """Absolute place; what a user passes to restore from it."""
        return self.storage.url_of(self.name)


def upload_savepoint(  # noqa: PLR0913
    storages: Storages,
    target: str,
    snapshot: JobSnapshot,
    draft: Manifest,
    open_content: OpenContent,
    *,
    inline: InlinePolicy,
    new_uuid: Callable[[], str],
    executor: Executor | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    holders: Holders | None = None,
) -> UploadedSavepoint:
    """Makes a new directory and writes all data files of a savepoint.

    Args:
        storages: Opens the target.
        target: Directory or URL given by the user, or `savepoint-dir`.
        snapshot: State of the job; in canonical form if `draft.kind` says so.
        draft: The manifest, without what comes of the snapshot and its upload.
        open_content: Finds the bytes of local handles.
        inline: What goes into `_metadata`.
        new_uuid: Gives names, as 32 hex digits or with dashes.
        executor: Threads that write in parallel.
        is_cancelled: Asked before each file.
        holders: Write the files of other processes.

    Raises:
        CheckpointError: It failed and left nothing behind.
    """
    assert draft.kind.is_savepoint, draft.kind
    storage = storages.at(target)
    small = read_inline(snapshot, inline, open_content, holders)
    name = _new_directory(storage, draft.job_id, new_uuid)
    plan = plan_savepoint(snapshot, name, draft.checkpoint_id, inline=small, new_uuid=new_uuid)
    manifest = msgspec.structs.replace(
        draft,
        parent_id=None,
        epoch=snapshot.epoch,
        operators=plan.operators,
        sources=snapshot.sources,
        sinks=snapshot.sinks,
        pending=plan.pending,
        job=snapshot.job,
        properties=msgspec.structs.replace(
            draft.properties, incremental=False, new_bytes=plan.figures.checkpointed_bytes
        ),
    )
    uploaded = UploadedSavepoint(storage, name, manifest, plan)
    try:
        how: Any = {"executor": executor, "is_cancelled": is_cancelled}
        run_upload(storage, plan, open_content, holders=holders, **how)
    except BaseException:
        discard_savepoint(uploaded)
        raise
    return uploaded


def finish_savepoint(
    uploaded: UploadedSavepoint, job: Mapping[str, Any] | None = None
) -> LoadedSnapshot:
    """Writes `_metadata`; asking again is how an unknown outcome is settled.

    Args:
        uploaded: What it names.
        job: What it says of the job beside what was captured.

    Raises:
        CheckpointError: It failed and left nothing behind.
        UnknownOutcomeError: It may exist; nothing was removed. The text names its directory.
    """
    try:
        manifest = uploaded.manifest
        manifest = msgspec.structs.replace(manifest, job={**manifest.job, **(job or {})})
        return write_metadata(uploaded.storage, uploaded.name, manifest)
    except UnknownOutcomeError as error:
        raise UnknownOutcomeError(
            f"whether the savepoint {uploaded.directory} is complete is unknown: {error} Look "
            f"for {METADATA} in it; without one, remove the directory."
        ) from error
    except BaseException:
        discard_savepoint(uploaded)
        raise


def discard_savepoint(uploaded: UploadedSavepoint) -> None:
    """Removes what a failed savepoint wrote; what cannot be removed stays, and nothing names it.

    Never call this while the outcome of `finish_savepoint` is unknown.
    """
    for key in [f"{uploaded.name}/{METADATA}", *uploaded.plan.puts]:
        with contextlib.suppress(StorageError, UnknownOutcomeError):
            uploaded.storage.delete(key)
    uploaded.storage.remove_directory(uploaded.name)


def _new_directory(storage: Storage, job_id: str, new_uuid: Callable[[], str]) -> str:
    for _ in range(_TRIES):
        name = savepoint_name(job_id, new_uuid().replace("-", "")[-12:])
        with contextlib.suppress(ObjectExistsError):
            storage.make_directory(name, exclusive=True)
            return name
    raise CheckpointError(
        f"no new savepoint directory could be made in {storage.url}: {_TRIES} random names were "
        "taken. Choose another target."
    )


# -- stored snapshots as a source of others -------------------------------------------------------


def job_snapshot(loaded: LoadedSnapshot) -> JobSnapshot:
    """Returns a stored snapshot in the form in which a job hands one over."""
    manifest = loaded.manifest
    return JobSnapshot(
        epoch=manifest.epoch,
        operators=manifest.operators,
        sources=manifest.sources,
        sinks=manifest.sinks,
        pending=manifest.pending,
        job=manifest.job,
    )


def stored_files(storages: Storages, loaded: LoadedSnapshot) -> OpenContent:
    """Returns what finds the bytes of a stored snapshot's handles."""
    places = {
        (handle.name, handle.sha256): handle
        for handle in loaded.manifest.handles
        if handle.path is not None
    }

    def open_content(handle: StoredHandle) -> Content:
        if handle.inline is not None:
            return Content.of_bytes(handle.inline)
        stored = places.get((handle.name, handle.sha256))
        if stored is None:
            raise ObjectMissingError(f"{loaded.directory} names no file {handle.name!r}.")
        storage, key = loaded.locate(storages, stored)
        return storage.content(key, handle.size_bytes, handle.sha256)

    return open_content


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
