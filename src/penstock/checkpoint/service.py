"""Drives the checkpoint coordinator: one thread that hands it events and obeys its instructions.

Anyone may post events; only this thread calls the coordinator. `executor` does what it says:
uploads and metadata in a second thread, so that time-outs and requests are heard meanwhile, the
rest in place. The job's driver asks `wanted` at the end of each epoch, and `offer`s its state.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, TriggerRequest
from penstock.checkpoint.coordination.coordinator import CheckpointCoordinator
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.executor import Sinks, WatchedSinks, execute
from penstock.checkpoint.snapshot_load import LoadedSnapshot, loaded_of
from penstock.checkpoint.statistics import CheckpointJournal, TaskShape, figures_of
from penstock.core.job import JobStatus, WantedSnapshot

if TYPE_CHECKING:
    from penstock.checkpoint.figures import CheckpointFigures
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.manifest import JobSnapshot
    from penstock.checkpoint.settings import CheckpointSettings
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.core.times import Clock

_log = logging.getLogger("penstock.checkpoint")
_LONGEST_WAIT_S: Final = 0.2
_CLOSE_TIMEOUT_S: Final = 30.0
_COMMIT_PATIENCE_S: Final = 0.5
"""How long a cancelled job waits for a committer of the user's."""

Result = Future[CompletedCheckpoint]


class Driver(Protocol):
    """Runs an attempt."""

    def wake(self) -> None:
        """Ends the present epoch soon: a snapshot is wanted."""

    def fail(self, message: str, *, is_lasting: bool = False) -> None:
        """Fails the attempt; no other follows if that would fail as well."""


class CheckpointedJob(Protocol):
    """What checkpoints need of the job itself."""

    @property
    def tasks(self) -> tuple[TaskShape, ...]:
        """Its tasks, for figures."""

    @property
    def sinks(self) -> Sinks:
        """Its output."""

    def capture(self, driver: Any) -> tuple[JobSnapshot, frozenset[str]]:
        """Returns the state at the end of an epoch, and the local files in it, which are pinned."""

    def pin_again(self, names: frozenset[str]) -> frozenset[str]:
        """Pins local files that are pinned already once more."""

    def unpin(self, names: frozenset[str]) -> None:
        """Lets go of local files."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The state at the end of an epoch, with the names of its files, which are pinned."""

    event: events.EpochCompleted
    pinned: frozenset[str]


