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

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from penstock.core.handles import FileHandle, KeyedStateVersion

FORMAT_VERSION = 1

LOGIC = "logic"
"""Name of the chunk that holds what an operator keeps besides state."""

OPERATOR_STATE = "operator-state-"
"""Chunks whose names begin so hold a state of an operator each; they stay while the state does."""


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
    """Bytes of a snapshot."""

    name: str  # Name of the file when a job uses it; never used again.
    size_bytes: int
    sha256: str  # Hex digest.
    inline: bytes | None = None  # The bytes, or None when they are in a file.
    # Place of the file: relative to the snapshot's directory, or absolute when shared. None also
    # before an upload, when the file lies in the job's own directory.
    path: str | None = None
    shared: bool = False  # Whether several checkpoints may name the file.
    created_by: int = 0  # Id of the checkpoint that uploaded it.


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
    """A named piece of a subtask's other state: watermarks, generators, operator state."""

    name: str  # Unique within the subtask.
    codec: ChunkCodec  # How to read the bytes.
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
    """Description of one state of an operator, for offline readers and for schema checks."""

    name: str  # As in its descriptor.
    kind: str  # `value`, `list`, `map`, `reducing`, `aggregating`, `timers`, `operator-list`, …
    key_codec: str = ""  # How keys are written.
    value_codec: str = ""  # How values are written.
    schema: str = ""  # Schema as text, in the notation of the state layer; "" when there is none.
    ttl: str = ""  # Time to live as text; "" when there is none.


class OperatorRecord(_Record, frozen=True, kw_only=True):
    """State of one operator."""

    uid: str  # As in the program, or generated.
    uid_hash: str  # Flink's hash of it, 32 hex digits.
    name: str = ""  # For people.
    parallelism: int
    max_parallelism: int  # Number of key groups; fixed by the first snapshot.
    key_schema: str = ""  # Type of its keys as text; "" when it has none or does not know.
    states: tuple[StateRecord, ...] = ()
    subtasks: tuple[SubtaskRecord, ...] = ()  # One entry for each, in order.

    @property
    def has_keys(self) -> bool:
        """Whether some subtask has keyed state."""
        return any(subtask.keyed is not None for subtask in self.subtasks)

    @property
    def logic(self) -> tuple[StoredHandle, ...]:
        """What each subtask keeps besides state."""
        chunks = (chunk for subtask in self.subtasks for chunk in subtask.chunks)
        return tuple(chunk.handle for chunk in chunks if chunk.name == LOGIC)

    @property
    def lists(self) -> tuple[tuple[StoredHandle, ...], ...]:
        """The files of operator state of each subtask."""
        return tuple(
            tuple(chunk.handle for chunk in subtask.chunks if chunk.name.startswith(OPERATOR_STATE))
            for subtask in self.subtasks
        )

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        """Every handle, in order."""
        return tuple(handle for subtask in self.subtasks for handle in subtask.handles)


class CheckpointProperties(_Record, frozen=True, kw_only=True):
    """How a snapshot came about and what may become of it."""

    trigger: str = "periodic"  # `periodic`, `manual`, `savepoint` or `stop`.
    retention: str = ""  # Policy at the time, by its name in the configuration.
    incremental: bool = False  # Files of earlier checkpoints were reused.
    drained: bool = False  # Taken after the watermark MAX: not for jobs that resume.
    new_bytes: int = 0  # Bytes written for this snapshot, inline ones included.


def all_handles(
    operators: tuple[OperatorRecord, ...], pending: dict[str, tuple[StoredHandle, ...]]
) -> tuple[StoredHandle, ...]:
    """Returns every handle of a snapshot: of state first, then of prepared output."""
    state = (handle for operator in operators for handle in operator.handles)
    return (*state, *(handle for handles in pending.values() for handle in handles))


