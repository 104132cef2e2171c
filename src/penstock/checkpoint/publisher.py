"""Effects of the commit protocol on storage: small functions that a driver calls.

The steps are those of `coordinator`.

    P3   prepare_directories, then uploads.run_upload     files
    P6   write_metadata                                   the last file of a checkpoint
    P7   PointerRecord.publish                            the commit point
    P11  PointerRecord.publish without it, then deletion.delete_snapshot and delete_shared

Before P7 a checkpoint is aborted with `abort_checkpoint`; with an unknown outcome nothing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.paths import METADATA, created_by
from penstock.checkpoint.snapshot_load import LoadedSnapshot
from penstock.files.contract import Content
from penstock.files.errors import ObjectExistsError
from penstock.files.wrappers import ScopedStorage

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest
    from penstock.checkpoint.paths import CheckpointLayout
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.files.contract import Storage


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
    storage: Storage,
    layout: CheckpointLayout,
    checkpoint_id: int,
    plan: UploadPlan | None,
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
