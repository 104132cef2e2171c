"""Effects of the commit protocol on storage: small functions that write and delete snapshots.

The steps are those of `coordinator`.

    P3   prepare_directories, then uploads.run_upload     files
    P6   write_metadata                                   the last file of a checkpoint
    P7   PointerRecord.publish                            the commit point
    P11  PointerRecord.publish without it, then delete_snapshot and delete_shared

Before P7 a checkpoint is aborted with `abort_checkpoint`; with an unknown outcome nothing is.
Deleted are only files that a valid manifest names, and only what is ours. Before each deletion the
caller's `confirm` is asked; it raises `FencedError` when another leader is at work, because a slow
former leader must not delete what its successor may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import CLAIM, METADATA, CheckpointLayout, created_by
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_entry
from penstock.core.codec import DamagedError
from penstock.files.contract import Content, Storage
from penstock.files.errors import FilesError, ObjectExistsError, ObjectMissingError
from penstock.files.urls import Storages, split_url
from penstock.files.wrappers import ScopedStorage

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest
    from penstock.checkpoint.pointer import PointerEntry
    from penstock.checkpoint.upload_plan import UploadPlan


def prepare_directories(storage: Storage, layout: CheckpointLayout, checkpoint_id: int) -> None:
    """Makes the directories of a checkpoint; the only place that makes them.

    So a writer that is late, after the checkpoint was aborted, finds no directory and stops.
    """
    storage.make_directory(layout.shared)
    storage.make_directory(layout.task_owned)
    storage.make_directory(layout.checkpoint(checkpoint_id))


def write_metadata(storage: Storage, directory: str, manifest: Manifest) -> LoadedSnapshot:
    """P6: writes `_metadata`, once; afterwards it is durable and never changes.

    After an unknown outcome call it again with the same manifest: that finds out, and repeats the
    write if need be.

    Args:
        storage: Where to.
        directory: Key of the snapshot's directory.
        manifest: Names only files that are durable.

    Returns:
        The snapshot, as `snapshot_load` would read it; `entry` is how the pointer names it.

    Raises:
        ObjectExistsError: The directory belongs to another snapshot.
        UnknownOutcomeError: It may be there; abort nothing before that is known.
    """
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


def abort_checkpoint(
    storage: Storage, layout: CheckpointLayout, checkpoint_id: int, plan: UploadPlan | None
) -> None:
    """Removes what is private to a checkpoint that will never count.

    Its shared files stay: the sweep removes them when nothing names them and they are old enough.
    Never call this while the outcome of `write_metadata` or of the pointer is unknown.

    Args:
        storage: Where it is.
        layout: Names of the job's directories.
        checkpoint_id: Which.
        plan: Its files, as far as is known; None: what its directory shows.
    """
    directory = layout.checkpoint(checkpoint_id)
    storage.delete(layout.metadata(checkpoint_id))
    if plan is None:
        delete_private_files(storage, directory, checkpoint_id)
        return
    for key in plan.puts:
        if key.startswith(f"{directory}/"):
            storage.delete(key)
    storage.remove_directory(directory)


def delete_private_files(storage: Storage, directory: str, checkpoint_id: int) -> list[str]:
    """Deletes the data files of a checkpoint without its manifest; returns their keys.

    They are known by the names that we give: the number of the checkpoint is in each. Should the
    listing miss one, the sweep finds it.
    """
    keys = [
        entry.key
        for entry in storage.list(directory)
        if entry.key.rpartition("/")[0] == directory
        and created_by(entry.key.rpartition("/")[2]) == checkpoint_id
    ]
    for key in keys:
        storage.delete(key)
    storage.remove_directory(directory)
    return keys


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
    report = _delete(files, confirm)
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
    keys = delete_private_files(storage, name, number)
    return DeletionReport(tuple(storage.url_of(key) for key in keys))


def delete_shared(
    storages: Storages, places: Iterable[str], confirm: Callable[[], None] = _always
) -> DeletionReport:
    """Deletes shared files that the registry let go."""
    return _delete({place: storages.locate_shared(place) for place in places}, confirm)


def _delete(
    files: Mapping[str, tuple[Storage, str]], confirm: Callable[[], None]
) -> DeletionReport:
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
