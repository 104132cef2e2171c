"""Lists what nothing names in a job's directory, from outside of the job; deletes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.id_counter import CheckpointIdCounter
from penstock.checkpoint.orphans import DEFAULT_GRACE_MS, SweepReport, sweep
from penstock.checkpoint.paths import CheckpointLayout, canonical_url, split_url
from penstock.checkpoint.pointer import Pointer, decode_pointer
from penstock.checkpoint.snapshot_load import load_entry
from penstock.checkpoint.storage_records import open_record

if TYPE_CHECKING:
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.storage_open import Storages


def list_orphans(
    storages: Storages, job_directory: str, *, now_ms: int, grace_ms: int = DEFAULT_GRACE_MS
) -> SweepReport:
    """Finds the orphans of a job, running or not.

    Args:
        storages: Where to look.
        job_directory: `<execution.checkpointing.dir>/<job id>`.
        now_ms: Wall time.
        grace_ms: As the job's `penstock.checkpoint.orphan-ttl`.

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
        found = Pointer() if version is None else decode_pointer(version, pointer_record.place)
        return [load_entry(storages, entry) for entry in found.completed]

    # The highest id may be under way; a job that is over has published or given it up.
    current_id = max(counter.last(), 1)
    return sweep(storage, layout, retained, current_id=current_id, now_ms=now_ms, grace_ms=grace_ms)
