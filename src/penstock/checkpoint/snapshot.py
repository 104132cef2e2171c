"""What a job hands over to be made durable: its state at the end of an epoch.

It consists of the records of a manifest. Their handles name files in the job's own directory until
`upload_plan` gives them a place; the functions below lead from the handles of a running job to
those of records, and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.manifest import StoredHandle, StoredKeyedState, all_handles
from penstock.core.handles import FileHandle, KeyedStateVersion

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import OperatorRecord


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """State of a job at the end of an epoch."""

    epoch: int
    operators: tuple[OperatorRecord, ...] = ()  # State by operator.
    sources: dict[str, Any] = field(default_factory=dict)  # Progress by uid; plain data.
    sinks: dict[str, Any] = field(default_factory=dict)  # Prepared output by uid; plain data.
    job: dict[str, Any] = field(default_factory=dict)  # State of the job as a whole; plain data.
    # Files that prepared output lies in, by the uid of its sink.
    pending: dict[str, tuple[StoredHandle, ...]] = field(default_factory=dict)
    # When the epoch ended and how long flushes took, for those who show figures.
    times: Any = field(default=None, compare=False, repr=False)

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        """Every handle, in order."""
        return all_handles(self.operators, self.pending)


def handle_record(handle: FileHandle) -> StoredHandle:
    """Returns the record of bytes that a job holds; they have no place in a snapshot yet."""
    return StoredHandle(
        name=handle.name, size_bytes=handle.size_bytes, sha256=handle.sha256, inline=handle.inline
    )


def local_handle(stored: StoredHandle) -> FileHandle:
    """Returns the handle under which a job uses stored bytes once they are fetched."""
    return FileHandle(stored.name, stored.size_bytes, stored.sha256, stored.inline)


def keyed_record(version: KeyedStateVersion) -> StoredKeyedState:
    """Returns the record of a version whose files lie in the job's own directory."""
    return StoredKeyedState(
        backend=version.backend,
        version_id=version.version_id,
        base_id=version.base_id,
        base=tuple(map(handle_record, version.base)),
        deltas=tuple(map(handle_record, version.deltas)),
        delta_ids=version.delta_ids,
        first_key_group=version.first_key_group,
        last_key_group=version.last_key_group,
    )


def local_keyed_state(stored: StoredKeyedState) -> KeyedStateVersion:
    """Returns a version whose files lie in the job's own directory once they are fetched."""
    return KeyedStateVersion(
        version_id=stored.version_id,
        backend=stored.backend,
        base_id=stored.base_id,
        base=tuple(map(local_handle, stored.base)),
        deltas=tuple(map(local_handle, stored.deltas)),
        delta_ids=stored.delta_ids,
        first_key_group=stored.first_key_group,
        last_key_group=stored.last_key_group,
    )
