"""The manifest: what `_metadata` says. Frozen records, plain data, no object of a user's class.

`docs/reference/metadata-format.md` describes the format for people; `codec` writes and reads it.

Rules of the format:
* A handle names bytes by length and SHA-256. The bytes are inline, or in a file: of the snapshot's
  own directory (`path` is relative to it), or shared by several checkpoints (`path` is absolute).
* A field may be added without a new version only if a reader that ignores it restores correctly;
  readers therefore ignore fields that they do not know. Anything else raises the version.
* `check_manifest` holds before writing and after reading.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

FORMAT_VERSION = 1

LOGIC = "logic"
"""Name of the chunk that holds what an operator keeps besides keyed state."""


class ManifestKind(Enum):
    """What a snapshot is."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT_CANONICAL = "savepoint-canonical"
    SAVEPOINT_NATIVE = "savepoint-native"

    @property
    def is_savepoint(self) -> bool:
        return self is not ManifestKind.CHECKPOINT


class ChunkCodec(Enum):
    """How the bytes of a chunk are to be read; only a running job reads `pickle`."""

    MSGPACK = "msgpack"
    PICKLE = "pickle"
    ARROW = "arrow"
    RAW = "raw"


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all records: immutable, written with field names."""


class StoredHandle(_Record, frozen=True, kw_only=True):
    """Bytes of a snapshot.

    Attributes:
        name: Name of the file when a job uses it; unique for ever.
        size_bytes: Exact length.
        sha256: Hex digest.
        inline: The bytes, or None when they are in a file.
        path: Place of the file: relative to the snapshot's directory, or absolute when shared.
            None also before an upload, when the file lies in the job's own directory.
        shared: Whether several checkpoints may name the file.
        created_by: Id of the checkpoint that uploaded it.
    """

    name: str
    size_bytes: int
    sha256: str
    inline: bytes | None = None
    path: str | None = None
    shared: bool = False
    created_by: int = 0


class StoredKeyedState(_Record, frozen=True, kw_only=True):
    """Mirror of `core.handles.KeyedStateVersion`."""

    backend: str
    version_id: str
    base_id: str = ""
    base: tuple[StoredHandle, ...] = ()
    deltas: tuple[StoredHandle, ...] = ()
    delta_ids: tuple[str, ...] = ()
    first_key_group: int
    last_key_group: int

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        return self.base + self.deltas


class StoredChunk(_Record, frozen=True, kw_only=True):
    """A named piece of a subtask's other state: watermarks, generators, operator state.

    Attributes:
        name: Unique within the subtask.
        codec: How to read the bytes.
        handle: The bytes.
    """

    name: str
    codec: ChunkCodec
    handle: StoredHandle


class SubtaskRecord(_Record, frozen=True, kw_only=True):
    """State of one subtask of an operator."""

    keyed: StoredKeyedState | None = None
    chunks: tuple[StoredChunk, ...] = ()

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        keyed = () if self.keyed is None else self.keyed.handles
        return keyed + tuple(chunk.handle for chunk in self.chunks)


class StateRecord(_Record, frozen=True, kw_only=True):
    """Description of one state of an operator, for offline readers and for schema checks.

    Attributes:
        name: As in its descriptor.
        kind: `value`, `list`, `map`, `reducing`, `aggregating`, `timers`, `operator-list`, …
        key_codec: How keys are written.
        value_codec: How values are written.
        schema: Schema as text, in the notation of the state layer; "" when there is none.
        ttl: Time to live as text; "" when there is none.
    """

    name: str
    kind: str
    key_codec: str = ""
    value_codec: str = ""
    schema: str = ""
    ttl: str = ""


class OperatorRecord(_Record, frozen=True, kw_only=True):
    """State of one operator.

    Attributes:
        uid: As in the program, or generated.
        uid_hash: Flink's hash of it, 32 hex digits.
        name: For people.
        parallelism: Number of subtasks.
        max_parallelism: Number of key groups; fixed by the first snapshot.
        key_schema: Type of its keys as text; "" when it has none or does not know.
        states: What states it has.
        subtasks: One entry for each, in order.
    """

    uid: str
    uid_hash: str
    name: str = ""
    parallelism: int
    max_parallelism: int
    key_schema: str = ""
    states: tuple[StateRecord, ...] = ()
    subtasks: tuple[SubtaskRecord, ...] = ()

    @property
    def has_keys(self) -> bool:
        """Whether some subtask has keyed state."""
        return any(subtask.keyed is not None for subtask in self.subtasks)

    @property
    def logic(self) -> tuple[StoredHandle, ...]:
        """What each subtask keeps besides keyed state."""
        chunks = (chunk for subtask in self.subtasks for chunk in subtask.chunks)
        return tuple(chunk.handle for chunk in chunks if chunk.name == LOGIC)

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        """Every handle, in order."""
        return tuple(handle for subtask in self.subtasks for handle in subtask.handles)


class CheckpointProperties(_Record, frozen=True, kw_only=True):
    """How a snapshot came about and what may become of it.

    Attributes:
        trigger: `periodic`, `manual`, `savepoint` or `stop`.
        retention: Policy at the time, by its name in the configuration.
        incremental: Files of earlier checkpoints were reused.
        drained: Taken after the watermark MAX: not for jobs that resume.
        new_bytes: Bytes written for this snapshot, inline ones included.
    """

    trigger: str = "periodic"
    retention: str = ""
    incremental: bool = False
    drained: bool = False
    new_bytes: int = 0


class Manifest(_Record, frozen=True, kw_only=True):
    """Everything a job needs to go on from a snapshot.

    Attributes:
        job_id: 32 hex digits.
        job_name: For people.
        checkpoint_id: Number of the snapshot; numbers of a job and its successors rise for ever.
        kind: What it is.
        created_ms: Wall time.
        leader_epoch: Epoch of the leader that wrote it.
        parent_id: Completed checkpoint whose files it may reuse, or None.
        epoch: Last epoch that it contains.
        penstock_version: Who wrote it.
        properties: How it came about.
        operators: State by operator.
        sources: Progress by uid; plain data.
        sinks: Prepared output by uid; plain data.
        job: State of the job as a whole; plain data.
    """

    job_id: str
    job_name: str = ""
    checkpoint_id: int
    kind: ManifestKind
    created_ms: int
    leader_epoch: int
    parent_id: int | None = None
    epoch: int
    penstock_version: str
    properties: CheckpointProperties = CheckpointProperties()
    operators: tuple[OperatorRecord, ...] = ()
    sources: dict[str, Any] = {}
    sinks: dict[str, Any] = {}
    job: dict[str, Any] = {}

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        """Every handle, in order; a file may be named more than once."""
        return tuple(handle for operator in self.operators for handle in operator.handles)

    @property
    def shared_files(self) -> dict[str, StoredHandle]:
        """Shared files by their absolute place."""
        return {h.path: h for h in self.handles if h.shared and h.path is not None}

    @property
    def own_files(self) -> dict[str, StoredHandle]:
        """Files in the snapshot's own directory, by their relative path."""
        return {h.path: h for h in self.handles if not h.shared and h.path is not None}

    @property
    def inline_bytes(self) -> int:
        """Bytes of state inside the manifest."""
        return sum(len(h.inline) for h in self.handles if h.inline is not None)

    @property
    def full_bytes(self) -> int:
        """Bytes of state in all, each file once."""
        files = {**self.shared_files, **self.own_files}
        return self.inline_bytes + sum(handle.size_bytes for handle in files.values())
