"""Which files may go, and their deletion: of snapshots, and of what checkpoints share.

The registry says which checkpoint used a shared file last, and so when it may go. It is a pure
value. There are no counts to raise and lower, so a crash cannot make them drift: it is a fold over
the retained manifests, and rebuilding it from them gives the same one.

    register n            last_used = max(last_used, n) for every shared file that n names
    unregister below L    entries with last_used < L leave; their files may be deleted, unless a
                          snapshot that we do not own brought them

Deleted are only files that a valid manifest names, and only what is ours. Before each deletion the
caller's `confirm` is asked; it raises `FencedError` when another leader is at work, because a slow
former leader must not delete what its successor may use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import CLAIM, METADATA, created_by
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_entry
from penstock.core.codec import DamagedError
from penstock.files.errors import FilesError, ObjectMissingError
from penstock.files.urls import Storages, split_url

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest, StoredHandle
    from penstock.checkpoint.pointer import PointerEntry
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.files.contract import Storage


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One entry, under the absolute place of its file."""

    handle: StoredHandle  # As some checkpoint names it; the others agree about its content.
    last_used: int  # Highest registered checkpoint that names it.


@dataclass(frozen=True, slots=True)
class SharedRegistry:
    """All shared files of a job's retained checkpoints."""

    files: dict[str, SharedFile] = field(default_factory=dict)  # Entries by path.
    # Highest restored id that the job does not own; files created at or below it are another
    # job's and never deleted.
    unclaimed_up_to: int = 0

    @classmethod
    def rebuilt(cls, manifests: Iterable[Manifest], unclaimed_up_to: int = 0) -> SharedRegistry:
        registry = cls(unclaimed_up_to=unclaimed_up_to)
        for manifest in manifests:
            registry = registry.registered(manifest)
        return registry

    def registered(self, manifest: Manifest) -> SharedRegistry:
        """Returns the registry after a checkpoint completed.

        Raises:
            CheckpointError: It names a known file with another content: a name was reused.
        """
        files = dict(self.files)
        for path, handle in manifest.shared_files.items():
            known = files.get(path)
            if known is None:
                files[path] = SharedFile(handle, manifest.checkpoint_id)
            elif (known.handle.size_bytes, known.handle.sha256) != (
                handle.size_bytes,
                handle.sha256,
            ):
                raise CheckpointError(
                    f"checkpoint {manifest.checkpoint_id} names the shared file {path} with "
                    f"{handle.size_bytes:,} bytes and SHA-256 {handle.sha256}, but checkpoint "
                    f"{known.last_used} knows it with {known.handle.size_bytes:,} bytes and "
                    f"SHA-256 {known.handle.sha256}. Run `penstock verify` on both."
                )
            elif known.last_used < manifest.checkpoint_id:
                files[path] = replace(known, last_used=manifest.checkpoint_id)
        return replace(self, files=files)

    def unregistered_below(
        self, lowest_retained: int, *, in_use: Collection[str] = ()
    ) -> tuple[SharedRegistry, tuple[str, ...]]:
        """Returns the registry without files that are not needed any more, and places to delete.

        Args:
            lowest_retained: Lowest id that is still retained.
            in_use: Paths that checkpoints under way are going to name; they stay.
        """
        left: dict[str, SharedFile] = {}
        deleted: list[str] = []
        for path, file in self.files.items():
            if file.last_used >= lowest_retained or path in in_use:
                left[path] = file
            elif file.handle.created_by > self.unclaimed_up_to:
                deleted.append(path)
        return replace(self, files=left), tuple(deleted)


# -- deletion -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """The outcome."""

    deleted: tuple[str, ...] = ()  # Absolute places of files that are gone.
    # Places of files that could not be deleted, with the reason.
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.failed

    def check_complete(self) -> None:
        """Raises when files are left."""
        if self.failed:
            place, reason = self.failed[0]
            raise CheckpointError(
                f"{len(self.failed)} files could not be deleted, among them {place}: {reason}"
            )


def _always() -> None:
    """Checks nothing: a user disposes of the snapshot."""


def delete_unpublished(plan: UploadPlan) -> DeletionReport:
    """Removes what is private to a snapshot that will never count.

    Its shared files stay: the sweep removes them when nothing names them and they are old enough.
    Never call this while the outcome of `write_metadata` or of the pointer is unknown.
    """
    storage, own = plan.storage, f"{plan.directory}/"
    keys = [f"{own}{METADATA}", *(key for key in plan.puts if key.startswith(own))]
    report = delete_files({storage.url_of(key): (storage, key) for key in keys})
    storage.remove_directory(plan.directory)
    return report


def delete_snapshot(
    storages: Storages, snapshot: LoadedSnapshot, confirm: Callable[[], None] = _always
) -> DeletionReport:
    """Deletes a snapshot's `_metadata` and its own files; shared ones are the registry's.

    A failure does not stop it: the rest is deleted, and the report names what is left.
    """
    storage = snapshot.storage
    # The manifest first: a snapshot without files must not look like one.
    keys = [METADATA, *snapshot.manifest.own_files, CLAIM]
    files = {f"{snapshot.directory}/{key}": (storage, key) for key in keys}
    report = delete_files(files, confirm)
    # Own files may lie in folders that a user made in a savepoint; deepest first.
    folders = {path.rpartition("/")[0] for path in snapshot.manifest.own_files} - {""}
    for folder in sorted(folders, key=len, reverse=True):
        storage.remove_directory(folder)
    if "/" in snapshot.directory[1:]:
        above, name = split_url(snapshot.directory)
        storages.at(above).remove_directory(name)
    return report


def delete_entry(
    storages: Storages, entry: PointerEntry, confirm: Callable[[], None] = _always
) -> DeletionReport:
    """Deletes a snapshot that the pointer has subsumed; also one half deleted by a predecessor.

    Without its manifest, the files of a checkpoint are known by their names. Those of a savepoint
    say nothing, and stay.
    """
    try:
        return delete_snapshot(storages, load_entry(storages, entry), confirm)
    except (ObjectMissingError, DamagedError) as error:
        number = entry.checkpoint_id
        above, name = split_url(entry.directory)
        if entry.is_savepoint or name != f"chk-{number}":
            return DeletionReport(failed=((entry.directory, str(error)),))
    storage = storages.at(above)
    confirm()
    storage.delete(f"{name}/{METADATA}")
    keys = [
        found.key
        for found in storage.list(name)
        if found.key.rpartition("/")[0] == name
        # Known by the names that we give; should the listing miss one, the sweep finds it.
        and created_by(found.key.rpartition("/")[2]) == number
    ]
    for key in keys:
        storage.delete(key)
    storage.remove_directory(name)
    return DeletionReport(tuple(storage.url_of(key) for key in keys))


def delete_shared(
    storages: Storages, places: Iterable[str], confirm: Callable[[], None] = _always
) -> DeletionReport:
    """Deletes shared files that the registry let go."""
    return delete_files({place: storages.locate_shared(place) for place in places}, confirm)


def delete_files(
    files: Mapping[str, tuple[Storage, str]], confirm: Callable[[], None] = _always
) -> DeletionReport:
    """Deletes files by their places; a failure does not stop it."""
    deleted: list[str] = []
    failed: list[tuple[str, str]] = []
    for place, (storage, key) in files.items():
        confirm()
        try:
            storage.delete(key)
        except FilesError as error:
            failed.append((place, str(error)))
        else:
            deleted.append(place)
    return DeletionReport(tuple(deleted), tuple(failed))
