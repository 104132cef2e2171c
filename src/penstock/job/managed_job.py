"""The job of a driver process, as its job manager steers it: through files in the job's directory.

The program's `execute()` becomes the job: under the id that the manager gave, in the leader epoch
of this attempt, from the latest checkpoint of the attempts before. One thread looks for commands
ten times a second, obeys each once, and writes what came of it; it writes the documents that REST
shows. It also looks whether this attempt still is the one that counts, and ends the process at once
when it is not.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import JobExecutionError, PenstockError, ProgramError
from penstock.core.job import JobStatus
from penstock.job.attempt_directories import remove_earlier_attempts
from penstock.job.documents.writer import JobViews
from penstock.job.record import failure_of, task_counts
from penstock.job.settings import make_absolute
from penstock.job.start import start_job
from penstock.jobmanager.high_availability.coordination import shared_checkpoints, watch_leadership
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    OperationStatus,
    ProcessRecord,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.core.times import Clock
    from penstock.graph.nodes import StreamGraph
    from penstock.job.local_job import Listener, LocalJob
    from penstock.jobmanager.job_directory import JobDirectory

OVERRULED: Final = 75
"""Exit status of a process whose attempt does not count any more."""

_LOOK_S: Final = 0.1
_LOOKS_PER_REFRESH: Final = 3
_NOT_YET: Final = (JobStatus.INITIALIZING, JobStatus.CREATED)
_log = logging.getLogger("penstock.job")


class ManagedJob:
    """The one job of this process.

    Args:
        directory: The job's directory.
        process: This attempt.
        checkpoints: Directory of checkpoints for a program that names none.
        clock: Says when.
        leave: Ends the process at once; `os._exit`.
    """

    def __init__(
        self,
        directory: JobDirectory,
        process: ProcessRecord,
        checkpoints: str,
        clock: Clock,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._directory = directory
        self._process = process
        self._checkpoints = checkpoints
        self._clock = clock
        self._leave = leave
        self._wall_ahead_ms = clock.wall_ms() - clock.monotonic_ms()
        self._lock = threading.Lock()
        self._job: LocalJob | None = None
        self._views: JobViews | None = None
        self._status: JobRecord | None = None
        self._obeyed: set[str] = set()
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="penstock-commands", daemon=True)

    def start(self) -> None:
        """Begins to listen to the job manager, also before the program has a job."""
        self._watcher.start()

    # -- called by the program's thread ---------------------------------------------------------

    def launch(
        self, graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
    ) -> LocalJob:
        """Starts what the program executes.

        Raises:
            ProgramError: It executes a second job.
        """
        with self._lock:
            if self._job is not None:
                raise ProgramError(
                    f"the program executes a second job, '{graph.job_name}', after "
                    f"'{self._job.graph.job_name}'. A job manager runs one job for each "
                    "submission: submit the second one as a program of its own, or run this "
                    "program with `penstock run -t local`."
                )
            if not any(map(configuration.contains_key, CHECKPOINT_PLACES)):
                # Among several job managers, where the next one finds them.
                place = shared_checkpoints(configuration) or self._checkpoints
                configuration.put(CHECKPOINT_PLACES[0], place, Rank.FILE, "job manager")
            make_absolute(configuration)
            self._directory.settings.write(configuration.to_dict())
            job = start_job(
                graph,
                configuration,
                listener,
                job_id=self._directory.job_id,
                leader_epoch=self._process.leader_epoch,
                before_start=self._take_up,
            )
            epoch = self._process.leader_epoch
            watch_leadership(configuration, epoch, lambda: self._leave(OVERRULED))
            self._views = JobViews(
                job,
                configuration,
                self._directory.write_document,
                self._directory.remove_document,
                self._clock,
                self._directory.document,
            )
            self._job = job
            return job

    def _take_up(self, job: LocalJob) -> None:
        """Goes on with what processes before this one have left."""
        remove_earlier_attempts(Path(job.settings.state.directory).parent, job.job_id)
        job.restarts_before = self._process.restarts
        strategy = job.settings.restart_strategy
        strategy.memory = self._process.failures.moved(-self._wall_ahead_ms)
        if self._process.previous_death is not None:
            job.failed(JobExecutionError(self._process.previous_death))

    def finish(self, failure: BaseException | None) -> JobRecord:
        """Waits for the end of the job, and says how it ended.

        Args:
            failure: What the program raised, if it did.
        """
        job = self._job
        if job is None:
            return self._program_ended(failure)
        if failure is not None and not job.result.done():
            _log.error("The program failed, and its job goes on: %s", failure)
        error = job.result.exception()
        status = JobStatus.SUSPENDED if job.is_fenced else job.status
        if status in (JobStatus.FINISHED, JobStatus.CANCELED):
            error = None
        if status is JobStatus.FINISHED and failure is not None:
            # The job has done its work and the program has not; `penstock run` must show that.
            trace = failure.__traceback__
            job.failed(failure)
            # Its line of the program belongs into every account of it.
            error = failure.with_traceback(trace)
        self._is_over.set()
        self._watcher.join()
        return self._end(status, error)

    def _program_ended(self, failure: BaseException | None) -> JobRecord:
        self._is_over.set()
        self._watcher.join()
        if failure is None:
            failure = ProgramError(
                "the program ended without a call of execute(), so there is no job. Call "
                "env.execute() at its end."
            )
        return self._end(JobStatus.FAILED, failure)

    def _end(self, status: JobStatus, error: BaseException | None) -> JobRecord:
        now_ms = self._clock.wall_ms()
        shown = None if error is None else failure_of(error, now_ms, 0)
        return JobRecord(
            job_id=self._directory.job_id,
            attempt=self._process.attempt,
            status=status,
            ended_ms=now_ms,
            error=None if shown is None else shown.text,
            error_type=None if shown is None else shown.name,
        )

    # -- the watcher's thread -------------------------------------------------------------------

    def _watch(self) -> None:
        looks = 0
        while not self._is_over.wait(_LOOK_S):
            try:
                self._look(refreshes=looks % _LOOKS_PER_REFRESH == 0)
            except Exception:
                # A full disk, for example: the job goes on, and what is to be written comes later.
                _log.warning("The job's directory could not be read or written.", exc_info=True)
            looks += 1
        self._last_look()

    def _look(self, *, refreshes: bool) -> None:
        self._check_counts()
        known = self._directory.command_ids()
        # The job manager forgets old commands, and so do we.
        self._obeyed.intersection_update(known)
        for trigger_id in known:
            if trigger_id not in self._obeyed:
                self._consider(trigger_id)
        if refreshes:
            self._refresh()

    def _last_look(self) -> None:
        """What was not obeyed before the end is answered; documents show the end."""
        try:
            self._check_counts()
            for trigger_id in self._directory.command_ids():
                if (
                    trigger_id not in self._obeyed
                    and self._directory.result(trigger_id).read() is None
                ):
                    self._answer_failed(trigger_id, "the job has ended.")
            self._refresh()
        except Exception:
            _log.warning("The job's directory could not be written.", exc_info=True)

    def _check_counts(self) -> None:
        """Ends the process when a later attempt of the job was started."""
        counts = self._directory.process.read()
        if counts is None or counts.attempt != self._process.attempt:
            _log.error("A later attempt of the job was started: this process ends.")
            self._leave(OVERRULED)

    def _consider(self, trigger_id: str) -> None:
        """Obeys a command, unless it is too early for it."""
        job = self._job
        command = self._directory.command(trigger_id).read()
        if command is None or self._directory.result(trigger_id).read() is not None:
            self._obeyed.add(trigger_id)
            return
        if command.kind is CommandKind.CANCEL:
            self._obeyed.add(trigger_id)
            self._cancel(trigger_id)
        elif command.attempt != self._process.attempt:
            self._obeyed.add(trigger_id)
            self._answer_failed(trigger_id, "the job was restarted meanwhile. Ask again.")
        elif job is not None and job.status not in _NOT_YET:
            self._obeyed.add(trigger_id)
            try:
                self._obey(job, trigger_id, command)
            except PenstockError as error:
                self._answer_failed(trigger_id, str(error))

    def _cancel(self, trigger_id: str) -> None:
        self._answer(Operation(trigger_id, OperationStatus.COMPLETED))
        with self._lock:
            if self._job is not None:
                self._job.cancel()
                return
            # Nothing has begun yet, and nothing of the program is asked.
            self._directory.end.write(self._end(JobStatus.CANCELED, None))
            self._leave(0)

    def _obey(self, job: LocalJob, trigger_id: str, command: Command) -> None:
        def answer(done: Future[Any]) -> None:
            error = done.exception()
            if error is not None:
                self._answer_failed(trigger_id, str(error))
                return
            completed = Operation(
                trigger_id, OperationStatus.COMPLETED, **result_of(command, done.result())
            )
            self._answer(completed)
            if command.cancel_job:
                job.cancel()

        begin(job, command).add_done_callback(answer)

    def _answer_failed(self, trigger_id: str, error: str) -> None:
        self._answer(Operation(trigger_id, OperationStatus.FAILED, error=error))

    def _answer(self, done: Operation) -> None:
        self._directory.result(done.trigger_id).write(done)

    def _refresh(self) -> None:
        job, views = self._job, self._views
        if job is None or views is None:
            return
        views.refresh()
        facts = job.facts()
        status = msgspec.structs.replace(
            facts.record,
            attempt=self._process.attempt,
            restarts=job.restarts,
            failures=job.settings.restart_strategy.memory.moved(self._wall_ahead_ms),
            tasks=task_counts(facts),
        )
        if status != self._status:
            self._directory.status.write(status)
            self._status = status


CHECKPOINT_PLACES: Final = ("execution.checkpointing.dir", "execution.checkpointing.storage")


def begin(job: LocalJob, command: Command) -> Future[Any]:
    """Has a job take a snapshot, or go on from one with another parallelism."""
    if command.kind is CommandKind.SAVEPOINT:
        return job.trigger_savepoint(command.directory, native=command.native)
    if command.kind is CommandKind.STOP:
        return job.stop_with_savepoint(
            drain=command.drain, directory=command.directory, native=command.native
        )
    if command.kind is CommandKind.RESCALE:
        if job.settings.reactive is not None:
            raise JobExecutionError(
                "penstock.scheduler is reactive, so the job follows its executors: add or remove "
                "some, or run the job with penstock.scheduler: default."
            )
        return job.rescale(command.vertices or command.parallelism)
    return job.trigger_checkpoint(full=command.full)


def result_of(command: Command, result: Any) -> dict[str, Any]:
    """Returns what a snapshot adds to its `Operation`."""
    if command.kind in (CommandKind.CHECKPOINT, CommandKind.RESCALE):
        return {"checkpoint_id": int(result)}
    return {"location": str(result)}
