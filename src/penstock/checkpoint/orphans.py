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

import contextlib
import logging
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.deletion import DeletionReport, delete_files
from penstock.checkpoint.paths import (
    METADATA,
    CheckpointLayout,
    checkpoint_number,
    created_by,
    written_by,
)
from penstock.checkpoint.pointer import CheckpointIdCounter, decode_pointer
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_entry, load_snapshot
from penstock.core.codec import DamagedError
from penstock.core.errors import PenstockError
from penstock.files.errors import ObjectMissingError
from penstock.files.local import TEMPORARY_PREFIX
from penstock.files.records import open_record
from penstock.files.urls import Storages, canonical_url, split_url

if TYPE_CHECKING:
    from penstock.core.times import Clock
    from penstock.files.contract import Entry, Storage

DEFAULT_GRACE_MS: Final = 24 * 60 * 60 * 1000
_EVERY_MS: Final = 60 * 60 * 1000
_log = logging.getLogger("penstock.checkpoint")


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
        ended_writer: No process writes under this id any more, so its files need no grace.
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
    storage: Storage, orphans: tuple[Orphan, ...], confirm: Callable[[], None]
) -> DeletionReport:
    """Deletes those that are deletable; a failure does not stop it."""
    files = {orphan.key: (storage, orphan.key) for orphan in orphans if orphan.is_deletable}
    report = delete_files(files, confirm)
    for directory in sorted({posixpath.dirname(key) for key in report.deleted}):
        if checkpoint_number(posixpath.basename(directory)) is not None:
            storage.remove_directory(directory)
    return report


def referenced_keys(storage: Storage, retained: Iterable[LoadedSnapshot]) -> frozenset[str]:
    """Returns keys of this storage that some snapshots name."""
    start = f"{storage.url}/"
    keys = set()
    for snapshot in retained:
        for place in [f"{snapshot.directory}/{METADATA}", *snapshot.files]:
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


class OrphanSweep:
    """The sweeps of a running job: at its start, every hour, and at its end.

    A thread of its own lists the files; then the checkpoint service's thread says what is needed.

    Args:
        storage: Where checkpoints are.
        layout: Names of the job's directories; without a directory per job nothing is swept.
        writer_id: What this process writes under.
        grace_ms: How old an orphan must be.
        clock: Says how old it is.
        confirm: Asked before each deletion; raises when another leader is at work.

    Attributes:
        orphan_bytes: Size of the orphans that the last sweep found and left.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a sweep depends on
        self,
        storage: Storage,
        layout: CheckpointLayout,
        writer_id: str,
        grace_ms: int,
        clock: Clock,
        confirm: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._layout = layout
        self._writer_id = writer_id
        self._grace_ms = grace_ms
        self._clock = clock
        self._confirm = confirm
        self.orphan_bytes = 0
        self._due_ms: int | None = None
        self._current_id = 0
        self._listing: Future[list[Entry]] | None = None
        self._thread = ThreadPoolExecutor(1, "penstock-sweep")

    def poke(
        self, now_ms: int, current_id: int, needed: Callable[[], Iterable[LoadedSnapshot]]
    ) -> None:
        """Goes on, as far as that is possible now; called now and then by one thread.

        Args:
            now_ms: Time of a monotonic clock.
            current_id: Lowest checkpoint under way, or the next one.
            needed: Says whose files must stay.
        """
        if not self._layout.prefix:
            return
        if self._listing is None:
            if self._due_ms is None or now_ms >= self._due_ms:
                self._due_ms = now_ms + _EVERY_MS
                self._current_id = current_id
                self._listing = self._thread.submit(self._list)
        elif self._listing.done():
            listing, self._listing = self._listing, None
            try:
                orphans = self._orphans(listing.result(), self._current_id, needed())
            except PenstockError as error:
                _log.warning("%s was not swept: %s", self._place, error)
                return
            if any(orphan.is_deletable for orphan in orphans):
                self._thread.submit(self._delete, orphans)

    def finish(self, last_id: int, needed: Iterable[LoadedSnapshot]) -> None:
        """Removes at the end of the job what its own aborted checkpoints left, at once."""
        if not self._layout.prefix:
            return
        try:
            orphans = self._orphans(self._list(), last_id + 1, needed, self._writer_id)
        except PenstockError as error:
            _log.warning("%s was not swept: %s", self._place, error)
        else:
            self._delete(orphans)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _place(self) -> str:
        return self._storage.url_of(self._layout.prefix)

    def _list(self) -> list[Entry]:
        return list(self._storage.list(self._layout.prefix))

    def _orphans(
        self,
        entries: list[Entry],
        current_id: int,
        needed: Iterable[LoadedSnapshot],
        ended_writer: str = "",
    ) -> tuple[Orphan, ...]:
        found = find_orphans(
            entries,
            self._layout,
            referenced_keys(self._storage, needed),
            current_id=current_id,
            now_ms=self._clock.wall_ms(),
            grace_ms=self._grace_ms,
            ended_writer=ended_writer,
        )
        self.orphan_bytes = sum(orphan.size_bytes for orphan in found)
        return found

    def _delete(self, orphans: tuple[Orphan, ...]) -> None:
        try:
            report = delete_orphans(self._storage, orphans, self._confirm)
        except PenstockError as error:
            _log.warning("The sweep of %s stopped: %s", self._place, error)
            return
        deleted = set(report.deleted)
        self.orphan_bytes = sum(each.size_bytes for each in orphans if each.key not in deleted)
        if report.deleted:
            _log.info(
                "Deleted %d files in %s that no checkpoint names.", len(report.deleted), self._place
            )
        for key, reason in report.failed[:3]:
            _log.warning("The orphan %s was not deleted: %s", self._storage.url_of(key), reason)


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


def _whole(storages: Storages, storage: Storage, job_id: str) -> Iterator[LoadedSnapshot]:
    for entry in storage.list(job_id):
        if entry.key.endswith(f"/{METADATA}"):
            with contextlib.suppress(DamagedError, ObjectMissingError):
                yield load_snapshot(storages, storage.url_of(entry.key))