class CheckpointService:
    """Takes the checkpoints and savepoints of one job, over all its attempts.

    Args:
        files: Its durable files.
        settings: When and how checkpoints are taken.
        job: The job itself.
        clock: Its time.
        random_delay: Draws the first delay between two numbers of milliseconds.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        settings: CheckpointSettings,
        job: CheckpointedJob,
        clock: Clock,
        random_delay: Callable[[int, int], int],
    ) -> None:
        self._job_id = files.job_id
        self._files = files
        self._settings = settings
        self._job = job
        self._clock = clock
        self._random_delay = random_delay
        self._coordinator = CheckpointCoordinator(settings)
        subtasks = sum(task.parallelism for task in job.tasks)
        self.journal = CheckpointJournal(self._job_id, clock, settings.history_size, subtasks)
        self._events: queue.Queue[events.Event | Offer] = queue.Queue()
        self._lock = threading.Lock()
        """Guards what the job's threads and ours both change: the next five."""
        self._wanted: WantedSnapshot | None = None
        self._wanted_ids: dict[int, bool] = {}
        """Checkpoints that wait for the end of an epoch; True: of the last one."""
        self._requests: dict[str, Result] = {}
        self._stopped: Result = Future()
        self._recovery: Future[CompletedCheckpoint | None] | None = None
        self._request_numbers = itertools.count(1)
        self._pins: dict[int, frozenset[str]] = {}
        """Local files that checkpoints under way still read."""
        self._broken = ""
        self._tick_ms: int | None = None
        self._driver: Driver | None = None
        self._had_backlog = False
        self._is_closed = threading.Event()
        self.is_fenced = False  # True once another leader has taken over.
        self.has_stopped = False  # True once the job has stopped with a savepoint.
        name = self._job_id[:8]
        self._background = ThreadPoolExecutor(1, f"penstock-snapshots-{name}")
        self.sinks = WatchedSinks(job.sinks, clock)
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-checkpoints-{name}", daemon=True
        )

    # -- called by the job --------------------------------------------------------------------

    def start(self, restored: events.Restored | None = None) -> None:
        """Starts the thread; numbers go on from those of restored snapshots."""
        if restored is not None:
            self._events.put(restored)
        self._thread.start()

    def attempt_started(self, driver: Driver) -> None:
        """An attempt of the job runs."""
        with self._lock:
            self._stopped = Future()
        self._driver = driver
        low, high = self._settings.first_delay_range_ms
        self._events.put(events.Started(self._random_delay(low, high)))

    def recover(self, message: str) -> CompletedCheckpoint | None:
        """An attempt failed: returns where to start the next one, unless `has_stopped` by now."""
        self._driver = None
        recovery: Future[CompletedCheckpoint | None] = Future()
        with self._lock:
            self._check_open()
            self._recovery = recovery
        self._events.put(events.AttemptFailed(message))
        return recovery.result()

    def epoch_ended(self, *, backlog: bool, some_tasks_ended: bool) -> None:
        """Tells what the timetable depends on."""
        self.sinks.watch()
        if backlog is not self._had_backlog:
            self._had_backlog = backlog
            self._events.put(events.BacklogChanged(backlog))
        if some_tasks_ended and not self._settings.checkpoints_after_tasks_finish:
            self._events.put(events.TasksFinished())

    def request(self, request: TriggerRequest) -> Result:
        """Takes a snapshot; for `stop` it is the last one of the job."""
        request_id = f"request-{next(self._request_numbers)}"
        result: Result = Future()
        with self._lock:
            self._check_open()
            self._requests[request_id] = result
        self._events.put(events.TriggerRequested(replace(request, request_id=request_id)))
        return result

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            ended = f"job {self._job_id} has ended; it takes no snapshot any more."
            raise CheckpointError(self._broken or ended)

    def close(self, status: JobStatus) -> None:
        """The job has ended: cleans up as the retention policy says, then returns."""
        self._driver = None
        ends_s = self._clock.monotonic_ms() / 1000 + _CLOSE_TIMEOUT_S
        if self._thread.is_alive():
            self._events.put(events.JobEnded(status))
            stuck_s = 0.0
            while not self._is_closed.wait(_LONGEST_WAIT_S):
                is_stuck = status is JobStatus.CANCELED and self.sinks.is_committing
                stuck_s = stuck_s + _LONGEST_WAIT_S if is_stuck else 0.0
                if stuck_s > _COMMIT_PATIENCE_S or self._clock.monotonic_ms() / 1000 > ends_s:
                    why = ": a sink does not return from its commit" if is_stuck else " in time"
                    _log.warning("Checkpoints of job %s were not cleaned up%s.", self._job_id, why)
                    break
        self._end()
        if self._thread.is_alive() and not self.sinks.is_committing:
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._background.shutdown(wait=False, cancel_futures=True)
        self._files.close()

    def _end(self) -> None:
        """Takes no more requests, and fails those that still wait."""
        with self._lock:
            self._is_closed.set()
            waiting: list[Future[Any]] = [*self._requests.values(), self._stopped]
            self._requests.clear()
            if self._recovery is not None:
                waiting.append(self._recovery)
        for future in waiting:
            if not future.done():
                reason = self._broken or f"job {self._job_id} has ended."
                future.set_exception(CheckpointError(reason))

    # -- called by the driver -----------------------------------------------------------------

    def wanted(self) -> WantedSnapshot | None:
        """Returns what is asked for at the end of an epoch."""
        return self._wanted

    def offer(self, driver: Any, *, stopped: bool) -> None:
        """Takes the state of the job at the end of an epoch."""
        with self._lock:
            # A stop that was asked for just now is for the end of the next epoch.
            if self._wanted is not None and (stopped or not self._wanted.stop):
                self._wanted = None
        snapshot, pinned = self._job.capture(driver)
        self._events.put(Offer(events.EpochCompleted(snapshot.epoch, snapshot, stopped), pinned))

    def wait_stopped(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Waits until the savepoint that the job stops with counts and its output is visible.

        Args:
            meanwhile: Is called again and again.

        Raises:
            CheckpointError: It failed; so does the attempt.
        """
        while not futures.wait([self._stopped], _LONGEST_WAIT_S).done:
            self.sinks.watch()
            meanwhile()
        self._stopped.result()

    def pause(self) -> None:
        """Waits a moment, less if the service ends."""
        self._is_closed.wait(0.02)

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
        except Exception:
            if threading.main_thread().is_alive():
                raise
            # At the end of a program its executors take no more work, and the job ends, too.
            self._end()

    def _serve(self) -> None:
        while not self._is_closed.is_set():
            event = self._next_event()
            now_ms = self._clock.monotonic_ms()
            if isinstance(event, Offer):
                self._assign(event)
                self._handle(event.event, now_ms)
            elif event is not None:
                self._handle(event, now_ms)
            elif self._tick_ms is not None and now_ms >= self._tick_ms:
                self._tick_ms = None
                self._handle(events.Ticked(), now_ms)
            self._files.orphans.poke(
                now_ms, self._coordinator.lowest_unfinished_id, self._needed_files
            )

    def _assign(self, offer: Offer) -> None:
        """Notes which checkpoints get the state that was offered: all that wait by now."""
        with self._lock:
            chosen = [
                number
                for number, of_last_epoch in self._wanted_ids.items()
                if offer.event.stopped or not of_last_epoch
            ]
            for number in chosen:
                del self._wanted_ids[number]
            if not self._wanted_ids:
                self._wanted = None
        for number in chosen:
            self._pins[number] = self._job.pin_again(offer.pinned)
        self._job.unpin(offer.pinned)

    def _next_event(self) -> events.Event | Offer | None:
        wait_s = _LONGEST_WAIT_S
        if self._tick_ms is not None:
            left_ms = self._tick_ms - self._clock.monotonic_ms()
            wait_s = min(wait_s, max(left_ms, 0) / 1000)
        try:
            return self._events.get(timeout=wait_s) if wait_s > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def _needed_files(self) -> Iterable[LoadedSnapshot]:
        return map(loaded_of, self._coordinator.needed)

    def _handle(self, event: events.Event, now_ms: int) -> None:
        self.journal.note(event)
        try:
            for instruction in self._coordinator.handle(event, now_ms):
                self.journal.note(instruction)
                answer = execute(instruction, self._files, self.sinks, self)
                if answer is not None:
                    self._events.put(answer)
        except Exception as error:
            if not threading.main_thread().is_alive():
                raise
            # A mistake of ours must not leave the job without checkpoints, or waiting for answers.
            _log.exception("the checkpoint coordinator failed")
            self._broken = f"the checkpoint coordinator failed: {type(error).__name__}: {error}"
            self._fail_job(self._broken)
            self._end()

    # -- called by the executor ---------------------------------------------------------------

    def in_background(self, work: Callable[[], events.Event]) -> None:
        """Does work in the second thread, which posts its answer."""
        self._background.submit(lambda: self._events.put(work()))

    def figures(self, instruction: instructions.Upload, plan: UploadPlan) -> CheckpointFigures:
        """Returns what a checkpoint took, now that all its files are safe."""
        record = self.journal.statistics.find(instruction.checkpoint.checkpoint_id)
        triggered_ms = None if record is None else record.triggered_ms
        return figures_of(
            self._job.tasks, instruction.checkpoint, plan, triggered_ms, self._clock.wall_ms()
        )

    def steer(  # noqa: PLR0912 - one case for each instruction
        self, instruction: instructions.Steering
    ) -> None:
        """Does what is not about storage."""
        match instruction:
            case instructions.ScheduleTick(at_ms):
                self._tick_ms = at_ms
            case instructions.RequestSnapshot():
                self._request_snapshot(instruction)
            case instructions.NotifyCompleted(checkpoint):
                self._unpin(checkpoint.checkpoint_id)
            case instructions.NotifyAborted(checkpoint_id):
                with self._lock:
                    self._wanted_ids.pop(checkpoint_id, None)
                    if not self._wanted_ids:
                        self._wanted = None
                self._unpin(checkpoint_id)
            case instructions.CompleteRequest():
                self._answer(instruction)
            case instructions.DeclineTrigger() | instructions.IgnoreAnswer():
                pass  # For the history, which has noted it.
            case instructions.Recover(start):
                with self._lock:
                    recovery, self._recovery = self._recovery, None
                if recovery is not None and not recovery.done():
                    recovery.set_result(start)
            case instructions.FailJob(message, is_lasting):
                self._fail_job(message, is_lasting=is_lasting)
            case instructions.StepDown(message):
                self.is_fenced = True
                if self._driver is None:
                    why = message.rstrip(".")
                    _log.warning("Checkpoints of job %s are left: %s.", self._job_id, why)
                self._fail_job(message)
                self._end()
            case instructions.FinishJob(savepoint):
                with self._lock:
                    self.has_stopped = True
                    for waiting in (self._stopped, self._recovery):
                        if waiting is not None and not waiting.done():
                            waiting.set_result(savepoint)
            case instructions.Close():
                self._files.orphans.finish(self._coordinator.last_id, self._needed_files())
                self._end()
            case _:
                assert_never(instruction)

    def _request_snapshot(self, instruction: instructions.RequestSnapshot) -> None:
        with self._lock:
            known = self._wanted or WantedSnapshot()
            request = instruction.request
            self._wanted_ids[instruction.checkpoint_id] = request.stop
            self._wanted = WantedSnapshot(known.stop or request.stop, known.drain or request.drain)
        if self._driver is not None:
            self._driver.wake()

    def _unpin(self, checkpoint_id: int) -> None:
        if (pinned := self._pins.pop(checkpoint_id, None)) is not None:
            self._job.unpin(pinned)

    def _fail_job(self, message: str, *, is_lasting: bool = False) -> None:
        if self._driver is not None:
            self._driver.fail(message, is_lasting=is_lasting)
        with self._lock:
            if not self._stopped.done():
                self._stopped.set_exception(CheckpointError(message))

    def _answer(self, instruction: instructions.CompleteRequest) -> None:
        with self._lock:
            result = self._requests.pop(instruction.request_id, None)
        if result is None:
            return
        if instruction.checkpoint is not None:
            result.set_result(instruction.checkpoint)
        else:
            result.set_exception(CheckpointError(str(instruction.failure)))
