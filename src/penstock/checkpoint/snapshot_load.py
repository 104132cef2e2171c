"""Finds, reads, checks and fetches snapshots: at a path of a user, or as the pointer names them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Executor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.checkpoint.codec import decode_manifest
from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import METADATA, checkpoint_number, snapshot_directory
from penstock.checkpoint.pointer import Pointer, PointerEntry
from penstock.core.codec import DamagedError
from penstock.core.errors import PenstockError
from penstock.files.contract import Content
from penstock.files.errors import ContentError, ObjectMissingError
from penstock.files.private import make_private, replace_file
from penstock.files.urls import Storages, split_url

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest, StoredHandle
    from penstock.files.contract import Storage

    OpenContent = Callable[[StoredHandle], Content]
    """Finds the bytes of a handle."""

Item = TypeVar("Item")
Result = TypeVar("Result")
LIMIT_METADATA_BYTES: Final = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot whose manifest is whole; its data files are not looked at yet."""

    directory: str  # Absolute place of its directory.
    manifest: Manifest  # What `_metadata` says.
    size_bytes: int  # Length of `_metadata`.
    sha256: str  # Checksum of `_metadata`.
    # Bound to its directory: own files are read and deleted where `_metadata` was found.
    storage: Storage = field(repr=False, compare=False)

    def entry(self, *, is_owned: bool) -> PointerEntry:
        """Returns how a pointer names it."""
        return PointerEntry(
            checkpoint_id=self.manifest.checkpoint_id,
            directory=self.directory,
            size_bytes=self.size_bytes,
            sha256=self.sha256,
            is_savepoint=self.manifest.kind.is_savepoint,
            is_owned=is_owned,
        )

    @property
    def files(self) -> dict[str, StoredHandle]:
        """What is not inline, by its absolute place."""
        handles = self.manifest.handles
        return {self.url_of(handle): handle for handle in handles if handle.path is not None}

    def url_of(self, handle: StoredHandle) -> str:
        assert handle.path is not None
        return handle.path if handle.shared else f"{self.directory}/{handle.path}"

    def locate(self, storages: Storages, handle: StoredHandle) -> tuple[Storage, str]:
        assert handle.path is not None
        if handle.shared:
            return storages.locate_shared(handle.path)
        return self.storage, handle.path


def load_snapshot(storages: Storages, path: str) -> LoadedSnapshot:
    """Reads the snapshot at a path: its directory or its `_metadata`.

    Raises:
        CheckpointError: There is none; the text says what is there instead.
        DamagedError: It is damaged, or a file of another snapshot.
        NewerFormatError: A newer Penstock wrote it.
    """
    directory = snapshot_directory(path)
    storage = storages.at(directory).pinned()
    try:
        # Anybody may have written it; it is read into memory as a whole.
        size = storage.size(METADATA) or 0
        if size > LIMIT_METADATA_BYTES:
            raise CheckpointError(
                f"{directory}/{METADATA} has {size:,} bytes, more than the limit of "
                f"{LIMIT_METADATA_BYTES:,} for the metadata of a snapshot. Choose another snapshot."
            )
        data = storage.read(METADATA)
    except ObjectMissingError:
        raise CheckpointError(_not_a_snapshot(storage, directory)) from None
    return _loaded(storage, directory, data)


def load_entry(storages: Storages, entry: PointerEntry) -> LoadedSnapshot:
    """Reads a snapshot that the pointer names.

    Raises:
        ObjectMissingError: It is gone.
        DamagedError: It is damaged, or not the one that was published.
    """
    storage = storages.at(entry.directory).pinned()
    data = storage.read(METADATA)
    found = hashlib.sha256(data).hexdigest()
    if (len(data), found) != (entry.size_bytes, entry.sha256):
        raise ContentError(
            f"{entry.directory}/{METADATA} of checkpoint {entry.checkpoint_id} has {len(data):,} "
            f"bytes and SHA-256 {found}, but {entry.size_bytes:,} bytes and SHA-256 "
            f"{entry.sha256} were published. It was damaged or replaced."
        )
    return _loaded(storage, entry.directory, data)


def load_completed(storages: Storages, pointer: Pointer) -> tuple[LoadedSnapshot, ...]:
    """Reads all snapshots that the pointer names, oldest first.

    Raises:
        CheckpointError: Some cannot be read; names all of them.
    """
    snapshots: list[LoadedSnapshot] = []
    unreadable = ""
    for entry in pointer.completed:
        try:
            snapshots.append(load_entry(storages, entry))
        except (DamagedError, ObjectMissingError) as error:
            unreadable += f"\n  - checkpoint {entry.checkpoint_id}: {error}"
    if unreadable:
        readable = ", ".join(str(s.manifest.checkpoint_id) for s in snapshots) or "none"
        raise CheckpointError(
            f"recovery stops, since completed checkpoints cannot be read:{unreadable}\n"
            f"Readable: {readable}. Repair the storage; or start from an older one, which repeats "
            "output that was already committed."
        )
    return tuple(snapshots)


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


