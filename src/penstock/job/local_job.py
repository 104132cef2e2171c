"""One job in this process: attempts on an engine, with checkpoints and restarts between them.

1. The engine is started; a snapshot to start from is read, checked and fetched.
2. An attempt runs epochs until the input ends, the job is stopped, or something fails.
3. After a failure the restart strategy decides; the next attempt starts from the latest completed
   checkpoint, with what sinks prepared since then taken back.
4. At the end, output that waits for a checkpoint is committed with a last one.

A cancellation interrupts the running epoch. Other code of the user's runs in the job's thread, or
is waited for there (committers, `discover` of a source), and may not return either: the job then
ends without that thread, which finds nothing left to do if it ever comes back.
"""

from __future__ import annotations

import functools
import logging
import random  # noqa: TID251 - the composition root is where chance comes from
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.checkpoint.coordination.checkpoints import (
    SavepointFormat,
    SnapshotKind,
    TriggerRequest,
)
from penstock.checkpoint.errors import LASTING_DAMAGE
from penstock.checkpoint.pointer import is_superseded
from penstock.checkpoint.start_point import JobEndedError
from penstock.core.errors import JobExecutionError, is_lasting
from penstock.core.job import JobExecutionResult, JobID, JobStatus
from penstock.files.errors import FilesError
from penstock.job.engine import engine_facts, open_engine
from penstock.job.listeners import JobListeners
from penstock.job.record import FailuresInARow, Job, storage_facts
from penstock.job.rescaling import RescaledError, Rescaling
from penstock.job.resources import JobResources
from penstock.jobmanager.restart_strategies import GiveUp
from penstock.runtime.overdue import EpochWatch, OverdueEpoch

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint
    from penstock.checkpoint.service import CheckpointService
    from penstock.checkpoint.statistics import CheckpointRecord
    from penstock.graph.job_graph import JobGraph
    from penstock.graph.nodes import StreamGraph
    from penstock.job.settings import JobSettings
    from penstock.runtime.driver import JobDriver
    from penstock.runtime.job_state import EpochSummary, JobState, SourceProgress

    Listener = Callable[[EpochSummary], None]

Result = TypeVar("Result")
_LASTING: Final = "every further attempt would meet the same error. It is shown where the job ends."
_log = logging.getLogger("penstock.job")
_POLL_S: Final = 0.02
_PATIENCE_S: Final = 1.2
"""After that a cancelled job ends without its thread; interrupted epochs have ended by then."""


class _LeftBehind(Exception):
    """The job has ended meanwhile, so this thread must not change it."""


