"""One incarnation of the job's driver: obeys the real coordinator on the failing storage.

Every instruction that asks for work becomes two steps of the world: the effect, and its reply. A
crash may come between any two steps. Publication, ids and the registry are the real ones.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from sim_checks import ViolatedError
from sim_job import File, Handle, Job, Manifest, Snapshot
from sim_store import SimRecord

from penstock.checkpoint import events, instructions
from penstock.checkpoint.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.errors import CheckpointError, FencedError, UnknownOutcomeError
from penstock.checkpoint.id_counter import CheckpointIdCounter
from penstock.checkpoint.orphans import find_orphans
from penstock.checkpoint.paths import CheckpointLayout
from penstock.checkpoint.pointer import Pointer, PointerEntry, PointerRecord
from penstock.checkpoint.registry import SharedRegistry
from penstock.checkpoint.settings import ClaimMode
from penstock.core.job import JobStatus
from penstock.core.versioned import Committed, Outcome, Rejected, Unknown, VersionedRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_world import World

    from penstock.checkpoint.storage import Entry

EPOCH_MS = 40
REBOOT_MS = 100
SWEEP_MS = 200
GRACE_MS = 100
"""Far shorter than in reality, so that the other conditions of the sweep have to hold."""


class SimDriver:
    """Boots, runs epochs, obeys."""

    def __init__(self, world: World, leader_epoch: int) -> None:
        self.world = world
        self.leader_epoch = leader_epoch
        self.alive = True
        self.paused_until = 0
        self.settings = world.draw_settings()
        self.coordinator = CheckpointCoordinator(self.settings)
        self.job: Job | None = None
        self.requests: set[str] = set()
        self.stopped = False
        self.closed = False
        self._attempts = 0
        self._writes = 0
        self._wanted: list[instructions.RequestSnapshot] = []
        self._aborted: set[int] = set()
        self._plans: dict[int, Manifest] = {}
        self._private: dict[int, list[str]] = {}
        self._tick = 0
        self._pointer = PointerRecord(
            VersionedRecord(SimRecord(world.store, "pointer")), leader_epoch, self._write_id
        )
        self._counter = CheckpointIdCounter(
            VersionedRecord(SimRecord(world.store, "counter")), leader_epoch, self._write_id
        )
        self._read: tuple[Pointer, Any] = (Pointer(), None)
        self._unknown: tuple[Pointer, Unknown] | None = None
        self._registry = SharedRegistry()

    def _write_id(self) -> str:
        self._writes += 1
        return f"{self.leader_epoch}-{self._writes}"

    # -- boot ---------------------------------------------------------------------------------

    def boot(self) -> None:
        """Takes over, reads the pointer, restores; storage faults only make it come again."""
        try:
            outcome = self._pointer.take_over()
            if isinstance(outcome, Rejected) and outcome.fenced:
                self.alive = False
                return
            found = self._pointer.read()
            event = self._found(found.pointer)
            last_id = self._counter.last()
        except CheckpointError:
            self.world.at(REBOOT_MS, self, self.boot)
            return
        if not isinstance(outcome, Committed):
            self.world.at(REBOOT_MS, self, self.boot)
            return
        self._read = found.pointer, found.version
        manifests = [checkpoint.details for checkpoint in event.checkpoints]
        unclaimed = manifests[-1].unclaimed_up_to if manifests else 0
        if event.claim_mode in (ClaimMode.NO_CLAIM, ClaimMode.LEGACY):
            unclaimed = event.checkpoints[-1].checkpoint_id
        self._registry = SharedRegistry.rebuilt(manifests, unclaimed)  # type: ignore[arg-type]
        restored = events.Restored(
            event.checkpoints, max(last_id, event.last_id), event.claim_mode, event.subsumed
        )
        self.handle(restored)
        self.world.at(SWEEP_MS, self, self._sweep)
        if self.world.ending is not None:
            # The job was over when its driver died; what is left is to clean up.
            self.handle(events.JobEnded(self.world.ending))
            return
        self.start(manifests[-1].snapshot if manifests else None)

    def _found(self, pointer: Pointer) -> events.Restored:
        if not pointer.completed and self.world.foreign is not None:
            foreign, mode = self.world.foreign
            return events.Restored((self._entry_of(foreign),), foreign.checkpoint_id, mode)
        completed = tuple(self._checkpoint(entry) for entry in pointer.completed)
        subsumed = tuple(
            self._checkpoint(entry)
            for entry in pointer.subsumed
            if self.world.store.get(f"{entry.directory}/_metadata") is not None
        )
        return events.Restored(completed, subsumed=subsumed)

    def _checkpoint(self, entry: PointerEntry) -> CompletedCheckpoint:
        manifest = self.world.store.get(f"{entry.directory}/_metadata")
        if manifest is None:
            raise ViolatedError(f"I5: {entry.directory} is retained and has no _metadata")
        return self._entry_of(manifest, owned=entry.is_owned)

    def _entry_of(self, manifest: Manifest, *, owned: bool = True) -> CompletedCheckpoint:
        return CompletedCheckpoint(
            manifest.checkpoint_id,
            SnapshotKind.SAVEPOINT if manifest.is_savepoint else SnapshotKind.CHECKPOINT,
            manifest.directory,
            is_deletable=owned,
            may_be_base=owned and not manifest.is_savepoint,
            details=manifest,
        )

    def start(self, snapshot: Snapshot | None) -> None:
        """Starts an attempt."""
        if snapshot is not None:
            self.world.checks.restored(snapshot)
        self._attempts += 1
        self.job = Job(f"{self.leader_epoch}.{self._attempts}", snapshot)
        self._wanted.clear()
        self.handle(events.Started(self.world.random.randint(*self.settings.first_delay_range_ms)))
        self._next_epoch(self.job)

    # -- epochs -------------------------------------------------------------------------------

    def _next_epoch(self, job: Job) -> None:
        self.world.at(EPOCH_MS, self, lambda: self._epoch(job))

    def _epoch(self, job: Job) -> None:
        if job is not self.job or self.stopped:
            return
        world = self.world
        if not world.healed and world.chance(world.odds.attempt_fails):
            self.fail_attempt()
            return
        records = 0 if world.input_ended else world.random.randint(0, 3)
        job.run_epoch(records, compact=world.chance(0.2))
        stop = any(request.stop for request in self._wanted)
        if self._wanted:
            self._wanted.clear()
            self.stopped = stop
            self.handle(events.EpochCompleted(job.epoch, job.snapshot(), stop))
        self._next_epoch(job)

    def fail_attempt(self) -> None:
        if self.job is not None:
            self.job = None
            self.handle(events.AttemptFailed())

    # -- events and instructions --------------------------------------------------------------

    def handle(self, event: events.Event) -> None:
        orders = self.coordinator.handle(event, self.world.now_ms)
        self.coordinator.validate()
        self.world.seen[type(event)] += 1
        for order in orders:
            self.world.seen[type(order)] += 1
            OBEY[type(order)](self, order)

    def _work(self, work: Callable[[], events.Event]) -> None:
        """Schedules an effect and, some time later, its reply."""

        def effect() -> None:
            reply = work()
            self.world.at(self.world.latency(), self, lambda: self.handle(reply))

        self.world.at(self.world.latency(), self, effect)

    def _schedule_tick(self, order: instructions.ScheduleTick) -> None:
        self._tick += 1
        number = self._tick

        def tick() -> None:
            if number == self._tick:
                self.handle(events.Ticked())

        if order.at_ms is not None:
            self.world.at(order.at_ms - self.world.now_ms, self, tick)

    def _reserve(self, order: instructions.ReserveId) -> None:
        def work() -> events.Event:
            try:
                reserved = self._counter.reserve(order.at_least)
            except FencedError as error:
                return events.LeadershipLost(str(error))
            except CheckpointError as error:
                return events.IdReservationFailed(str(error))
            self.world.checks.id_reserved(reserved)
            return events.IdReserved(reserved)

        self._work(work)

    def _request_snapshot(self, order: instructions.RequestSnapshot) -> None:
        self._wanted.append(order)

    def _upload(self, order: instructions.Upload) -> None:
        manifest = self._plan(order)
        number = order.checkpoint_id
        self._plans[number] = manifest
        known = order.base.details.files if order.base is not None else {}  # type: ignore[attr-defined]
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
            except CheckpointError as error:
                if self.world.chance(0.3):
                    self.handle(events.UploadFailed(number, str(error)))
                    return
            else:
                new.pop()
            self.world.at(self.world.latency(), self, put_next)

        self.world.at(self.world.latency(), self, put_next)

    def _plan(self, order: instructions.Upload) -> Manifest:
        """Decides what is stored where: shared by incremental checkpoints, else private."""
        number, snapshot = order.checkpoint_id, order.snapshot
        unclaimed = self._registry.unclaimed_up_to
        is_savepoint = order.request.kind is SnapshotKind.SAVEPOINT
        directory = f"savepoint-{number}" if is_savepoint else f"chk-{number}"
        if is_savepoint or not self.settings.incremental:
            own = {f"{directory}/{file.name}": file for file in snapshot.files}
            return Manifest(number, directory, is_savepoint, snapshot, {}, own, unclaimed)
        base = order.base.details.shared_files if order.base is not None else {}  # type: ignore[attr-defined]
        by_name = {handle.file.name: path for path, handle in base.items()}
        shared = {}
        for file in snapshot.files:
            path = by_name.get(file.name) or _shared_path(file, number)
            shared[path] = base.get(path) or Handle(file, number)
        return Manifest(number, directory, is_savepoint, snapshot, shared, {}, unclaimed)

    def _write_metadata(self, order: instructions.WriteMetadata) -> None:
        self._put_metadata(order.checkpoint_id)

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
            except CheckpointError as error:
                if was_unknown:
                    return events.MetadataUnknown(number, str(error))
                return events.MetadataFailed(number, str(error))
            self._private[number].append(manifest.metadata)
            return events.MetadataWritten(number, manifest.directory, manifest)

        self._work(work)

    # -- publication --------------------------------------------------------------------------

    def _publish(self, order: instructions.Publish) -> None:
        number = order.checkpoint_id
        pointer, version = self._read
        added = [each for each in order.retained if each.checkpoint_id not in _ids(pointer)]
        for checkpoint in added:
            pointer = pointer.adding(
                PointerEntry(
                    checkpoint_id=checkpoint.checkpoint_id,
                    directory=checkpoint.location,
                    size_bytes=1,
                    sha256="",
                    is_savepoint=checkpoint.is_savepoint,
                    is_owned=checkpoint.is_deletable,
                )
            )
        pointer = pointer.subsuming({each.checkpoint_id for each in order.dropped})
        pointer = pointer.forgetting(order.forgotten)
        assert _ids(pointer) == {each.checkpoint_id for each in order.retained}

        def work() -> events.Event:
            try:
                outcome = self._pointer.publish(pointer, version)
            except CheckpointError as error:
                return events.PublicationFailed(number, str(error))
            return self._published(number, pointer, outcome)

        self._work(work)

    def _re_read_pointer(self, order: instructions.ReReadPointer) -> None:
        assert self._unknown is not None
        pointer, unknown = self._unknown

        def work() -> events.Event:
            outcome = self._pointer.settle(unknown)
            return self._published(order.checkpoint_id, pointer, outcome)

        self._work(work)

    def _published(self, number: int, pointer: Pointer, outcome: Outcome) -> events.Event:
        self._unknown = None
        if isinstance(outcome, Committed):
            self._read = pointer, outcome.current
            if number:
                self._registry = self._registry.registered(self._plans[number])  # type: ignore[arg-type]
            return events.Published(number)
        if isinstance(outcome, Rejected):
            return events.PublicationRejected(number, "rejected")
        self._unknown = pointer, outcome
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
                except CheckpointError as error:
                    return events.SinkCommitFailed(number, str(error))
                names.add(committable.name)
            if self.job is not None:
                self.job.committed(names)
            return events.SinksCommitted(number)

        self._work(work)

    # -- clean-up -----------------------------------------------------------------------------

    def _notify_aborted(self, order: instructions.NotifyAborted) -> None:
        self._aborted.add(order.checkpoint_id)
        self._wanted = [each for each in self._wanted if each.checkpoint_id != order.checkpoint_id]

    def _confirmed_delete(self, number: int, paths: list[str]) -> events.Event:
        """Deletes files; before each one the leader epoch is read again."""
        failure = ""
        for path in paths:
            try:
                current = self._pointer.read().version
                if current is not None and current.leader_epoch > self.leader_epoch:
                    return events.LeadershipLost("another leader")
                self.world.store.delete(path, self.leader_epoch)
            except CheckpointError as error:
                failure = str(error)
        if failure:
            return events.DeletionFailed(number, failure)
        return events.DeletionCompleted(number)

    def _discard(self, order: instructions.DiscardPending) -> None:
        number = order.checkpoint_id
        self._work(lambda: self._confirmed_delete(number, self._private.get(number, [])[::-1]))

    def _delete(self, order: instructions.DeleteCheckpoint) -> None:
        manifest = order.checkpoint.details
        assert isinstance(manifest, Manifest)
        paths = [manifest.metadata, *manifest.own_files]
        self._work(lambda: self._confirmed_delete(manifest.checkpoint_id, paths))

    def _release(self, order: instructions.ReleaseSharedFiles) -> None:
        self._registry, gone = self._registry.unregistered_below(order.lowest_id)
        self._check_registry(order.lowest_id)
        paths = [file.path for file in gone]

        def work() -> events.Event:
            answer = self._confirmed_delete(0, paths)
            is_lost = isinstance(answer, events.LeadershipLost)
            return answer if is_lost else events.SharedFilesReleased()

        self._work(work)

    def _sweep(self) -> None:
        """Looks for files that nobody names: first lists, later reads the pointer, then deletes."""
        current_id = self.coordinator.lowest_unfinished_id
        with contextlib.suppress(CheckpointError):
            entries = self.world.store.list()
            self.world.at(
                self.world.latency(), self, lambda: self._sweep_found(entries, current_id)
            )
        self.world.at(SWEEP_MS, self, self._sweep)

    def _sweep_found(self, entries: list[Entry], current_id: int) -> None:
        with contextlib.suppress(CheckpointError):
            named: set[str] = set()
            for entry in self._pointer.read().pointer.completed:
                manifest = self._checkpoint(entry).details
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
        """I6: what a rebuilt registry knows is known, equally."""
        manifests = [checkpoint.details for checkpoint in self.coordinator.retained]
        rebuilt = SharedRegistry.rebuilt(manifests)  # type: ignore[arg-type]
        for path, entry in rebuilt.files.items():
            if entry.last_used >= lowest_id and self._registry.files.get(path) != entry:
                raise ViolatedError(f"I6: the registry has {self._registry.files.get(path)}")

    def _remove_pointers(self, order: instructions.RemovePointers) -> None:
        def work() -> events.Event:
            if self._unknown is None:
                pointer, version = self._read
                pointer = pointer.subsuming(set(order.checkpoint_ids))
                try:
                    outcome = self._pointer.publish(pointer, version)
                except CheckpointError as error:
                    return events.PointerRemovalUnknown(str(error))
            else:
                pointer, unknown = self._unknown
                outcome = self._pointer.settle(unknown)
            answer = self._published(0, pointer, outcome)
            if isinstance(answer, events.Published):
                return events.PointersRemoved()
            if isinstance(answer, events.PublicationRejected):
                return events.LeadershipLost("rejected")
            return events.PointerRemovalUnknown("no reply")

        self._work(work)

    # -- life ---------------------------------------------------------------------------------

    def _recover(self, order: instructions.Recover) -> None:
        details = order.checkpoint.details if order.checkpoint is not None else None
        snapshot = details.snapshot if isinstance(details, Manifest) else None
        self.stopped = False
        self.world.at(REBOOT_MS, self, lambda: self.start(snapshot))

    def _fail_job(self, _order: instructions.FailJob) -> None:
        self.world.at(1, self, self.fail_attempt)

    def _step_down(self, order: instructions.StepDown) -> None:
        self.alive = False
        if self.leader_epoch == self.world.leader_epoch:
            raise ViolatedError(f"I8: stepped down without a successor: {order.message}")

    def _finish(self, _order: instructions.FinishJob) -> None:
        self.world.at(1, self, lambda: self.end(JobStatus.FINISHED))

    def end(self, status: JobStatus) -> None:
        """The job has ended; the coordinator cleans up."""
        if self.leader_epoch != self.world.leader_epoch:
            return
        self.world.final_offset = self.job.offset if self.job is not None else None
        self.job = None
        self.world.ending = status
        self.handle(events.JobEnded(status))

    def _close(self, _order: instructions.Close) -> None:
        self.closed = True
        if self.requests:
            raise ViolatedError(f"{self.requests} were never answered")

    def request(self, event: events.TriggerRequested | events.StopRequested) -> None:
        self.requests.add(event.request_id)
        self.handle(event)

    def _complete(self, order: instructions.CompleteRequest) -> None:
        if order.request_id not in self.requests:
            raise ViolatedError(f"{order.request_id} was answered twice")
        self.requests.discard(order.request_id)
        self.world.answered(self, order)
        if order.checkpoint is not None and order.checkpoint.is_savepoint:
            manifest = order.checkpoint.details
            assert isinstance(manifest, Manifest)
            self.world.checks.belongs_to_user(manifest)

    def _announce(self, _order: instructions.Announce) -> None:
        pass


def _shared_path(file: File, number: int) -> str:
    """Named as real files are: content, creation number, writer."""
    return f"shared/{0:064x}-{number}-{file.name}"


def _ids(pointer: Pointer) -> set[int]:
    return {entry.checkpoint_id for entry in pointer.completed}


OBEY: dict[type, Callable[[SimDriver, Any], None]] = {
    instructions.ScheduleTick: SimDriver._schedule_tick,
    instructions.ReserveId: SimDriver._reserve,
    instructions.RequestSnapshot: SimDriver._request_snapshot,
    instructions.Upload: SimDriver._upload,
    instructions.WriteMetadata: SimDriver._write_metadata,
    instructions.ReReadMetadata: SimDriver._re_read_metadata,
    instructions.Publish: SimDriver._publish,
    instructions.ReReadPointer: SimDriver._re_read_pointer,
    instructions.CommitSinks: SimDriver._commit_sinks,
    instructions.NotifyAborted: SimDriver._notify_aborted,
    instructions.DiscardPending: SimDriver._discard,
    instructions.DeleteCheckpoint: SimDriver._delete,
    instructions.ReleaseSharedFiles: SimDriver._release,
    instructions.RemovePointers: SimDriver._remove_pointers,
    instructions.Recover: SimDriver._recover,
    instructions.FailJob: SimDriver._fail_job,
    instructions.StepDown: SimDriver._step_down,
    instructions.FinishJob: SimDriver._finish,
    instructions.Close: SimDriver._close,
    instructions.CompleteRequest: SimDriver._complete,
    instructions.Announce: SimDriver._announce,
}
