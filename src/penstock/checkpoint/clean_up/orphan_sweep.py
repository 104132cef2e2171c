"""Sweeps a job's checkpoint directory: at the start, every hour, and at the end.

What is listed is listed first, by a thread of its own; then the checkpoint service's thread says
what is needed by now, so that a checkpoint which completed meanwhile counts; then files go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.clean_up.orphans import (
    Orphan,
    delete_orphans,
    find_orphans,
    referenced_keys,
)
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.checkpoint.paths import CheckpointLayout
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.checkpoint.storage.contract import CheckpointStorage, Entry
    from penstock.core.clock import Clock

_EVERY_MS: Final = 60 * 60 * 1000
_log = logging.getLogger("penstock.checkpoint")


class OrphanSweep:
    """The sweeps of one job.

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
        storage: CheckpointStorage,
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
