"""Decides what becomes of every file of a job snapshot, without touching anything.

Each handle ends up inline, or names a file that the completed parent has stored already, or names a
new file. Only files that the parent's *manifest* names are reused, by name and checksum of the
local handle; nothing is remembered from an attempt that did not complete. A checkpoint and a
savepoint differ in the names of their files and in what they may share, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.manifest import (
    OPERATOR_STATE,
    Manifest,
    StoredHandle,
    SubtaskRecord,
)
from penstock.checkpoint.paths import CheckpointLayout, data_file_name

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import JobSnapshot
    from penstock.files.contract import Storage

    Place = Callable[[StoredHandle, bool], tuple[str | None, StoredHandle]]
    """Takes a handle and whether it is shared; returns the key to write to (None: it is there
    already) and the record."""

ContentKey = tuple[str, str]
"""Name and checksum of a local handle."""


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """A snapshot that is being written: where to, which files, and what its manifest will say."""

    storage: Storage
    directory: str  # Key of its own directory there.
    manifest: Manifest  # As far as it is known before the files are written.
    puts: dict[str, StoredHandle]  # Files to write, by key.
    figures: CheckpointFigures  # The sizes that history and log show.

    @property
    def directories(self) -> tuple[str, ...]:
        """Those that the files are in."""
        return tuple(sorted({key.rpartition("/")[0] for key in self.puts}))


def plan_checkpoint(  # noqa: PLR0913 - one argument per fact the plan depends on
    snapshot: JobSnapshot,
    draft: Manifest,
    storage: Storage,
    layout: CheckpointLayout,
    *,
    writer_id: str,
    inline: Mapping[ContentKey, bytes],
    parent: Manifest | None = None,
    incremental: bool = False,
) -> UploadPlan:
    """Plans the upload of a checkpoint.

    Args:
        snapshot: State of the job.
        draft: The manifest, without what comes of the snapshot and its upload.
        storage: Where checkpoints go.
        layout: Names of the job's directories.
        writer_id: Unique for each leader and attempt of the job.
        inline: From `read_inline`.
        parent: A completed checkpoint whose shared files may be named again.
        incremental: Whether files of state are shared; otherwise everything is exclusive.
    """
    reusable = _reusable(parent if incremental else None)
    number = draft.checkpoint_id

    def place(handle: StoredHandle, shared: bool) -> tuple[str | None, StoredHandle]:
        known = reusable.get((handle.name, handle.sha256)) if shared else None
        if known is not None and known.size_bytes == handle.size_bytes:
            return None, known
        name = data_file_name(handle.sha256, number, writer_id)
        key = f"{layout.shared if shared else layout.checkpoint(number)}/{name}"
        path = storage.url_of(key) if shared else name
        return key, placed(handle, path=path, shared=shared, created_by=number)

    planner = Planner(place, inline, state_shared=incremental)
    return planner.plan(snapshot, draft, storage, layout.checkpoint(number))


def placed(handle: StoredHandle, **place: Any) -> StoredHandle:
    """Returns the record of the same bytes somewhere else."""
    return StoredHandle(
        name=handle.name, size_bytes=handle.size_bytes, sha256=handle.sha256, **place
    )


class Planner:
    """Decides about each handle once.

    Args:
        place: Says where a file goes.
        inline: What travels inside `_metadata`.
        state_shared: Whether several snapshots may name a file of state.
    """

    def __init__(
        self, place: Place, inline: Mapping[ContentKey, bytes], *, state_shared: bool
    ) -> None:
        self._place = place
        self._inline = inline
        self._state_shared = state_shared
        self._known: dict[tuple[str, str, bool], StoredHandle] = {}
        self._puts: dict[str, StoredHandle] = {}
        self._reused: dict[str, StoredHandle] = {}

    def plan(
        self, snapshot: JobSnapshot, draft: Manifest, storage: Storage, directory: str
    ) -> UploadPlan:
        manifest = replace(
            draft,
            epoch=snapshot.epoch,
            operators=tuple(
                replace(operator, subtasks=tuple(map(self._subtask, operator.subtasks)))
                for operator in snapshot.operators
            ),
            sources=snapshot.sources,
            sinks=snapshot.sinks,
            pending={uid: self._state(handles) for uid, handles in snapshot.pending.items()},
            job=snapshot.job,
        )
        inline_bytes = manifest.inline_bytes
        written = inline_bytes + sum(handle.size_bytes for handle in self._puts.values())
        return UploadPlan(
            storage,
            directory,
            replace(manifest, properties=replace(manifest.properties, new_bytes=written)),
            self._puts,
            CheckpointFigures(
                checkpointed_bytes=written,
                state_bytes=written + sum(handle.size_bytes for handle in self._reused.values()),
                files_new=len(self._puts),
                files_reused=len(self._reused),
                inline_bytes=inline_bytes,
            ),
        )

    def _subtask(self, subtask: SubtaskRecord) -> SubtaskRecord:
        keyed = subtask.keyed
        if keyed is not None:
            keyed = replace(keyed, base=self._state(keyed.base), deltas=self._state(keyed.deltas))
        chunks = tuple(
            replace(chunk, handle=self._stored(chunk.handle, shared=is_shared))
            for chunk in subtask.chunks
            for is_shared in (self._state_shared and chunk.name.startswith(OPERATOR_STATE),)
        )
        return SubtaskRecord(keyed=keyed, chunks=chunks)

    def _state(self, handles: Iterable[StoredHandle]) -> tuple[StoredHandle, ...]:
        return tuple(self._stored(each, shared=self._state_shared) for each in handles)

    def _stored(self, handle: StoredHandle, *, shared: bool) -> StoredHandle:
        data = self._inline.get((handle.name, handle.sha256))
        if data is None and handle.size_bytes == 0:
            data = b""
        if data is not None:
            return placed(handle, inline=data)
        key = handle.name, handle.sha256, shared
        if key not in self._known:
            place, self._known[key] = self._place(handle, shared)
            if place is not None:
                self._puts[place] = handle
            else:
                self._reused[self._known[key].path or ""] = self._known[key]
        return self._known[key]


def _reusable(parent: Manifest | None) -> dict[ContentKey, StoredHandle]:
    if parent is None:
        return {}
    return {(handle.name, handle.sha256): handle for handle in parent.handles if handle.shared}
