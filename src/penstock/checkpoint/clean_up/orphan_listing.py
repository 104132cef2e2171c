"""Lists what nothing names in a job's directory, from outside of the job; deletes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.checkpoint.clean_up.orphans import (
    DEFAULT_GRACE_MS,
    Orphan,
    find_orphans,
    referenced_keys,
)
from penstock.checkpoint.errors import ObjectMissingError
from penstock.checkpoint.id_counter import CheckpointIdCounter
from penstock.checkpoint.paths import METADATA, CheckpointLayout, canonical_url, split_url
from penstock.checkpoint.pointer import decode_pointer
from penstock.checkpoint.snapshot_load import load_entry, load_snapshot
from penstock.checkpoint.storage.records import open_record
from penstock.core.envelope import DamagedError

if TYPE_CHECKING:
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.storage.contract import CheckpointStorage
    from penstock.checkpoint.storage.urls import Storages


def list_orphans(storages: Storages, job_directory: str, *, now_ms: int) -> tuple[Orphan, ...]:
    """Finds the orphans of a job, running or not.

    Args:
        storages: Where to look.
        job_directory: `<execution.checkpointing.dir>/<job id>`.
        now_ms: Wall time.

    Raises:
        CheckpointError: A checkpoint that the pointer names cannot be read.
        DamagedError: The pointer or the counter is damaged.
    """
    above, job_id = split_url(canonical_url(job_directory))
    storage = storages.at(above)
    layout = CheckpointLayout(job_id)
    pointer_record = open_record(storage, layout.pointer)
    counter = CheckpointIdCounter(open_record(storage, layout.counter), 0, lambda: "")

    def retained() -> list[LoadedSnapshot]:
        version = pointer_record.read()
        if version is None:
            # It is kept elsewhere, in ZooKeeper: whatever is whole may count.
            return [*_whole(storages, storage, job_id)]
        pointer = decode_pointer(version, pointer_record.place)
        return [load_entry(storages, entry) for entry in pointer.completed]

    # The highest id may be under way; a job that is over has published or given it up.
    current_id = max(counter.last(), 1)
    entries = list(storage.list(layout.prefix))
    return find_orphans(
        entries,
        layout,
        referenced_keys(storage, retained()),
        current_id=current_id,
        now_ms=now_ms,
        grace_ms=DEFAULT_GRACE_MS,
    )


def _whole(storages: Storages, storage: CheckpointStorage, job_id: str) -> Iterator[LoadedSnapshot]:
    for entry in storage.list(job_id):
        if entry.key.endswith(f"/{METADATA}"):
            with contextlib.suppress(DamagedError, ObjectMissingError):
                yield load_snapshot(storages, storage.url_of(entry.key))
