"""One incarnation of the job's driver: boots, runs epochs, asks and obeys the real coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim_checks import ViolatedError
from sim_job import Job, Manifest, Snapshot
from sim_work import SWEEP_MS, StorageWork

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.deletion import SharedRegistry
from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.settings import ClaimMode
from penstock.core.job import JobStatus
from penstock.files.errors import FilesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_world import World

    from penstock.checkpoint.pointer import Pointer

EPOCH_MS = 40
REBOOT_MS = 100


class SimDriver(StorageWork):
    """Boots, runs epochs, obeys."""

    def __init__(self, world: World, leader_epoch: int) -> None:
        super().__init__(world, leader_epoch)
        self.alive = True
        self.paused_until = 0
        self.requests: set[str] = set()
        self.stopped = False
        self.closed = False
        self._attempts = 0
        self._wanted: list[instructions.RequestSnapshot] = []
        self._tick = 0

    # -- boot ---------------------------------------------------------------------------------

    def boot(self) -> None:
        """Takes over, reads the pointer, restores; storage faults only make it come again."""
        try:
            event = self._found(self.pointer.take_over())
            last_id = self.counter.last()
        except FencedError:
            self.alive = False
            return
        except FilesError:
            self.world.at(REBOOT_MS, self, self.boot)
            return
        manifests = [checkpoint.details for checkpoint in event.checkpoints]
        unclaimed = manifests[-1].unclaimed_up_to if manifests else 0
        if event.claim_mode in (ClaimMode.NO_CLAIM, ClaimMode.LEGACY):
            unclaimed = event.checkpoints[-1].checkpoint_id
        self.registry = SharedRegistry.rebuilt(manifests, unclaimed)  # type: ignore[arg-type]
        restored = events.Restored(
            event.checkpoints, max(last_id, event.last_id), event.claim_mode, event.subsumed
        )
        self.handle(restored)
        self.world.at(SWEEP_MS, self, self.sweep)
        if self.world.ending is not None:
            # The job was over when its driver died; what is left is to clean up.
            self.handle(events.JobEnded(self.world.ending))
            return
        self.start(manifests[-1].snapshot if manifests else None)

    def _found(self, pointer: Pointer) -> events.Restored:
        if not pointer.completed and self.world.foreign is not None:
            foreign, mode = self.world.foreign
            return events.Restored((self.entry_of(foreign),), foreign.checkpoint_id, mode)
        completed = tuple(self.checkpoint(entry) for entry in pointer.completed)
        subsumed = tuple(
            self.checkpoint(entry)
            for entry in pointer.subsumed
            if self.world.store.get(f"{entry.directory}/_metadata") is not None
        )
        return events.Restored(completed, subsumed=subsumed)

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
        stop = any(wanted.request.stop for wanted in self._wanted)
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

    def _schedule_tick(self, order: instructions.ScheduleTick) -> None:
        self._tick += 1
        number = self._tick

        def tick() -> None:
            if number == self._tick:
                self.handle(events.Ticked())

        if order.at_ms is not None:
            self.world.at(order.at_ms - self.world.now_ms, self, tick)

    def _request_snapshot(self, order: instructions.RequestSnapshot) -> None:
        self._wanted.append(order)

    def _notify_aborted(self, order: instructions.NotifyAborted) -> None:
        self.mark_aborted(order.checkpoint_id)
        self._wanted = [each for each in self._wanted if each.checkpoint_id != order.checkpoint_id]

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

    def request(self, event: events.TriggerRequested) -> None:
        assert event.request.request_id is not None
        self.requests.add(event.request.request_id)
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

    def _is_history(self, _order: instructions.Instruction) -> None:
        pass


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
    instructions.NotifyCompleted: SimDriver._is_history,
    instructions.DeclineTrigger: SimDriver._is_history,
    instructions.IgnoreAnswer: SimDriver._is_history,
}
