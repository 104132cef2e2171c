"""Makes a new savepoint: from another one with changes, or from nothing.

Operators that are not touched are copied byte for byte. Of one that is touched, the states that
stay are read and written again; where they are pickled, that needs `unpickle=True`. The savepoint
that it is made from is never changed.
"""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import CheckpointProperties, Manifest, ManifestKind
from penstock.checkpoint.savepoints import (
    finish_savepoint,
    job_snapshot,
    stored_files,
    upload_savepoint,
)
from penstock.checkpoint.snapshot import JobSnapshot
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.checkpoint.uploads import InlinePolicy, local_files
from penstock.core.errors import ProgramError
from penstock.core.keygroups import LIMIT_MAX_PARALLELISM, MIN_MAX_PARALLELISM
from penstock.core.times import SystemClock
from penstock.files.area import FileArea
from penstock.files.urls import configured_storages
from penstock.inspection.operator_editing import (
    FormerOperator,
    NewOperator,
    OperatorEdit,
    edited,
)
from penstock.inspection.reader import Snapshot
from penstock.job.snapshot import uid_hash
from penstock.state.plain_serializer import Pickles
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import OperatorRecord, StoredHandle
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.files.contract import Content
    from penstock.files.urls import Storages

_INLINE_BYTES: Final = 20 * 1024
_THREADS: Final = 4


@dataclasses.dataclass(slots=True)
class SavepointEdit:
    """What a new savepoint is made of."""

    # Path of the savepoint or checkpoint that it is made from; None for an empty one.
    base: str | None = None
    # Of all operators, old and new; None keeps what the old ones have.
    max_parallelism: int | None = None
    parallelism: int = 1  # Subtasks of operators that are new.
    # Uids of operators that are left out.
    removed: set[str] = dataclasses.field(default_factory=set)
    renamed: dict[str, str] = dataclasses.field(default_factory=dict)  # New uids by old ones.
    # Changes by uid, the new one where it changes.
    operators: dict[str, OperatorEdit] = dataclasses.field(default_factory=dict)
    unpickle: bool = False  # Run the pickles of the operators that are changed.


def write_edited(edit: SavepointEdit, target: str) -> str:
    """Writes the new savepoint into a new directory of `target`; returns its path.

    Raises:
        CheckpointError: There is no such snapshot or operator; or it could not be written, and
            then nothing is left behind.
        ProgramError: A value is not of its declared type, or the changes contradict each other.
    """
    _check(edit)
    storages = configured_storages()
    loaded = None if edit.base is None else load_snapshot(storages, edit.base)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-edit-") as directory,
        ThreadPoolExecutor(_THREADS) as executor,
    ):
        area = FileArea(directory)
        snapshot = _edited(edit, loaded, storages, area)
        # Files of what was edited lie here; everything else is still where it was.
        own = old = local_files(directory)
        copied: set[tuple[str, str]] = set()
        if loaded is not None:
            old = stored_files(storages, loaded)
            copied = {(handle.name, handle.sha256) for handle in loaded.manifest.handles}

        def open_content(handle: StoredHandle) -> Content:
            return (old if (handle.name, handle.sha256) in copied else own)(handle)

        uploaded = upload_savepoint(
            storages,
            target,
            snapshot,
            _draft(loaded),
            open_content,
            inline=InlinePolicy(_INLINE_BYTES),
            new_uuid=_new_id,
            executor=executor,
        )
        return finish_savepoint(uploaded).directory


def _check(edit: SavepointEdit) -> None:
    limit = edit.max_parallelism
    if limit is not None and not 1 <= limit <= LIMIT_MAX_PARALLELISM:
        raise ProgramError(
            f"max parallelism is {limit}; it must lie between 1 and {LIMIT_MAX_PARALLELISM}."
        )
    both = edit.removed & edit.operators.keys()
    if both:
        raise ProgramError(
            f"operators are both removed and written: {', '.join(sorted(both))}. To replace the "
            "whole of one, write it under the same uid into an empty savepoint."
        )


def _edited(
    edit: SavepointEdit, loaded: LoadedSnapshot | None, storages: Storages, area: FileArea
) -> JobSnapshot:
    old = JobSnapshot(epoch=0) if loaded is None else job_snapshot(loaded)
    known = {operator.uid for operator in old.operators}
    unknown = sorted((edit.removed | edit.renamed.keys()) - known)
    if unknown:
        raise CheckpointError(
            f"{edit.base or 'an empty savepoint'} has no operator {', '.join(unknown)}; it has "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    pickles = Pickles.ALLOW if edit.unpickle else Pickles.OPAQUE
    source = None if loaded is None else Snapshot(storages, loaded, area, pickles)
    operators = [
        _operator(edit, operator, source, area)
        for operator in old.operators
        if operator.uid not in edit.removed
    ]
    present = {operator.uid for operator in operators}
    if len(present) < len(operators):
        raise ProgramError("two operators would have one uid; give each its own.")
    for uid, change in edit.operators.items():
        if uid not in present:
            limit = edit.max_parallelism or MIN_MAX_PARALLELISM
            operators.append(edited(NewOperator(uid, area, limit, edit.parallelism), change, None))
    return dataclasses.replace(
        old,
        operators=tuple(operators),
        sources=_kept(old.sources, edit),
        sinks=_kept(old.sinks, edit),
        pending=_kept(old.pending, edit),
    )


def _operator(
    edit: SavepointEdit, operator: OperatorRecord, source: Snapshot | None, area: FileArea
) -> OperatorRecord:
    uid = edit.renamed.get(operator.uid, operator.uid)
    change = edit.operators.get(uid)
    limit = edit.max_parallelism
    is_kept = limit in (None, operator.max_parallelism) or not operator.has_keys
    if change is None and is_kept:
        limit = max(limit or operator.max_parallelism, operator.parallelism)
        return msgspec.structs.replace(
            operator, uid=uid, uid_hash=uid_hash(uid), max_parallelism=limit
        )
    assert source is not None
    new = NewOperator(uid, area, limit or operator.max_parallelism)
    return edited(new, change or OperatorEdit(), FormerOperator(operator, source))


def _kept(data: dict[str, Any], edit: SavepointEdit) -> dict[str, Any]:
    return {
        edit.renamed.get(uid, uid): value for uid, value in data.items() if uid not in edit.removed
    }


def _draft(loaded: LoadedSnapshot | None) -> Manifest:
    clock = SystemClock()
    if loaded is not None:
        return msgspec.structs.replace(
            loaded.manifest,
            kind=ManifestKind.SAVEPOINT_CANONICAL,
            created_ms=clock.wall_ms(),
            properties=CheckpointProperties(trigger="savepoint"),
        )
    return Manifest(
        job_id=_new_id(),
        job_name="(bootstrap)",
        checkpoint_id=1,
        kind=ManifestKind.SAVEPOINT_CANONICAL,
        created_ms=clock.wall_ms(),
        leader_epoch=1,
        epoch=0,
        penstock_version=__version__,
    )


def _new_id() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - names of new files, chosen where they are made
