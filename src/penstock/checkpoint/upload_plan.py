"""Decides what becomes of every file of a job snapshot, without touching anything.

Each handle ends up inline, or names a file that the completed parent has stored already, or names a
new file. Only files that the parent's *manifest* names are reused, by name and checksum of the
local handle; nothing is remembered from an attempt that did not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.manifest import (
    OPERATOR_STATE,
    Manifest,
    OperatorRecord,
    StoredHandle,
    SubtaskRecord,
    all_handles,
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
    """What has to be written, and how the manifest will name it."""

    operators: tuple[OperatorRecord, ...]  # Records for the manifest.
    puts: dict[str, StoredHandle]  # Files to write, by key.
    directories: tuple[str, ...]  # Directories that these are in.
    figures: CheckpointFigures  # The sizes that history and log show.
    # Files of prepared output, by the uid of its sink.
    pending: dict[str, tuple[StoredHandle, ...]] = field(default_factory=dict)

    @property
    def shared_paths(self) -> frozenset[str]:
        """Shared files that the checkpoint is going to name; they must not be deleted meanwhile."""
        return frozenset(
            handle.path
            for handle in all_handles(self.operators, self.pending)
            if handle.shared and handle.path is not None
        )


def plan_checkpoint(  # noqa: PLR0913 - one argument per fact the plan depends on
    snapshot: JobSnapshot,
    storage: Storage,
    layout: CheckpointLayout,
    checkpoint_id: int,
    *,
    writer_id: str,
    inline: Mapping[ContentKey, bytes],
    parent: Manifest | None = None,
    incremental: bool = False,
) -> UploadPlan:
    """Plans the upload of a checkpoint.

    Args:
        snapshot: State of the job.
        storage: Where checkpoints go.
        layout: Names of the job's directories.
        checkpoint_id: Reserved by P0.
        writer_id: Unique for each leader and attempt of the job.
        inline: From `read_inline`.
        parent: A completed checkpoint whose shared files may be named again.
        incremental: Whether files of state are shared; otherwise everything is exclusive.
    """
    reusable = _reusable(parent if incremental else None)

    def place(handle: StoredHandle, shared: bool) -> tuple[str | None, StoredHandle]:
        known = reusable.get((handle.name, handle.sha256)) if shared else None
        if known is not None and known.size_bytes == handle.size_bytes:
            return None, known
        name = data_file_name(handle.sha256, checkpoint_id, writer_id)
        key = f"{layout.shared if shared else layout.checkpoint(checkpoint_id)}/{name}"
        path = storage.url_of(key) if shared else name
        return key, _placed(handle, path=path, shared=shared, created_by=checkpoint_id)

    return _plan(snapshot, place, inline, state_shared=incremental)


def plan_savepoint(
    snapshot: JobSnapshot,
    directory: str,
    checkpoint_id: int,
    *,
    inline: Mapping[ContentKey, bytes],
    new_uuid: Callable[[], str],
) -> UploadPlan:
    """Plans the files of a savepoint: all of them its own, with names that say nothing."""

    def place(handle: StoredHandle, _shared: bool) -> tuple[str | None, StoredHandle]:
        name = new_uuid()
        return f"{directory}/{name}", _placed(handle, path=name, created_by=checkpoint_id)

    return _plan(snapshot, place, inline, state_shared=False)


# -- details ----------------------------------------------------------------------------------


def _placed(handle: StoredHandle, **place: Any) -> StoredHandle:
    """Returns the record of the same bytes somewhere else."""
    return StoredHandle(
        name=handle.name, size_bytes=handle.size_bytes, sha256=handle.sha256, **place
    )


class _Planner:
    """Decides about each handle once."""

    def __init__(self, place: Place, inline: Mapping[ContentKey, bytes]) -> None:
        self._place = place
        self._inline = inline
        self._known: dict[tuple[str, str, bool], StoredHandle] = {}
        self.puts: dict[str, StoredHandle] = {}
        self.reused: dict[str, StoredHandle] = {}

    def stored(self, handle: StoredHandle, *, shared: bool) -> StoredHandle:
        data = self._inline.get((handle.name, handle.sha256))
        if data is None and handle.size_bytes == 0:
            data = b""
        if data is not None:
            return _placed(handle, inline=data)
        key = handle.name, handle.sha256, shared
        if key not in self._known:
            place, self._known[key] = self._place(handle, shared)
            if place is not None:
                self.puts[place] = handle
            else:
                self.reused[self._known[key].path or ""] = self._known[key]
        return self._known[key]

    def subtask(self, subtask: SubtaskRecord, *, state_shared: bool) -> SubtaskRecord:
        keyed = subtask.keyed
        if keyed is not None:
            keyed = replace(
                keyed,
                base=tuple(self.stored(each, shared=state_shared) for each in keyed.base),
                deltas=tuple(self.stored(each, shared=state_shared) for each in keyed.deltas),
            )
        chunks = tuple(
            replace(chunk, handle=self.stored(chunk.handle, shared=is_shared))
            for chunk in subtask.chunks
            for is_shared in (state_shared and chunk.name.startswith(OPERATOR_STATE),)
        )
        return SubtaskRecord(keyed=keyed, chunks=chunks)


def _plan(
    snapshot: JobSnapshot, place: Place, inline: Mapping[ContentKey, bytes], *, state_shared: bool
) -> UploadPlan:
    planner = _Planner(place, inline)
    operators = tuple(
        replace(
            operator,
            subtasks=tuple(
                planner.subtask(subtask, state_shared=state_shared) for subtask in operator.subtasks
            ),
        )
        for operator in snapshot.operators
    )
    pending = {
        uid: tuple(planner.stored(each, shared=state_shared) for each in handles)
        for uid, handles in snapshot.pending.items()
    }
    inline_bytes = sum(
        len(handle.inline)
        for handle in all_handles(operators, pending)
        if handle.inline is not None
    )
    written = inline_bytes + sum(handle.size_bytes for handle in planner.puts.values())
    return UploadPlan(
        operators=operators,
        pending=pending,
        puts=planner.puts,
        directories=tuple(sorted({key.rpartition("/")[0] for key in planner.puts})),
        figures=CheckpointFigures(
            checkpointed_bytes=written,
            state_bytes=written + sum(handle.size_bytes for handle in planner.reused.values()),
            files_new=len(planner.puts),
            files_reused=len(planner.reused),
            inline_bytes=inline_bytes,
        ),
    )


def _reusable(parent: Manifest | None) -> dict[ContentKey, StoredHandle]:
    if parent is None:
        return {}
    return {(handle.name, handle.sha256): handle for handle in parent.handles if handle.shared}
