"""Takes a stored snapshot as the source of another one: a checkpoint becomes a native savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.errors import ObjectMissingError
from penstock.checkpoint.snapshot import JobSnapshot
from penstock.checkpoint.storage.content import Content

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import StoredHandle
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.storage.urls import Storages
    from penstock.checkpoint.uploads import OpenContent


def job_snapshot(loaded: LoadedSnapshot) -> JobSnapshot:
    """Returns a stored snapshot in the form in which a job hands one over."""
    manifest = loaded.manifest
    return JobSnapshot(
        epoch=manifest.epoch,
        operators=manifest.operators,
        sources=manifest.sources,
        sinks=manifest.sinks,
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
