"""P3 to P6: writes a snapshot, be it a checkpoint or a savepoint.

1. `read_inline` reads what is small (or, for JobManager storage, everything).
2. `upload_plan` decides what becomes of every handle, and says what the manifest will be.
3. `run_upload` writes, in parallel; one directory sync at the end makes all names durable.
4. `write_metadata` writes the last file. A savepoint exists from then on; a checkpoint counts once
   the pointer names it.

A savepoint is a new directory `savepoint-<6>-<12>` below its target, which holds all it needs and
may be copied anywhere. One that failed leaves nothing behind; one of unknown outcome leaves
everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.deletion import delete_unpublished
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import JobSnapshot, Manifest, StoredHandle, local_handle
from penstock.checkpoint.paths import METADATA, CheckpointLayout, savepoint_name
from penstock.checkpoint.snapshot_load import LoadedSnapshot, run_all
from penstock.checkpoint.upload_plan import Planner, UploadPlan, placed
from penstock.files.contract import Content, Storage
from penstock.files.errors import ObjectExistsError, StorageError, UnknownOutcomeError
from penstock.files.wrappers import ScopedStorage

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from penstock.checkpoint.snapshot_load import OpenContent
    from penstock.checkpoint.upload_plan import ContentKey
    from penstock.core.handles import FileHandle

JOB_MANAGER_STATE_BYTES: Final = 5 * 1024 * 1024
"""Limit of each single state in JobManager storage."""
_TRIES: Final = 10


class UploadCancelledError(CheckpointError):
    """The checkpoint was aborted while its files were written; nothing is wrong with the job."""


class Holders(Protocol):
    """The processes that hold local files which this one does not see."""

    def upload(self, puts: dict[str, FileHandle], is_cancelled: Callable[[], bool]) -> bool:
        """Has files brought to URLs, durably; returns whether that was not cancelled.

        Raises:
            StorageError: A file is not durable, or no process has it.
        """

    def read(self, files: list[FileHandle]) -> list[bytes]:
        """Returns the bytes of files.

        Raises:
            StorageError: One cannot be read.
        """


def local_files(directory: str | Path, *, may_link: bool = False) -> OpenContent:
    """Returns what finds the bytes of local handles in the job's state directory.

    Args:
        directory: Where they are.
        may_link: Whether a storage on the same volume may link them; see `Content.of_file`.
    """
    folder = Path(directory)

    def open_content(handle: StoredHandle) -> Content:
        path = folder / handle.name
        return Content.of_file(path, handle.size_bytes, handle.sha256, may_link=may_link)

    return open_content


def read_inline(
    snapshot: JobSnapshot,
    threshold_bytes: int | None,
    open_content: OpenContent,
    holders: Holders | None = None,
) -> dict[ContentKey, bytes]:
    """Returns the bytes of all handles that go inline: up to a size, or all in JobManager storage.

    Files that other processes hold become files in storage, however small they are; only
    JobManager storage asks for their bytes.

    Raises:
        CheckpointError: JobManager storage, and a state is larger than its limit.
    """
    found: dict[ContentKey, bytes] = {}
    elsewhere: dict[ContentKey, StoredHandle] = {}
    for handle in snapshot.handles:
        key = handle.name, handle.sha256
        if key in found or (threshold_bytes is not None and handle.size_bytes > threshold_bytes):
            continue
        if threshold_bytes is None and handle.size_bytes > JOB_MANAGER_STATE_BYTES:
            raise CheckpointError(
                f"the state file {handle.name!r} has {handle.size_bytes:,} bytes; JobManager "
                f"storage holds at most {JOB_MANAGER_STATE_BYTES:,} for each state. Configure file "
                "storage: execution.checkpointing.storage: filesystem and "
                "execution.checkpointing.dir."
            )
        if handle.inline is not None:
            found[key] = handle.inline
        elif holders is not None:
            if threshold_bytes is None:
                elsewhere[key] = handle
        else:
            found[key] = open_content(handle).read(f"the state file {handle.name!r}")
    if holders is not None and elsewhere:
        data = holders.read([local_handle(handle) for handle in elsewhere.values()])
        found |= dict(zip(elsewhere, data, strict=True))
    return found


def run_upload(
    plan: UploadPlan,
    open_content: OpenContent,
    *,
    executor: Executor | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    holders: Holders | None = None,
) -> None:
    """Writes the files of a plan; afterwards they are durable.

    Args:
        plan: What, and where to.
        open_content: Finds the bytes of a local handle.
        executor: Threads that write in parallel.
        is_cancelled: Asked before each file; a late writer stops quietly.
        holders: Write the files that are not inline, if this process does not see them.

    Raises:
        UploadCancelledError: `is_cancelled` said so.
        ContentError: A local file is not what its handle says.
        StorageError: Not everything could be written; the snapshot has failed.
    """

    def put(item: tuple[str, StoredHandle]) -> None:
        key, handle = item
        if is_cancelled():
            raise UploadCancelledError(f"{storage.url_of(key)} is not needed any more.")
        storage.put_named(key, _content(handle, open_content), deferred=True)

    storage, puts = plan.storage, plan.puts
    if holders is not None:
        # Prepared output is with who commits it: here.
        own = {handle.name for handles in plan.manifest.pending.values() for handle in handles}
        held = {
            key: handle
            for key, handle in puts.items()
            if handle.inline is None and handle.name not in own
        }
        files = {storage.url_of(key): local_handle(handle) for key, handle in held.items()}
        if files and not holders.upload(files, is_cancelled):
            raise UploadCancelledError(f"{next(iter(files))} is not needed any more.")
        puts = {key: handle for key, handle in puts.items() if key not in held}
    run_all(executor, put, puts.items())
    for directory in plan.directories:
        try:
            storage.flush(directory)
        except UnknownOutcomeError as error:
            raise StorageError(str(error)) from error


def _content(handle: StoredHandle, open_content: OpenContent) -> Content:
    if handle.inline is not None:
        # Larger than what may be inline in storage: it becomes a file there.
        data = handle.inline
        return Content(handle.size_bytes, handle.sha256, lambda: iter((data,)))
    return open_content(handle)


# -- directories, and the last file -----------------------------------------------------------


def prepare_directories(storage: Storage, layout: CheckpointLayout, checkpoint_id: int) -> None:
    """Makes the directories of a checkpoint; the only place that makes them.

    So a writer that is late, after the checkpoint was aborted, finds no directory and stops.
    """
    storage.make_directory(layout.shared)
    storage.make_directory(layout.task_owned)
    storage.make_directory(layout.checkpoint(checkpoint_id))


def begin_savepoint(
    storage: Storage,
    snapshot: JobSnapshot,
    draft: Manifest,
    *,
    inline: Mapping[ContentKey, bytes],
    new_uuid: Callable[[], str],
) -> UploadPlan:
    """Makes a new directory and plans the files in it.

    Args:
        storage: The target that a user named, or `savepoint-dir`.
        snapshot: State of the job; in canonical form if `draft.kind` says so.
        draft: The manifest, without what comes of the snapshot and its upload.
        inline: From `read_inline`.
        new_uuid: Gives names, as 32 hex digits or with dashes.
    """
    assert draft.kind.is_savepoint, draft.kind
    directory = _new_directory(storage, draft.job_id, new_uuid)

    def place(handle: StoredHandle, _shared: bool) -> tuple[str | None, StoredHandle]:
        # All files are its own, with names that say nothing.
        name = new_uuid()
        return f"{directory}/{name}", placed(handle, path=name, created_by=draft.checkpoint_id)

    planner = Planner(place, inline, state_shared=False)
    return planner.plan(snapshot, draft, storage, directory)


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


def write_metadata(
    plan: UploadPlan, parent_id: int | None = None, job: Mapping[str, Any] | None = None
) -> LoadedSnapshot:
    """P6: writes `_metadata`, once; afterwards it is durable and never changes.

    After an unknown outcome call it again with the same arguments: that finds out, and repeats the
    write if need be.

    Args:
        plan: The snapshot, whose files are durable.
        parent_id: Completed checkpoint whose files it may name.
        job: What it says of the job beside what was captured.

    Returns:
        The snapshot, as `snapshot_load` would read it; `entry` is how the pointer names it.

    Raises:
        ObjectExistsError: The directory belongs to another snapshot.
        UnknownOutcomeError: It may be there; abort nothing before that is known.
    """
    storage, directory, manifest = plan.storage, plan.directory, plan.manifest
    manifest = msgspec.structs.replace(
        manifest, parent_id=parent_id, job={**manifest.job, **(job or {})}
    )
    key = f"{directory}/{METADATA}"
    data = encode_manifest(manifest, storage.url_of(key))
    content = Content.of_bytes(data)
    try:
        storage.put_if_absent(key, content)
    except ObjectExistsError:
        if not storage.holds(key, content):
            raise ObjectExistsError(
                f"{storage.url_of(key)} exists already and is another snapshot. Two jobs share "
                "this directory: give each its own, or leave create-subdir on."
            ) from None
        storage.flush(directory)
    return LoadedSnapshot(
        storage.url_of(directory),
        manifest,
        content.size_bytes,
        content.sha256,
        ScopedStorage(storage, directory),
    )


def write_savepoint(
    plan: UploadPlan, open_content: OpenContent, executor: Executor | None = None
) -> LoadedSnapshot:
    """Writes all of a savepoint that no job takes.

    Raises:
        CheckpointError: It failed and left nothing behind.
        UnknownOutcomeError: It may exist; nothing was removed. The text names its directory.
    """
    try:
        run_upload(plan, open_content, executor=executor)
        return write_metadata(plan)
    except UnknownOutcomeError as error:
        place = plan.storage.url_of(plan.directory)
        raise UnknownOutcomeError(
            f"whether the savepoint {place} is complete is unknown: {error} Look for {METADATA} in "
            "it; without one, remove the directory."
        ) from error
    except BaseException:
        # What cannot be removed stays, and nothing names it.
        delete_unpublished(plan)
        raise