class LocalJob(Job):
    """A running job, as its program steers it."""

    def __init__(
        self,
        program: StreamGraph,
        graph: JobGraph,
        settings: JobSettings,
        job_id: str,
        listener: Listener | None = None,
    ) -> None:
        super().__init__(graph, settings, job_id)
        self._rescaling = Rescaling(program, graph, settings.reactive)
        self.listeners = JobListeners.of(listener, self)
        self._driver: JobDriver | None = None
        self._service: CheckpointService | None = None
        self._is_running = threading.Event()
        self._cancelled = threading.Event()
        self._started_ms = self._clock.monotonic_ms()
        name = f"penstock-{job_id[:8]}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._resources: JobResources | None = None
        self._closing = threading.Lock()
        self._is_closing = threading.Event()

    # -- steering, from any thread --------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Ends the job, and the running epoch with it, whatever its functions do."""
        is_first = not self._cancelled.is_set()
        self._cancelled.set()
        if not self.status.is_terminal_state():
            self.status = JobStatus.CANCELLING
        if self._driver is not None:
            self._driver.cancel()
        if is_first:
            threading.Thread(target=self._leave, name="penstock-cancel", daemon=True).start()

    def _leave(self) -> None:
        """Ends a cancelled job whose thread does not end it."""
        while self._resources is None:
            # Spark starts, which is a matter of seconds.
            if self._is_closing.wait(_PATIENCE_S):
                return
        if self._is_closing.wait(_PATIENCE_S) or not self._may_close():
            return
        frame = sys._current_frames().get(self._thread.ident or 0)
        _log.warning(
            "Job %s is cancelled, and its thread does not return. It is left behind:\n%s",
            self.job_id,
            "" if frame is None else "".join(traceback.format_stack(frame)),
        )
        self._resources.end_commits()
        self._resources.close(JobStatus.CANCELED)
        self._ended(JobStatus.CANCELED)
        self._resources.end_commits(self._thread)

    def suspend(self) -> bool:
        """Stops here and leaves everything to the next process: nothing is deleted or committed.

        Returns:
            False if the job is ending already; then it ends as ever.
        """
        if not self._may_close():
            return False
        self._cancelled.set()
        if self._driver is not None:
            self._driver.cancel()
        if self._resources is not None:
            self._resources.end_commits()
        self._thread.join(_PATIENCE_S)
        return True

    def _may_close(self) -> bool:
        """Whether the caller is the first to end the job; only the first one may."""
        with self._closing:
            is_first = not self._is_closing.is_set()
            self._is_closing.set()
            return is_first

    def wait(self) -> JobExecutionResult:
        """Waits for the end; Ctrl-C cancels the job."""
        try:
            return self.result.result()
        except KeyboardInterrupt:
            self.cancel()
            futures.wait([self.result], timeout=30)
            raise

    def trigger_savepoint(
        self, directory: str | None = None, *, native: bool = False
    ) -> Future[str]:
        """Takes a savepoint while the job goes on."""
        return self._savepoint(directory, native=native)

    def stop_with_savepoint(
        self, *, drain: bool, directory: str | None = None, native: bool = False
    ) -> Future[str]:
        """Takes a savepoint and ends the job."""
        return self._savepoint(directory, native=native, stop=True, drain=drain)

    def _savepoint(
        self, directory: str | None, *, native: bool, stop: bool = False, drain: bool = False
    ) -> Future[str]:
        if directory is None and self.settings.checkpoints.savepoint_directory is None:
            raise JobExecutionError(
                "a savepoint needs a directory: pass one, or set "
                "execution.checkpointing.savepoint-dir."
            )
        form = SavepointFormat.NATIVE if native else SavepointFormat.CANONICAL
        request = TriggerRequest(
            kind=SnapshotKind.SAVEPOINT, target=directory, format=form, stop=stop, drain=drain
        )
        return converted(self._checkpoints().request(request), lambda made: made.location)

    def trigger_checkpoint(self, *, full: bool = False) -> Future[int]:
        """Takes a checkpoint now; the result is its number."""
        done = self._checkpoints().request(TriggerRequest(full=full))
        return converted(done, lambda made: made.checkpoint_id)

    def rescale(self, wanted: int | Mapping[str, int]) -> Future[int]:
        """Goes on with other parallelisms, from a checkpoint that is taken now.

        Args:
            wanted: For all operators that follow the job's parallelism; or by vertex id.

        Returns:
            A future of the number of that checkpoint; it comes when the job runs again.

        Raises:
            JobExecutionError: The job cannot be rescaled, or is being rescaled.
            ProgramError: Operators cannot have that parallelism.
        """
        self._checkpoints()
        resources = self._resources
        assert resources is not None
        stop = "stop it with a savepoint, and run it again with -p and -s."
        if not self.settings.checkpoints.is_enabled:
            raise JobExecutionError(
                "a job is rescaled from a checkpoint, and this one takes none: set "
                f"execution.checkpointing.interval. Or {stop}"
            )
        if resources.engine.feeds:
            raise JobExecutionError(
                f"a job that reads Spark DataFrames cannot be rescaled while it runs: {stop}"
            )
        return self._rescaling.begin(wanted, resources, self._leave_attempt)

    def _leave_attempt(self) -> None:
        if self._driver is not None:
            self._driver.leave()

    @property
    def is_fenced(self) -> bool:
        """Whether a later attempt of the job, on another process, has taken over."""
        return self._service is not None and self._service.is_fenced

    def checkpoints(self) -> list[CheckpointRecord]:
        """Returns the checkpoints and savepoints of the job, newest first."""
        return [] if self.statistics is None else self.statistics.history()

    def _checkpoints(self) -> CheckpointService:
        self._is_running.wait()
        if self._service is None or self.result.done():
            raise JobExecutionError(
                f"job {self.job_id} is {self.status.name}; it takes no snapshot."
            )
        return self._service

    # -- the job's thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            status = self._run_job()
        except _LeftBehind:
            return
        except BaseException as error:
            self.failed(error)
            self.status = JobStatus.FAILED
            self._rescaling.status_is(self.status)
            self._is_running.set()
            self.result.set_exception(error)
            return
        self._ended(status)

    def _ended(self, status: JobStatus) -> None:
        self.status = status
        late = self.summed_up()
        self._rescaling.status_is(status)
        self._is_running.set()
        if status is JobStatus.CANCELED:
            self.result.set_exception(JobExecutionError(f"job {self.job_id} was cancelled."))
            return
        runtime_ms = self._clock.monotonic_ms() - self._started_ms
        self.result.set_result(
            JobExecutionResult(JobID(self.job_id), runtime_ms, late_records=late)
        )

    def _run_job(self) -> JobStatus:
        settings = self.settings
        status = JobStatus.FAILED
        engine = open_engine(self.graph, settings)
        self.engine_facts = engine_facts(settings.master, engine.spark)
        self.find_executors = engine.executors
        resources = JobResources(engine, settings, self.job_id, self._clock)
        self.storage_facts = functools.partial(storage_facts, resources.checkpoint_files)
        self._resources = resources
        try:
            if self._cancelled.is_set():
                return (status := JobStatus.CANCELED)
            resources.service.journal.listener = self.listeners.checkpoint_ended
            state = resources.start(self.graph, self._rescaling.restored)
            self.graph = self._rescaling.graph
            self._service = resources.service
            self.statistics = resources.service.journal.statistics
            return (status := self._run_attempts(resources, state))
        except JobEndedError as ended:
            if ended.status is JobStatus.FAILED:
                raise
            return (status := ended.status)
        except Exception:
            if self._cancelled.is_set():
                return (status := JobStatus.CANCELED)
            raise
        finally:
            if not self._may_close():
                raise _LeftBehind
            resources.close(status)

    def _run_attempts(self, resources: JobResources, initial: JobState | None) -> JobStatus:
        state, attempt, rescales = initial, 0, 0
        latest: CompletedCheckpoint | None = None
        failures = FailuresInARow()
        while True:
            try:
                if latest is not None:
                    # Storage that does not answer now is a failure as others are.
                    if (graph := self._rescaling.take()) is not None:
                        resources.reshape(graph)
                        self.graph = graph
                    state = resources.restored(latest)
                self.attempt_started(attempt - rescales)
                return self._run_attempt(
                    resources, resources.driver(attempt, state, self._epoch_done)
                )
            except Exception as error:
                if self._cancelled.is_set():
                    return JobStatus.CANCELED
                resources.service.is_fenced |= is_superseded(
                    resources.checkpoint_files.confirm_lead
                )
                if resources.service.is_fenced or isinstance(error, LASTING_DAMAGE):
                    raise
                delay_ms = 0
                if isinstance(error, RescaledError):
                    rescales += 1
                    _log.info("Job %s is rescaled.", self.job_id)
                else:
                    delay_ms = self._pause_after(error, failures)
                self.status = JobStatus.RESTARTING
                resources.failed(error)
                latest = resources.service.recover(str(error))
                if resources.service.has_stopped:
                    return JobStatus.FINISHED
                if not isinstance(error, RescaledError):
                    self.failed(error, None if latest is None else latest.checkpoint_id)
                # What the latest checkpoint contains is not ours to take back.
                start = latest.epoch if latest is not None else (initial.epoch if initial else 0)
                if resources.sinks.abort_after(start):
                    resources.job.begin_line()
                if self._cancelled.wait(delay_ms / 1000):
                    return JobStatus.CANCELED
                state = initial
                attempt += 1

    def _pause_after(self, error: Exception, failures: FailuresInARow) -> int:
        """Returns after how many milliseconds the job restarts; raises the error if it does not."""
        decision = self.settings.restart_strategy.failed(
            self._clock.monotonic_ms(), random.random()
        )
        if isinstance(decision, GiveUp):
            _log.info("Job %s gives up: %s", self.job_id, decision.reason)
            raise error
        if is_lasting(error):
            _log.warning("Job %s is not restarted: %s", self.job_id, _LASTING)
            raise error
        for line in failures.lines(error, decision.delay_ms):
            _log.warning("Job %s %s", self.job_id, line)
        return decision.delay_ms

    def _run_attempt(self, resources: JobResources, driver: JobDriver) -> JobStatus:
        self._driver = driver
        if self._cancelled.is_set():
            return JobStatus.CANCELED
        for uid, feed in resources.engine.feeds.items():
            feed.start(functools.partial(self._progress, uid), self._cancelled)
        resources.service.attempt_started(driver)
        self.status = JobStatus.RUNNING
        self._is_running.set()
        self._rescaling.status_is(JobStatus.RUNNING)
        self.listeners.attempt_started()
        with EpochWatch(driver, self._show_overdue):
            driver.run()
        if driver.is_cancelled:
            return JobStatus.CANCELED
        if driver.has_left:
            raise RescaledError("the job is rescaled")
        if driver.has_stopped:
            resources.service.wait_stopped(driver.attend)
        elif self.settings.checkpoints.takes_last:
            take_last_checkpoint(resources.service, driver)
            if driver.is_cancelled:
                return JobStatus.CANCELED
        resources.sinks.commit(driver.state.epoch, final=True)
        return JobStatus.FINISHED

    def _show_overdue(self, epoch: OverdueEpoch | None) -> None:
        self.overdue = epoch

    def _progress(self, uid: str) -> SourceProgress:
        assert self._driver is not None
        return self._driver.state.sources[uid]

    def _epoch_done(self, summary: EpochSummary) -> None:
        self.epoch_done(summary)
        if self._resources is not None:
            slots = self._resources.engine.slots
            self._rescaling.follow_executors(slots, self._clock.monotonic_ms(), self.rescale)
        if self._service is not None and self._driver is not None:
            self._service.epoch_ended(
                backlog=summary.backlog, some_tasks_ended=bool(self._driver.state.ended)
            )
        self.listeners(summary)


def take_last_checkpoint(service: CheckpointService, driver: JobDriver) -> None:
    """Takes a last checkpoint of a job whose input has ended, and commits its output.

    One that fails is followed by another, until too many have failed in a row.
    """
    result: Future[CompletedCheckpoint] | None = None
    while not driver.is_over():
        request = service.wanted()
        if request is not None:
            service.offer(driver, stopped=request.stop)
            if request.stop:
                service.wait_stopped(driver.attend)
                return
        if result is None:
            result = service.request(TriggerRequest())
        try:
            result.result(_POLL_S)
        except TimeoutError:
            service.sinks.watch()
            driver.attend()
        except FilesError:
            result = None
            service.pause()
        else:
            return


def converted(
    done: Future[CompletedCheckpoint], convert: Callable[[CompletedCheckpoint], Result]
) -> Future[Result]:
    """Returns a future of what another one gives, converted; or of its error."""
    result: Future[Result] = Future()

    def finished(done: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is None:
            result.set_result(convert(done.result()))
        else:
            result.set_exception(error)

    done.add_done_callback(finished)
    return result
