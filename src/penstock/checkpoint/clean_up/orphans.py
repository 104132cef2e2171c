"""The sweep: finds files that no retained checkpoint names, and deletes them when they are old.

The decision is pure (`find_orphans`). A file is an orphan only if all of this holds:

* its name is one that we give: a data file, a temporary file, or `_metadata`;
* no retained snapshot names it;
* the checkpoint in its name is below every checkpoint that is under way or still to come;
* it is older than the grace time, or its writer is known to have ended.

`taskowned`, the pointer, the counter and everything of an unknown name is never touched. Without a
directory per job, other jobs' files lie beside ours, and no sweep is possible.

The order matters: list, then read what is retained, so that a checkpoint which completes meanwhile
counts as retained; then decide and delete.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.clean_up.deletion import DeletionReport
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import (
    METADATA,
    CheckpointLayout,
    checkpoint_number,
    created_by,
    written_by,
)
from penstock.checkpoint.storage.local import TEMPORARY_PREFIX

if TYPE_CHECKING:
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.storage.contract import CheckpointStorage, Entry

DEFAULT_GRACE_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that nothing names."""

    key: str
    size_bytes: int
    age_ms: int  # Time since it was written.
    is_deletable: bool  # Old enough, and of a checkpoint that is over.
    reason: str  # Why it is an orphan, or why it stays for now.


def find_orphans(  # noqa: PLR0913 - the facts of a pure decision
    entries: Iterable[Entry],
    layout: CheckpointLayout,
    referenced: Collection[str],
    *,
    current_id: int,
    now_ms: int,
    grace_ms: int = DEFAULT_GRACE_MS,
    ended_writer: str = "",
) -> tuple[Orphan, ...]:
    """Decides about every file of a job's directory.

    Args:
        entries: All files, listed *before* `referenced` was read.
        layout: Names of the job's directories.
        referenced: Keys that retained snapshots name, their `_metadata` included.
        current_id: Lowest checkpoint under way, or the next one.
        now_ms: Wall time.
        grace_ms: How old an orphan must be.
        ended_writer: Nobody writes under this id any more, so its files need no grace.
    """
    found = []
    for entry in entries:
        number = _checkpoint_of(entry.key, layout)
        if number is None or entry.key in referenced:
            continue
        age_ms = now_ms - entry.modified_ms
        if number >= current_id:
            deletable, reason = False, f"checkpoint {number} may still be under way"
        elif ended_writer and written_by(posixpath.basename(entry.key)) == ended_writer:
            deletable, reason = True, "no retained checkpoint names it, and its writer has ended"
        elif age_ms <= grace_ms:
            deletable, reason = False, f"written {age_ms} ms ago, the grace time is {grace_ms} ms"
        else:
            deletable, reason = True, f"no retained checkpoint names it, {number} is over"
        found.append(Orphan(entry.key, entry.size_bytes, age_ms, deletable, reason))
    return tuple(found)


def delete_orphans(
    storage: CheckpointStorage, orphans: tuple[Orphan, ...], confirm: Callable[[], None]
) -> DeletionReport:
    """Deletes those that are deletable; a failure does not stop it."""
    deleted: list[str] = []
    failed: list[tuple[str, str]] = []
    for orphan in orphans:
        if not orphan.is_deletable:
            continue
        confirm()
        try:
            storage.delete(orphan.key)
        except CheckpointError as error:
            failed.append((orphan.key, str(error)))
        else:
            deleted.append(orphan.key)
    for directory in sorted({posixpath.dirname(key) for key in deleted}):
        if checkpoint_number(posixpath.basename(directory)) is not None:
            storage.remove_directory(directory)
    return DeletionReport(tuple(deleted), tuple(failed))


def referenced_keys(
    storage: CheckpointStorage, retained: Iterable[LoadedSnapshot]
) -> frozenset[str]:
    """Returns keys of this storage that some snapshots name."""
    start = f"{storage.url}/"
    keys = set()
    for snapshot in retained:
        places = [snapshot.url_of(h) for h in snapshot.manifest.handles if h.path is not None]
        for place in [f"{snapshot.directory}/{METADATA}", *places]:
            if place.startswith(start):
                keys.add(place[len(start) :])
    return frozenset(keys)


def _checkpoint_of(key: str, layout: CheckpointLayout) -> int | None:
    """Returns the checkpoint that a file was written for; None: not for the sweep to judge."""
    directory, name = posixpath.split(key)
    if directory == layout.shared:
        # A temporary file names no checkpoint; its age alone decides.
        return 0 if name.startswith(TEMPORARY_PREFIX) else created_by(name)
    number = checkpoint_number(posixpath.basename(directory))
    if number is None or directory != layout.checkpoint(number):
        return None
    ours = name == METADATA or name.startswith(TEMPORARY_PREFIX) or created_by(name) is not None
    return number if ours else None
