"""What a job hands over to be made durable: its state at the end of an epoch, as local handles.

The launch layer makes one from the state of the job; `uploads` turns it into the records of a
manifest, and `local_keyed_state` turns those back into local handles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.handles import FileHandle, KeyedStateVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.checkpoint.manifest import (
        ChunkCodec,
        StateRecord,
        StoredHandle,
        StoredKeyedState,
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A named piece of a subtask's state that is not keyed.

    Attributes:
        name: Unique within the subtask of the operator.
        codec: How the bytes are to be read.
        handle: The bytes.
    """

    name: str
    codec: ChunkCodec
    handle: FileHandle


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """State of one subtask of an operator."""

    keyed: KeyedStateVersion | None = None
    chunks: tuple[Chunk, ...] = ()

    @property
    def handles(self) -> Iterator[FileHandle]:
        """Every handle."""
        if self.keyed is not None:
            yield from self.keyed.files
        for chunk in self.chunks:
            yield chunk.handle


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """State of one operator; fields as of `manifest.OperatorRecord`."""

    uid: str
    uid_hash: str
    name: str
    parallelism: int
    max_parallelism: int
    states: tuple[StateRecord, ...]
    subtasks: tuple[SubtaskSnapshot, ...]
    key_schema: str = ""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """State of a job at the end of an epoch.

    Attributes:
        epoch: That epoch.
        operators: State by operator.
        sources: Progress by uid; plain data.
        sinks: Prepared output by uid; plain data.
        job: State of the job as a whole; plain data.
        times: When the epoch ended and how long flushes took, for those who show figures.
    """

    epoch: int
    operators: tuple[OperatorSnapshot, ...] = ()
    sources: dict[str, Any] = field(default_factory=dict)
    sinks: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    times: Any = field(default=None, compare=False, repr=False)

    @property
    def handles(self) -> Iterator[FileHandle]:
        """Every handle, in order."""
        for operator in self.operators:
            for subtask in operator.subtasks:
                yield from subtask.handles


def local_handle(stored: StoredHandle) -> FileHandle:
    """Returns the handle under which a job uses stored bytes once they are fetched."""
    return FileHandle(stored.name, stored.size_bytes, stored.sha256, stored.inline)


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
