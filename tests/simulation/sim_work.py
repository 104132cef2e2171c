"""What the simulated driver does on the failing storage, by order of the coordinator.

Every order becomes two steps of the world: the effect, and its reply. A crash may come between any
two steps. Publication, ids, registry and the decision of the sweep are the real ones.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sim_checks import ViolatedError
from sim_job import Job, Manifest, plan_upload
from sim_store import SimRecord

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.coordination.coordinator import CheckpointCoordinator
from penstock.checkpoint.deletion import SharedRegistry
from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.orphans import find_orphans
from penstock.checkpoint.paths import CheckpointLayout
from penstock.checkpoint.pointer import CheckpointIdCounter, JobPointer, Pointer, PointerEntry
from penstock.core.versioned import Committed, Outcome, Rejected, VersionedRecord
from penstock.files.errors import FilesError, UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_world import World

    from penstock.files.contract import Entry

SWEEP_MS = 200
GRACE_MS = 100
"""Far shorter than in reality, so that the other conditions of the sweep have to hold."""


class StorageWork:
    """The part of a driver that touches storage and sinks."""

    def __init__(self, world: World, leader_epoch: int) -> None:
        self.world = world
        self.leader_epoch = leader_epoch
        self.settings = world.draw_settings()
        self.coordinator = CheckpointCoordinator(self.settings)
        self.job: Job | None = None
        self.pointer = self._new_pointer()
        self.counter = CheckpointIdCounter(
            VersionedRecord(SimRecord(world.store, "counter")), leader_epoch, self._write_id
        )
        self.registry = SharedRegistry()
        self._writes = 0
        self._aborted: set[int] = set()
        self._plans: dict[int, Manifest] = {}
        self._private: dict[int, list[str]] = {}

    def _new_pointer(self) -> JobPointer:
        record = VersionedRecord(SimRecord(self.world.store, "pointer"))
        return JobPointer(record, self.leader_epoch, self._write_id)

    def handle(self, event: events.Event) -> None:
        """Hands an event to the coordinator and obeys."""
        raise NotImplementedError

    def _write_id(self) -> str:
        self._writes += 1
        return f"{self.leader_epoch}-{self._writes}"

    def checkpoint(self, entry: PointerEntry) -> CompletedCheckpoint:
        manifest = self.world.store.get(f"{entry.directory}/_metadata")
        if manifest is None:
            raise ViolatedError(f"I5: {entry.directory} is retained and has no _metadata")
        return self.entry_of(manifest, owned=entry.is_owned)

    def entry_of(self, manifest: Manifest, *, owned: bool = True) -> CompletedCheckpoint:
        return CompletedCheckpoint(
            manifest.checkpoint_id,
            SnapshotKind.SAVEPOINT if manifest.is_savepoint else SnapshotKind.CHECKPOINT,
            manifest.directory,
            is_deletable=owned,
            may_be_base=owned and not manifest.is_savepoint,
            details=manifest,
        )

    def work(self, work: Callable[[], events.Event]) -> None:
        """Schedules an effect and, some time later, its reply."""

        def effect() -> None:
            reply = work()
            self.world.at(self.world.latency(), self, lambda: self.handle(reply))

        self.world.at(self.world.latency(), self, effect)

    def _reserve(self, order: instructions.ReserveId) -> None:
        def work() -> events.Event:
            try:
                reserved = self.counter.reserve(order.at_least)
            except FencedError as error:
                return events.LeadershipLost(str(error))
            except FilesError as error:
                return events.IdReservationFailed(str(error))
            self.world.checks.id_reserved(reserved)
            return events.IdReserved(reserved)

        self.work(work)

    def _upload(self, order: instructions.Upload) -> None:
        pending = order.checkpoint
        manifest = plan_upload(
            pending, self.registry.unclaimed_up_to, incremental=self.settings.incremental
        )
        number = pending.checkpoint_id
        self._plans[number] = manifest
        known = pending.base.details.files if pending.base is not None else {}  # type: ignore[attr-defined]
        new = [item for item in manifest.files.items() if item[0] not in known]
        self._private[number] = list(manifest.own_files)

        def put_next() -> None:
            if number in self._aborted:
                if self.world.chance(0.5):
                    self.handle(events.UploadFailed(number, "aborted"))
                return
            if not new:
                self.handle(events.UploadCompleted(number, manifest))
                return
            path, file = new[-1]
            try:
                self.world.store.put(path, file)
            except FilesError as error:
                if self.world.chance(0.3):
                    self.handle(events.UploadFailed(number, str(error)))
                    return
            else:
                new.pop()
            self.world.at(self.world.latency(), self, put_next)

        self.world.at(self.world.latency(), self, put_next)

    def _write_metadata(self, order: instructions.WriteMetadata) -> None:
        self._put_metadata(order.checkpoint.checkpoint_id)

    def _re_read_metadata(self, order: instructions.ReReadMetadata) -> None:
        self._put_metadata(order.checkpoint_id)

    def _put_metadata(self, number: int) -> None:
        """Writing the same bytes again is how an unknown outcome becomes known."""
        manifest = self._plans[number]
        was_unknown = number in self._private and manifest.metadata in self._private[number]

        def work() -> events.Event:
            try:
                self.world.store.put(manifest.metadata, manifest)
            except UnknownOutcomeError as error:
                self._private[number].append(manifest.metadata)
                return events.MetadataUnknown(number, str(error))
            except FilesError as error:
                if was_unknown:
                    return events.MetadataUnknown(number, str(error))
                return events.MetadataFailed(number, str(error))
            self._private[number].append(manifest.metadata)
            return events.MetadataWritten(number, manifest.directory, manifest)

        self.work(work)

    # -- publication --------------------------------------------------------------------------

    def _publish(self, order: instructions.Publish) -> None:
        number = order.checkpoint_id

        def change(known: Pointer) -> Pointer:
            return known.changed(
                map(_entry, order.retained),
                dropped=map(_entry, order.dropped),
                forgotten=order.forgotten,
            )

        def work() -> events.Event:
            try:
                outcome = self.pointer.publish(change)
            except FilesError as error:
                return events.PublicationFailed(number, str(error))
            return self._published(number, outcome)

        self.work(work)

    def _re_read_pointer(self, order: instructions.ReReadPointer) -> None:
        number = order.checkpoint_id
        self.work(lambda: self._published(number, self.pointer.settle()))

    def _published(self, number: int, outcome: Outcome) -> events.Event:
        if isinstance(outcome, Committed):
            self.registry = self.registry.registered(self._plans[number])  # type: ignore[arg-type]
            return events.Published(number)
        if isinstance(outcome, Rejected):
            return events.PublicationRejected(number, "rejected")
        return events.PublicationUnknown(number, outcome.reason)

    def _commit_sinks(self, order: instructions.CommitSinks) -> None:
        number = order.checkpoint.checkpoint_id
        manifest = order.checkpoint.details
        assert isinstance(manifest, Manifest)

        def work() -> events.Event:
            names = set()
            for committable in manifest.snapshot.committables:
                try:
                    self.world.store.call(
                        lambda each=committable: self.world.checks.sink_commit(number, each),
                        UnknownOutcomeError,
                    )
                except FilesError as error:
                    return events.SinkCommitFailed(number, str(error))
                names.add(committable.name)
            if self.job is not None:
                self.job.committed(names)
            return events.SinksCommitted(number)

        self.work(work)

    # -- clean-up -----------------------------------------------------------------------------

    def mark_aborted(self, checkpoint_id: int) -> None:
        """Uploads of this one stop at the next file."""
        self._aborted.add(checkpoint_id)

    def _confirmed_delete(self, number: int, paths: list[str]) -> events.Event:
        """Deletes files; before each one the leader epoch is read again."""
        failure = ""
        for path in paths:
            try:
                self.pointer.confirm_lead()
                self.world.store.delete(path, self.leader_epoch)
            except FencedError as error:
                return events.LeadershipLost(str(error))
            except FilesError as error:
                failure = str(error)
        if failure:
            return events.DeletionFailed(number, failure)
        return events.DeletionCompleted(number)

    def _discard(self, order: instructions.DiscardPending) -> None:
        number = order.checkpoint_id
        self.work(lambda: self._confirmed_delete(number, self._private.get(number, [])[::-1]))

    def _delete(self, order: instructions.DeleteCheckpoint) -> None:
        manifest = order.checkpoint.details
        assert isinstance(manifest, Manifest)
        paths = [manifest.metadata, *manifest.own_files]
        self.work(lambda: self._confirmed_delete(manifest.checkpoint_id, paths))

    def _release(self, order: instructions.ReleaseSharedFiles) -> None:
        self.registry, gone = self.registry.unregistered_below(order.lowest_id)
        self._check_registry(order.lowest_id)
        paths = list(gone)

        def work() -> events.Event:
            answer = self._confirmed_delete(0, paths)
            is_lost = isinstance(answer, events.LeadershipLost)
            return answer if is_lost else events.SharedFilesReleased()

        self.work(work)

    def sweep(self) -> None:
        """Looks for files that nobody names: first lists, later reads the pointer, then deletes."""
        current_id = self.coordinator.lowest_unfinished_id
        with contextlib.suppress(FilesError):
            entries = self.world.store.list()
            self.world.at(
                self.world.latency(), self, lambda: self._sweep_found(entries, current_id)
            )
        self.world.at(SWEEP_MS, self, self.sweep)

    def _sweep_found(self, entries: list[Entry], current_id: int) -> None:
        with contextlib.suppress(FilesError):
            named: set[str] = set()
            for entry in self._new_pointer().read().completed:
                manifest = self.checkpoint(entry).details
                assert isinstance(manifest, Manifest)
                named.update((manifest.metadata, *manifest.files))
            for base in self.coordinator.needed:
                assert isinstance(base.details, Manifest)
                named.update(base.details.files)
            orphans = find_orphans(
                entries,
                CheckpointLayout(""),
                named,
                current_id=current_id,
                now_ms=self.world.now_ms,
                grace_ms=GRACE_MS,
            )
            doomed = [orphan.key for orphan in orphans if orphan.is_deletable]
            self.world.seen["swept"] += len(doomed)
            self._confirmed_delete(0, doomed)

    def _check_registry(self, lowest_id: int) -> None:
        """What a rebuilt registry knows is known, equally."""
        manifests = [checkpoint.details for checkpoint in self.coordinator.retained]
        rebuilt = SharedRegistry.rebuilt(manifests)  # type: ignore[arg-type]
        for path, entry in rebuilt.files.items():
            if entry.last_used >= lowest_id and self.registry.files.get(path) != entry:
                raise ViolatedError(f"I6: the registry has {self.registry.files.get(path)}")

    def _remove_pointers(self, order: instructions.RemovePointers) -> None:
        def work() -> events.Event:
            try:
                outcome = self.pointer.end(order.checkpoint_ids)
            except FilesError as error:
                return events.PointerRemovalUnknown(str(error))
            if outcome is None or isinstance(outcome, Committed):
                return events.PointersRemoved()
            if isinstance(outcome, Rejected) and outcome.fenced:
                return events.LeadershipLost("another leader")
            return events.PointerRemovalUnknown("no reply")

        self.work(work)


def _entry(checkpoint: CompletedCheckpoint) -> PointerEntry:
    return PointerEntry(
        checkpoint_id=checkpoint.checkpoint_id,
        directory=checkpoint.location,
        size_bytes=1,
        sha256="",
        is_savepoint=checkpoint.is_savepoint,
        is_owned=checkpoint.is_deletable,
    )
