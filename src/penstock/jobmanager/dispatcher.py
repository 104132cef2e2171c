"""Runs jobs, each in a driver process of its own: the dispatcher of a job manager.

    <directory>/lock                one job manager at a time
               /jobs/<job id>/      a job, see `job_directory`
               /jobs/.new-<job id>/ a submission under way; removed at the next start

One thread looks at every job that has not ended, five times a second. Jobs and the job manager need
each other only through files: a driver whose job manager is killed goes on, and the next job
manager on the directory finds it there.

Among others (`high availability`) a dispatcher leads or stands by. `lead` hands it the jobs of the
cluster; `stand_by` makes it kill its drivers and refuse everything else.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.configuration import Configuration
from penstock.files.private import make_private
from penstock.jobmanager import job_intake
from penstock.jobmanager.dispatching import Dispatcher, Leadership, NotLeaderError, UnknownJobError
from penstock.jobmanager.job_directory import JobDirectory, checked_id, file_tail, read_output
from penstock.jobmanager.job_records import CommandKind, RefusedError, attempt_epoch
from penstock.jobmanager.supervised_job import SupervisedJob

if TYPE_CHECKING:
    from penstock.core.job import JobStatus
    from penstock.core.times import Clock
    from penstock.jobmanager.job_records import (
        Command,
        JobRecord,
        Operation,
        OutputPiece,
        Submission,
    )
    from penstock.jobmanager.processes import Launcher

_EVENTS_S: Final = 0.3
_log = logging.getLogger("penstock.jobmanager")


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """What a dispatcher depends on."""

    directory: Path  # The job manager's own.
    # Of the job manager; its `-D` settings are defaults of the jobs'.
    configuration: Configuration = field(default_factory=Configuration)
    max_ended: int = 100  # How many ended jobs are remembered.
    log: Path | None = None  # The job manager's log, or None.
    look_ms: int = 200  # Time from one look at every job to the next.


class SharedJobs(Protocol):
    """Jobs of a cluster of job managers, as its leader keeps them for a successor."""

    def add(self, record: JobRecord, submission: Submission, package: bytes) -> None:
        """Keeps a job that was submitted; nothing of it has run yet."""

    def request_cancel(self, job_id: str, now_ms: int) -> None:
        """Notes that a job is to end, before anything is done about it."""

    def end(self, record: JobRecord) -> None:
        """Notes that a job has ended for good."""

    def confirmed(self, own: Leadership) -> Leadership:
        """Returns who leads at this moment, given what this dispatcher was told last."""


class JobDispatcher(Dispatcher):
    """The `Dispatcher` of a job manager.

    Args:
        settings: Directory and limits.
        launcher: Starts driver processes.
        clock: Says when.
        new_id: Returns 32 hex digits that are never used again.
        random: Gives numbers from 0 to 1, for delays.
        shared: Where jobs are kept for other job managers; None without any.

    Attributes:
        url: Where this job manager's REST interface is, once it is known.
    """

    def __init__(  # noqa: PLR0913 - clock, ids and chance are arguments
        self,
        settings: DispatcherSettings,
        launcher: Launcher,
        clock: Clock,
        *,
        new_id: Callable[[], str],
        random: Callable[[], float],
        shared: SharedJobs | None = None,
    ) -> None:
        super().__init__(settings.configuration.to_dict(), new_id)
        self._settings = settings
        self._launcher = launcher
        self._clock = clock
        self._random = random
        self._shared = shared
        self.url: str | None = None
        self._lock = threading.RLock()
        self._jobs: dict[str, SupervisedJob] = {}
        self._troubles: dict[str, str] = {}
        """What keeps jobs from being looked after, by job id."""
        self._leadership = Leadership(False, 0, None)
        self._root = settings.directory / "jobs"
        make_private(self._root)
        self._clean_ups = _CleanUps(launcher, self._lock)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-dispatcher", daemon=True)
        job_intake.remove_drafts(self._root)
        for record in job_intake.recorded_jobs(self._root):
            if record.status.is_globally_terminal_state():
                self._jobs[record.job_id] = self._supervised(record)

    # -- leadership -----------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def lead(self, epoch: int = 0, jobs: Iterable[JobRecord] | None = None) -> None:
        """Takes over the jobs that have not ended.

        Args:
            epoch: Leader epoch; 0 for a job manager that is alone.
            jobs: Those of the cluster, their submissions being in their directories already; None
                for those of the directory.
        """
        with self._lock:
            self._leadership = Leadership(True, epoch, self.url)
            found = job_intake.recorded_jobs(self._root) if jobs is None else jobs
            for record in found:
                if record.job_id in self._jobs:
                    continue
                job = self._supervised(record)
                job.recover()
                if epoch:
                    # It writes in an older epoch, and could do nothing of use.
                    job.kill()
                self._jobs[record.job_id] = job
                _log.info("Job %s (%s) is taken over.", record.job_id, record.name)
            for job in self._jobs.values():
                if job.record.leftover:
                    self._clean_ups.begin(job)

    def stand_by(self) -> None:
        """Ends the leadership: kills drivers and refuses requests."""
        with self._lock:
            self._leadership = Leadership(False, self._leadership.epoch, None)
            for job_id, job in list(self._jobs.items()):
                # One that a later leader has taken over is SUSPENDED, and may come back to us.
                if not job.status.is_globally_terminal_state():
                    job.kill()
                    del self._jobs[job_id]

    def leadership(self) -> Leadership:
        own = self._leadership
        return own if self._shared is None else self._shared.confirmed(own)

    def close(self) -> list[tuple[str, int]]:
        """Stops looking after jobs; those that run go on.

        Returns:
            Job id and process number of those that go on.
        """
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self.end_disposals()
        self._clean_ups.close()
        with self._lock:
            living = [(job.job_id, job.process) for job in self._jobs.values()]
        return [(job_id, process.pid) for job_id, process in living if process is not None]

    # -- jobs -----------------------------------------------------------------------------------

    def jobs(self) -> list[JobRecord]:
        self._check_leads()
        with self._lock:
            found = [job.known() for job in self._jobs.values()]
        return sorted(found, key=lambda job: (job.submitted_ms, job.job_id), reverse=True)

    def job(self, job_id: str) -> JobRecord:
        return self._job(job_id).known()

    def document(self, job_id: str, name: str) -> bytes | None:
        return self._job(job_id).directory.document(name)

    def submit(self, submission: Submission, package: bytes) -> str:
        self._check_leads()
        job_id = checked_id(self._new_id(), "job id")
        submission = job_intake.completed(submission, package, self._settings.configuration)
        record = job_intake.first_record(submission, job_id, self._clock.wall_ms())
        if self._shared is not None:
            self._shared.add(record, submission, package)
        job_intake.store(self._root, record, submission, package)
        with self._lock:
            # It is kept: should the leadership have ended meanwhile, the next leader runs it.
            if self.leadership().is_leader:
                self._jobs.setdefault(job_id, self._supervised(record))
        _log.info("Job %s (%s) was submitted.", job_id, record.name)
        return job_id

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        trigger_id = self._trigger_id(trigger_id)
        job = self._job(job_id)
        if command.kind is CommandKind.CANCEL and self._shared is not None and not job.has_ended:
            self._shared.request_cancel(job_id, self._clock.wall_ms())
        try:
            with self._lock:
                job.trigger(command, trigger_id)
        except OSError as error:
            raise RefusedError(
                f"the {command.kind.value} cannot be noted in {job.directory.path}: "
                f"{error.strerror}."
            ) from None
        return trigger_id

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        return self._job(job_id).operation(checked_id(trigger_id, "trigger id"))

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        if job_id is not None:
            return self._job(job_id).directory.log_tail(max_bytes)
        log = self._settings.log
        return b"" if log is None else file_tail(log, max_bytes)

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        job = self._job(job_id)
        # Asked first: what is printed before the end is whole then.
        is_complete = job.has_ended
        return read_output(job.directory.output, cursor, max_bytes, is_complete=is_complete)

    def events(self, job_id: str) -> Iterator[str]:
        job = self._job(job_id)
        # Now, so that no change after this call is missed.
        return self._changes(job, job.directory.document_versions(), job.status)

    def _changes(
        self, job: SupervisedJob, seen: dict[str, int], status: JobStatus
    ) -> Iterator[str]:
        is_last = False
        while not is_last:
            # Asked first: what is written before the end is told before it.
            is_last = job.has_ended or not self._is_known(job) or self._is_closed.wait(_EVENTS_S)
            versions = job.directory.document_versions()
            changed = [name for name, number in versions.items() if seen.get(name) != number]
            if status is not job.status and "job" not in changed:
                changed.append("job")
            seen, status = versions, job.status
            yield from sorted(changed)

    def _job(self, job_id: str) -> SupervisedJob:
        self._check_leads()
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJobError(f"Job {job_id!s:.80} was not found.")
        return job

    def _is_known(self, job: SupervisedJob) -> bool:
        with self._lock:
            return self._jobs.get(job.job_id) is job

    def is_running(self, job_id: str) -> bool:
        with self._lock:
            job = self._jobs.get(job_id)
        return job is not None and not job.has_ended

    def _supervised(self, record: JobRecord) -> SupervisedJob:
        return SupervisedJob(
            JobDirectory(self._root / record.job_id),
            record,
            launcher=self._launcher,
            clock=self._clock,
            attempt_epoch=lambda attempt: attempt_epoch(self._leadership.epoch, attempt),
            configuration=self._settings.configuration,
        )

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed.wait(self._settings.look_ms / 1000):
            with self._lock:
                jobs = list(self._jobs.values()) if self.leadership().is_leader else []
            for job in jobs:
                if not self._is_closed.is_set() and not job.is_settled:
                    self._look(job)

    def _look(self, job: SupervisedJob) -> None:
        try:
            with self._lock:
                if not self._is_known(job):
                    return
                has_ended = job.look(self._random())
            if has_ended:
                if job.status.is_globally_terminal_state():
                    self._clean_ups.begin(job, lambda: self._note_end(job))
                self._forget_surplus()
            self._troubles.pop(job.job_id, None)
        except Exception as error:
            # One job must not keep the others from being looked after; it is tried again, and
            # said once: a full disk lasts for many looks.
            if self._troubles.get(job.job_id) != str(error):
                self._troubles[job.job_id] = str(error)
                _log.exception("Job %s cannot be looked after.", job.job_id)

    def _note_end(self, job: SupervisedJob) -> None:
        """Notes that a job has ended, unless that is for another job manager to decide by now."""
        if self._shared is None:
            return
        try:
            self._shared.end(job.record)
        except NotLeaderError as error:
            _log.warning("The end of job %s is not recorded: %s", job.job_id, error)

    def _forget_surplus(self) -> None:
        """Removes the oldest ended jobs beyond the limit, and their directories."""
        with self._lock:
            ended = [
                job for job in self._jobs.values() if job.has_ended and not job.record.leftover
            ]
            ended.sort(key=lambda job: (job.record.ended_ms or 0, job.job_id))
            for job in ended[: max(len(ended) - self._settings.max_ended, 0)]:
                with contextlib.suppress(OSError):
                    shutil.rmtree(job.directory.path)
                del self._jobs[job.job_id]
                self._troubles.pop(job.job_id, None)


class _CleanUps:
    """Removes what dead processes left of ended jobs: one job at a time, in the background.

    The job's record says what is to be removed, and the next job manager goes on with it.

    Args:
        launcher: Does one.
        lock: Guards the jobs.
    """

    def __init__(self, launcher: Launcher, lock: threading.RLock) -> None:
        self._launcher = launcher
        self._lock = lock
        self._worker = ThreadPoolExecutor(1, "penstock-clean-up")

    def begin(self, job: SupervisedJob, done: Callable[[], None] = lambda: None) -> None:
        """Cleans up after a job, if there is something to remove, and says when that is over."""
        if job.record.leftover:
            self._worker.submit(self._run, job, done)
        else:
            done()

    def close(self) -> None:
        """Waits for none: the next job manager goes on."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _run(self, job: SupervisedJob, done: Callable[[], None]) -> None:
        try:
            with self._lock:
                epoch = job.clean_up_begins()
            self._launcher.clean_up(job.directory, job.status, epoch)
            with self._lock:
                job.clean_up_ends()
        except Exception as error:
            _log.warning(
                "Something of job %s is left, and the next job manager tries again: %s",
                job.job_id,
                error,
            )
        done()