def _loaded(storage: Storage, directory: str, data: bytes) -> LoadedSnapshot:
    what = f"{directory}/{METADATA}"
    manifest = decode_manifest(data, what)
    number = checkpoint_number(split_url(directory)[1]) if "/" in directory[1:] else None
    if number is not None and number != manifest.checkpoint_id:
        raise DamagedError(
            f"{what} belongs to checkpoint {manifest.checkpoint_id}, not to {number}: files were "
            "exchanged. Choose another checkpoint."
        )
    sha256 = hashlib.sha256(data).hexdigest()
    return LoadedSnapshot(directory, manifest, len(data), sha256, storage)


def _not_a_snapshot(storage: Storage, directory: str) -> str:
    """Says what is wrong with a path, and which snapshots lie below it."""
    below = sorted(
        {
            entry.key.removesuffix(f"/{METADATA}")
            for entry in storage.list("")
            if entry.key.endswith(f"/{METADATA}")
        }
    )
    text = f"{directory} is not a checkpoint or savepoint: it holds no {METADATA}."
    if not below and next(storage.list(""), None) is None:
        text += " There is nothing at that place; it may be mistyped, or was deleted."
    if below:
        shown = "".join(f"\n  {directory}/{name}" for name in below[-20:])
        return f"{text} Below it there are:{shown}"
    return f"{text} Give the directory chk-<n> or savepoint-…, or the {METADATA} in it."


# -- its files ----------------------------------------------------------------------------------


def download_files(
    storages: Storages,
    loaded: LoadedSnapshot,
    directory: str | Path,
    *,
    handles: Iterable[StoredHandle] | None = None,
    executor: Executor | None = None,
) -> list[str]:
    """Makes the files of a snapshot lie in `directory` under the names of their handles.

    A local file that is whole is not fetched again. One that is missing or damaged is, silently:
    the local directory is only a cache of what the snapshot holds.

    Args:
        storages: Where from.
        loaded: The snapshot.
        directory: The job's local state directory.
        handles: Only these; all by default.
        executor: Threads that fetch in parallel.

    Returns:
        The names of those that were not there.

    Raises:
        ContentError: A stored file is not what its handle says.
        ObjectMissingError: A stored file is gone.
    """
    folder = Path(directory)
    make_private(folder)
    manifest = loaded.manifest
    # A sink's committables name files, whether or not a small snapshot holds all bytes itself.
    output = {each.name for files in manifest.pending.values() for each in files}
    wanted = {
        handle.name: handle
        for handle in (manifest.handles if handles is None else handles)
        if handle.path is not None or handle.name in output
    }

    def fetch(handle: StoredHandle) -> bool:
        target = folder / handle.name
        if _is_whole(target, handle):
            return False
        if handle.inline is not None:
            replace_file(target, handle.inline)
            return True
        storage, key = loaded.locate(storages, handle)
        storage.download(key, target, handle.size_bytes, handle.sha256)
        return True

    fetched = run_all(executor, fetch, wanted.values())
    return [name for name, is_new in zip(wanted, fetched, strict=True) if is_new]


def _is_whole(path: Path, handle: StoredHandle) -> bool:
    try:
        if path.stat().st_size != handle.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == handle.sha256
    except OSError:
        return False


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


def run_all(
    executor: Executor | None, work: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """Returns the results in the order of the items; raises the first error.

    What is under way then is waited for: the clean-up after the error must not race with it.
    """
    if executor is None:
        return [work(item) for item in items]
    futures = [executor.submit(work, item) for item in items]
    _, rest = wait(futures, return_when=FIRST_EXCEPTION)
    for future in rest:
        future.cancel()
    wait(rest)
    for future in futures:
        if not future.cancelled() and (error := future.exception()) is not None:
            raise error
    return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a snapshot."""

    place: str  # File or directory.
    text: str  # What is wrong, with what was found and what was expected.
    used_by: tuple[str, ...] = ()  # Which states need it, as `uid/subtask`.
    is_lasting: bool = True  # False when the storage did not answer, and may do so later.


def find_problems(
    storages: Storages, loaded: LoadedSnapshot, executor: Executor | None = None
) -> list[Problem]:
    """Reads every file that a snapshot names, and compares length and checksum."""
    users = _users(loaded)

    def check(item: tuple[str, StoredHandle]) -> Problem | None:
        place, handle = item
        try:
            storage, key = loaded.locate(storages, handle)
            storage.check(key, handle.size_bytes, handle.sha256)
        except ObjectMissingError:
            text = f"{place} is missing ({handle.size_bytes:,} bytes, SHA-256 {handle.sha256})."
            return Problem(place, text, users[place])
        except PenstockError as error:
            return Problem(place, str(error), users[place], isinstance(error, ContentError))
        return None

    found = run_all(executor, check, loaded.files.items())
    return [problem for problem in found if problem is not None]


def _users(loaded: LoadedSnapshot) -> dict[str, tuple[str, ...]]:
    parts = [
        (f"{operator.uid}/{index}", subtask.handles)
        for operator in loaded.manifest.operators
        for index, subtask in enumerate(operator.subtasks)
    ]
    parts += [(f"{uid} (output)", handles) for uid, handles in loaded.manifest.pending.items()]
    users: dict[str, tuple[str, ...]] = {}
    for user, handles in parts:
        for place in {loaded.url_of(handle) for handle in handles if handle.path is not None}:
            users[place] = (*users.get(place, ()), user)
    return users
