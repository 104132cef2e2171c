"""Deletes snapshots: only files that a valid manifest names, and only what is ours.

The pointer must not name the snapshot any more when this is called (P11: pointers first, files
last). Before each deletion the caller's `confirm` is asked; it raises `FencedError` when somebody
else leads, because a slow former leader must not delete what its successor may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import CLAIM, METADATA
from penstock.checkpoint.publisher import delete_private_files
from penstock.checkpoint.snapshot_load import load_entry
from penstock.core.envelope import DamagedError
from penstock.files.errors import FilesError, ObjectMissingError
from penstock.files.urls import split_url

if TYPE_CHECKING:
    from penstock.checkpoint.pointer import PointerEntry
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.files.contract import Storage
    from penstock.files.urls import Storages


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """What became of it."""

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
    """Asks nobody: for a person who disposes of a snapshot."""


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
    # Own files may lie in folders of a savepoint that somebody arranged; deepest first.
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
