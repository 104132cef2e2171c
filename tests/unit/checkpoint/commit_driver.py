"""A small driver of the commit protocol, for tests: checkpoints one after the other, then recovery.

Its job: s1 s2 | s3 s4 | s123 replaces s1 s2 s3, new s5 |
s456 replaces s4 s5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkpoint_samples import JOB, LocalFiles, ids, job_snapshot, manifest

from penstock.checkpoint.deletion import (
    SharedRegistry,
    delete_shared,
    delete_snapshot,
    delete_unpublished,
)
from penstock.checkpoint.errors import CheckpointError, FencedError
from penstock.checkpoint.orphans import OrphanSweep
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.pointer import CheckpointIdCounter, JobPointer, Pointer
from penstock.checkpoint.snapshot_load import (
    LoadedSnapshot,
    find_problems,
    load_completed,
    load_entry,
)
from penstock.checkpoint.upload_plan import plan_checkpoint
from penstock.checkpoint.uploads import (
    prepare_directories,
    read_inline,
    run_upload,
    write_metadata,
)
from penstock.core.versioned import Rejected, Unknown
from penstock.files.errors import FilesError, StorageError
from penstock.files.records import open_record
from penstock.files.urls import Storages
from penstock.files.wrappers import RetryingStorage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.checkpoint.manifest import Manifest
    from penstock.checkpoint.paths import CheckpointLayout
    from penstock.files.contract import Storage

LIVE = (("s1", "s2"), ("s1", "s2", "s3", "s4"), ("s123", "s4", "s5"), ("s123", "s456"))
LAYOUT = layout_of(JOB)


def content_of(name: str) -> bytes:
    return f"content of {name}".encode() * 5


@dataclass
class Driver:
    """One leader of one job."""

    root: Storage
    leader_epoch: int = 1
    num_retained: int = 2
    threshold: int = 10
    local: LocalFiles = field(default_factory=LocalFiles)
    attempts: int = 3

    def __post_init__(self) -> None:
        def opener(url: str) -> Storage:
            assert url == self.root.url, url
            return self.root

        scheme = self.root.url.partition("://")[0]
        openers = {scheme: opener} if "://" in self.root.url else {"file": self._local}
        self.storages = Storages(
            openers=openers,
            retrying=lambda inner: RetryingStorage(
                inner, tries=self.attempts, sleep=lambda seconds: None
            ),
        )
        self.storage = self.storages.at(self.root.url)
        new_id = ids(f"L{self.leader_epoch}-")
        self.writer = f"leader{self.leader_epoch}"
        self.pointer = JobPointer(
            open_record(self.storage, LAYOUT.pointer), self.leader_epoch, new_id
        )
        self.counter = CheckpointIdCounter(
            open_record(self.storage, LAYOUT.counter), self.leader_epoch, new_id
        )
        self.loaded: dict[int, LoadedSnapshot] = {}
        self.registry = SharedRegistry()
        self.published: list[int] = []
        self.reserved: list[int] = []

    def _local(self, url: str) -> Storage:
        from penstock.files.local import LocalStorage

        assert isinstance(self.root, LocalStorage)
        return LocalStorage(url, self.root._disk)

    # -- taking over --------------------------------------------------------------------------

    def start(self) -> None:
        completed = load_completed(self.storages, self.pointer.take_over())
        self.loaded = {one.manifest.checkpoint_id: one for one in completed}
        self.registry = SharedRegistry.rebuilt(one.manifest for one in completed)
        self._finish_deletions()

    @property
    def latest(self) -> Manifest | None:
        completed = self.pointer.known.completed
        return self.loaded[completed[-1].checkpoint_id].manifest if completed else None

    # -- one checkpoint -----------------------------------------------------------------------

    def checkpoint(self, names: tuple[str, ...], epoch: int) -> int:
        """P0 to P11; returns the id. Raises CheckpointError when it failed."""
        number = self.counter.reserve()
        self.reserved.append(number)
        written = self._write(number, names, epoch)
        pointer = self.pointer.known
        self._publish(pointer.changed([*pointer.completed, written.entry(is_owned=True)]))
        self.published.append(number)
        self.loaded[number] = written
        self.registry = self.registry.registered(written.manifest)
        self._subsume()
        return number

    def _write(self, number: int, names: tuple[str, ...], epoch: int) -> LoadedSnapshot:
        chunk = self.local.chunk("w", b"w%d" % epoch, f"w{epoch}")
        big = self.local.chunk("b", b"big chunk %d" % epoch, f"b{epoch}")
        handles = [self.local.handle(name, content_of(name)) for name in names]
        snapshot = job_snapshot(*handles, epoch=epoch, chunks=(chunk, big))
        plan = plan_checkpoint(
            snapshot,
            manifest(number, leader_epoch=self.leader_epoch),
            self.storage,
            LAYOUT,
            writer_id=self.writer,
            inline=read_inline(snapshot, self.threshold, self.local.open_content),
            parent=self.latest,
            incremental=True,
        )
        try:
            prepare_directories(self.storage, LAYOUT, number)
            run_upload(plan, self.local.open_content)
            parent_id = None if self.latest is None else self.latest.checkpoint_id
            return write_metadata(plan, parent_id)
        except StorageError:
            # Known to have failed; an unknown outcome passes and nothing is deleted.
            delete_unpublished(plan).check_complete()
            raise

    def _publish(self, pointer: Pointer) -> None:
        outcome = self.pointer.publish(lambda _: pointer)
        for _ in range(20):
            if not isinstance(outcome, Unknown):
                break
            outcome = self.pointer.settle()
        if isinstance(outcome, Rejected):
            raise FencedError("somebody else leads")
        if isinstance(outcome, Unknown):
            raise CheckpointError(outcome.reason)

    def _subsume(self) -> None:
        surplus = len(self.pointer.known.completed) - self.num_retained
        if surplus > 0:
            gone = [e.checkpoint_id for e in self.pointer.known.completed[:surplus]]
            self._publish(self.pointer.known.subsuming(gone))
        self._finish_deletions()

    def _finish_deletions(self) -> None:
        done = []
        for entry in self.pointer.known.subsumed:
            try:
                one = self.loaded.get(entry.checkpoint_id) or load_entry(self.storages, entry)
            except FilesError:
                done.append(entry.checkpoint_id)
                continue
            if delete_snapshot(self.storages, one, self._confirm).is_complete:
                done.append(entry.checkpoint_id)
                self.loaded.pop(entry.checkpoint_id, None)
        completed = self.pointer.known.completed
        lowest = completed[0].checkpoint_id if completed else 0
        self.registry, files = self.registry.unregistered_below(lowest)
        delete_shared(self.storages, files, self._confirm)
        if done:
            self._publish(self.pointer.known.changed(completed, forgotten=done))

    def _confirm(self) -> None:
        self.pointer.confirm_lead()


class _SetClock:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms


def sweep(
    driver: Driver,
    *,
    now_ms: int,
    grace_ms: int,
    needed: Iterable[LoadedSnapshot] | None = None,
    layout: CheckpointLayout = LAYOUT,
) -> None:
    """Sweeps as a job does at its end."""
    swept = OrphanSweep(
        driver.storage, layout, "nobody", grace_ms, _SetClock(now_ms), driver.pointer.confirm_lead
    )
    swept.finish(driver.counter.last(), driver.loaded.values() if needed is None else needed)
    swept.close()


def check_recovery(root: Storage, before: Driver, tried: int) -> Driver:
    """Recovers with a new leader and checks the invariants; returns that leader.

    Args:
        root: Storage, healed.
        before: The leader that died.
        tried: Highest id whose publication was begun.
    """
    published = before.published
    driver = Driver(root, leader_epoch=2)
    driver.start()
    latest = driver.latest
    # Committed ones are never lost; what nobody heard of may have been committed or not.
    assert (latest.checkpoint_id if latest else 0) in {tried, *(published[-1:] or [0])}
    for one in driver.loaded.values():
        assert not find_problems(driver.storages, one)
        number = one.manifest.epoch
        named = {h.name for h in one.manifest.handles}
        assert named == {*LIVE[(number - 1) % 4], f"w{number}", f"b{number}"}
    # Ids rise, and life goes on.
    new = driver.checkpoint(LIVE[0], 1 + 4 * 10)
    assert new > max([*before.reserved, latest.checkpoint_id if latest else 0, 0])
    assert not find_problems(driver.storages, driver.loaded[new])
    return driver
