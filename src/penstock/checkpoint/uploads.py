"""P3: brings the files of a job snapshot to storage.

1. `read_inline` reads what is small (or, for JobManager storage, everything).
2. `upload_plan` decides what becomes of every handle.
3. `run_upload` writes, in parallel; one directory sync at the end makes all names durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import JobSnapshot, StoredHandle, local_handle
from penstock.checkpoint.parallel import run_all
from penstock.files.contract import Content, Storage
from penstock.files.errors import StorageError, UnknownOutcomeError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from penstock.checkpoint.upload_plan import ContentKey, UploadPlan
    from penstock.core.handles import FileHandle

    OpenContent = Callable[[StoredHandle], Content]

JOB_MANAGER_STATE_BYTES: Final = 5 * 1024 * 1024


class UploadCancelledError(CheckpointError):
    """The checkpoint was aborted while its files were written; nothing is wrong with the job."""


@dataclass(frozen=True, slots=True)
class InlinePolicy:
    """What travels inside `_metadata`."""

    # Up to this size; None for everything, which is JobManager storage.
    threshold_bytes: int | None
    # Limit of each single state in JobManager storage.
    max_state_bytes: int = JOB_MANAGER_STATE_BYTES


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
    policy: InlinePolicy,
    open_content: OpenContent,
    holders: Holders | None = None,
) -> dict[ContentKey, bytes]:
    """Returns the bytes of all handles that go inline.

    Files that other processes hold become files in storage, however small they are; only
    JobManager storage asks for their bytes.

    Raises:
        CheckpointError: JobManager storage, and a state is larger than its limit.
    """
    found: dict[ContentKey, bytes] = {}
    elsewhere: dict[ContentKey, StoredHandle] = {}
    for handle in snapshot.handles:
        key = handle.name, handle.sha256
        limit = policy.threshold_bytes
        if key in found or (limit is not None and handle.size_bytes > max(limit, 0)):
            continue
        if limit is None and handle.size_bytes > policy.max_state_bytes:
            raise CheckpointError(
                f"the state file {handle.name!r} has {handle.size_bytes:,} bytes; JobManager "
                f"storage holds at most {policy.max_state_bytes:,} for each state. Configure file "
                "storage: execution.checkpointing.storage: filesystem and "
                "execution.checkpointing.dir."
            )
        if handle.inline is not None:
            found[key] = handle.inline
        elif holders is not None:
            if limit is None:
                elsewhere[key] = handle
        else:
            found[key] = open_content(handle).read(f"the state file {handle.name!r}")
    if holders is not None and elsewhere:
        data = holders.read([local_handle(handle) for handle in elsewhere.values()])
        found |= dict(zip(elsewhere, data, strict=True))
    return found


def run_upload(  # noqa: PLR0913 - what to write, and who does
    storage: Storage,
    plan: UploadPlan,
    open_content: OpenContent,
    *,
    executor: Executor | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    holders: Holders | None = None,
) -> None:
    """Writes the files of a plan; afterwards they are durable.

    Args:
        storage: Where to.
        plan: What.
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

    puts = plan.puts
    if holders is not None:
        # Prepared output is with who commits it: here.
        own = {handle.name for handles in plan.pending.values() for handle in handles}
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