class Manifest(_Record, frozen=True, kw_only=True):
    """Everything a job needs to go on from a snapshot."""

    job_id: str  # 32 hex digits.
    job_name: str = ""  # For people.
    checkpoint_id: int  # Number of the snapshot; numbers of a job and its successors only rise.
    kind: ManifestKind
    created_ms: int  # Wall time.
    leader_epoch: int  # Epoch of the leader that wrote it.
    parent_id: int | None = None  # Completed checkpoint whose files it may reuse, or None.
    epoch: int  # Last epoch that it contains.
    penstock_version: str
    properties: CheckpointProperties = CheckpointProperties()  # How it came about.
    operators: tuple[OperatorRecord, ...] = ()  # State by operator.
    sources: dict[str, Any] = {}  # Progress by uid; plain data.
    sinks: dict[str, Any] = {}  # Prepared output by uid; plain data.
    job: dict[str, Any] = {}  # State of the job as a whole; plain data.
    # Files that prepared output lies in, by the uid of its sink.
    pending: dict[str, tuple[StoredHandle, ...]] = {}

    @property
    def handles(self) -> tuple[StoredHandle, ...]:
        """Every handle, in order; a file may be named more than once."""
        return all_handles(self.operators, self.pending)

    @property
    def shared_files(self) -> dict[str, StoredHandle]:
        """Shared files by their absolute place."""
        return {h.path: h for h in self.handles if h.shared and h.path is not None}

    @property
    def own_files(self) -> dict[str, StoredHandle]:
        """Files in the snapshot's own directory, by their relative path."""
        return {h.path: h for h in self.handles if not h.shared and h.path is not None}

    @property
    def owing(self) -> list[str]:
        """Uids of sinks with output that may not be visible yet and that other jobs can commit."""
        return [
            uid
            for uid, saved in self.sinks.items()
            if saved.get("pending") and saved.get("owes_other_jobs", True)
        ]

    @property
    def inline_bytes(self) -> int:
        """Bytes of state inside the manifest."""
        return sum(len(h.inline) for h in self.handles if h.inline is not None)

    @property
    def full_bytes(self) -> int:
        """Bytes of state in all, each file once."""
        files = {**self.shared_files, **self.own_files}
        return self.inline_bytes + sum(handle.size_bytes for handle in files.values())


# -- what a running job hands over -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """State of a job at the end of an epoch, to be made durable.

    Its handles name files in the job's own directory until `upload_plan` gives them a place.
    """

    epoch: int
    operators: tuple[OperatorRecord, ...] = ()  # State by operator.
    sources: dict[str, Any] = field(default_factory=dict)  # Progress by uid; plain data.
    sinks: dict[str, Any] = field(default_factory=dict)  # Prepared output by uid; plain data.
    job: dict[str, Any] = field(default_factory=dict)  # State of the job as a whole; plain data.
    # Files that prepared output lies in, by the uid of its sink.
    pending: dict[str, tuple[StoredHandle, ...]] = field(default_factory=dict)
    # When the epoch ended and how long flushes took, for those who show figures.
    times: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def stored(cls, manifest: Manifest) -> JobSnapshot:
        """Returns a stored snapshot in the form in which a job hands one over."""
        found = {name: getattr(manifest, name) for name in cls.__slots__ if name != "times"}
        return cls(**found)

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
    return StoredKeyedState(**_fields(version, handle_record))


def local_keyed_state(stored: StoredKeyedState) -> KeyedStateVersion:
    """Returns a version whose files lie in the job's own directory once they are fetched."""
    return KeyedStateVersion(**_fields(stored, local_handle))


def _fields(
    keyed: KeyedStateVersion | StoredKeyedState, convert: Callable[[Any], Any]
) -> dict[str, Any]:
    """Returns the fields, which both have, with other handles."""
    fields = {name: getattr(keyed, name) for name in StoredKeyedState.__struct_fields__}
    return fields | {name: tuple(map(convert, fields[name])) for name in ("base", "deltas")}
