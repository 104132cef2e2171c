"""One process of an application, which runs the one job of a program: from its start to its exit.

1. With high availability, the process waits until it leads. REST and page answer meanwhile.
2. The program runs in the main thread; its `execute()` becomes the job, under an id that stays the
   same over restarts, so it continues from the latest checkpoint of the processes before.
3. The process ends with the job, and its exit code says how. With high availability the end is
   recorded first: a process that is started again ends with the same code and runs nothing.

SIGTERM suspends the job: nothing is deleted, the lease is given up, the next process continues. A
process that loses the leadership ends at once. It restarts nothing in itself but attempts of the
job; what starts processes (Kubernetes, systemd, YARN) starts it again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import sys
import threading
import traceback
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.pointer import open_records
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError, PenstockError, ProgramError
from penstock.core.job import JobStatus
from penstock.core.times import SystemClock, jittered
from penstock.files.urls import Storages
from penstock.job.attempt_directories import remove_earlier_attempts
from penstock.job.driver_process import stop_spark
from penstock.job.embedded_dispatcher import EmbeddedDispatcher, new_id
from penstock.job.managed_job import CHECKPOINT_PLACES, OVERRULED
from penstock.job.record import failure_of
from penstock.job.settings import make_absolute
from penstock.job.start import NO_JOB, run_program, set_launcher, start_job
from penstock.jobmanager.dispatching import Leadership, NotLeaderError, UnknownJobError
from penstock.jobmanager.high_availability.coordination import shared_checkpoints
from penstock.jobmanager.high_availability.job_store import StoredJob
from penstock.jobmanager.job_records import JobRecord, Submission, attempt_epoch

if TYPE_CHECKING:
    from penstock.graph.nodes import StreamGraph
    from penstock.job.local_job import Listener, LocalJob
    from penstock.job.start import ProgramRequest
    from penstock.jobmanager.high_availability.coordination import HaServices

JOB_ID: Final = "$internal.pipeline.job-id"
TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code after SIGTERM: the job is suspended."""

_CLUSTER: Final = "high-availability.cluster-id"
_RETRY_S: Final = 1.0
_log = logging.getLogger("penstock.application")


def job_id_of(configuration: Configuration, given: str | None, *, shares_cluster: bool) -> str:
    """Returns the id of an application's job; it names the job's checkpoints over restarts.

    Raises:
        ConfigurationError: It is malformed, or would be that of another application.
    """
    text = given or configuration.get_string(JOB_ID)
    if shares_cluster and not configuration.contains_key(_CLUSTER):
        raise ConfigurationError(
            f"high availability is on, and {_CLUSTER} is not set. Processes with one cluster id "
            "run one job, so set it to a name of this application, such as orders-prod."
        )
    if text:
        if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
            raise ConfigurationError(f"the job id is '{text}'; it must be 32 hex digits.")
        return text.lower()
    if shares_cluster:
        # As Flink does: whatever process runs for this cluster id finds the same checkpoints.
        return hashlib.sha256(configuration.get_string(_CLUSTER).encode()).hexdigest()[:32]
    _log.warning(
        "The job gets a new id with each start, so a restarted process begins from nothing. Give "
        "it one id (--job-id), or set up high availability, and it continues from its checkpoints."
    )
    return new_id()


def next_epoch(configuration: Configuration, job_id: str) -> int:
    """Returns an epoch above those in which earlier processes of a job wrote, without a lease.

    The process that starts last wins: it fences the others off from the checkpoints.
    """
    settings = CheckpointSettings.from_configuration(configuration)
    if settings.storage is not StorageKind.FILE_SYSTEM or not settings.directory:
        return 1
    storage = Storages(configuration.to_dict()).at(settings.directory)
    layout = layout_of(job_id, create_subdir=settings.create_subdirectory)
    found = [record.read() for record in open_records(None, storage, layout)]
    # Two at least, since a first epoch of a job fences nothing.
    return 1 + max(1, *(each.leader_epoch for each in found if each is not None), 1)


class PageServer(Protocol):
    """What serves REST and page, at a URL."""

    @property
    def url(self) -> str: ...

    def stop(self) -> None: ...


class Application:
    """One process of an application, from its start to its exit.

    Attributes:
        dispatcher: What REST and page ask.
        server: What asks it; it is here before it answers anything.

    Args:
        configuration: Of file and command line.
        request: The program.
        job_id: Of its job.
        services: High availability; None without.
    """

    def __init__(
        self,
        configuration: Configuration,
        request: ProgramRequest,
        job_id: str,
        services: HaServices | None,
    ) -> None:
        self.server: PageServer
        self._configuration = configuration
        self._request = request
        self._job_id = job_id
        self._services = services
        self._clock = SystemClock()
        self._epoch = 0
        self._granted = threading.Event()
        self._leaving = threading.Lock()
        self._is_leaving = threading.Event()
        self._job: LocalJob | None = None
        self._is_cancelled = False
        self._code: int | None = None
        now_ms = self._clock.wall_ms()
        name = request.program or request.module or ""
        self._waiting = JobRecord(
            job_id=job_id,
            name=configuration.get_string("pipeline.name") or Path(name).stem,
            submitted_ms=now_ms,
            changed_ms=now_ms,
        )
        self.dispatcher = EmbeddedDispatcher(
            configuration, self._waiting, self._leadership, self._note_cancel
        )

    def run(self, url: str) -> NoReturn:
        """Runs to the end of the job, and ends the process.

        Args:
            url: Where other processes of the application reach this one.
        """
        result = self._take_over(url) if self._services is not None else None
        if result is None:
            self._code = self._run_program()
        else:
            _log.info(
                "Job %s ended before: %s. Nothing is run. To run it again, give it another id: "
                "high-availability.cluster-id, or --job-id.",
                self._job_id,
                result.status.name,
            )
            self._code = _code_of(result.status)
        if not self._configuration.get_boolean("execution.shutdown-on-application-finish"):
            _log.info("The page of job %s stays until SIGTERM.", self._job_id)
            threading.Event().wait()
        self._leave(self._code)

    # -- leadership -----------------------------------------------------------------------------

    def _leadership(self) -> Leadership:
        if self._services is None:
            return Leadership(True, 0, self.server.url)
        found = self._services.election.leadership()
        if found.is_leader and found.epoch != self._epoch:
            return Leadership(False, 0, None)
        return found

    def granted(self, epoch: int) -> None:
        self._epoch = epoch
        self._granted.set()

    def revoked(self, epoch: int) -> None:
        """Ends the process at once: another one may run the job in a moment."""
        if not self._is_leaving.is_set():
            _log.error("The leadership of epoch %d is lost: this process ends.", epoch)
            _flush()
            os._exit(OVERRULED)

    def _take_over(self, url: str) -> JobRecord | None:
        """Waits for the leadership; returns how the job has ended, if it has."""
        services = self._services
        assert services is not None
        services.election.start(self, url)
        self._granted.wait()
        told = ""
        while True:
            try:
                return self._known_end(services)
            except (NotLeaderError, ConfigurationError):
                raise
            except PenstockError as error:
                if str(error) != told:
                    _log.error("The application cannot be taken over: %s", error)
                told = str(error)
                self._is_leaving.wait(jittered(_RETRY_S))

    def _known_end(self, services: HaServices) -> JobRecord | None:
        entries = services.job_store.take_over(self._epoch)
        result = services.job_store.results.get(self._job_id)
        if result is not None:
            return result
        others = entries.keys() - {self._job_id}
        if others:
            raise ConfigurationError(
                f"{_CLUSTER} is {services.settings.cluster_id}, which job {min(others)} has and "
                f"has not ended; this process is to run job {self._job_id}. Give each application "
                "and each group of job managers a cluster id of its own."
            )
        entry = entries.get(self._job_id)
        if entry is None:
            program = Submission(program=self._request.program, module=self._request.module)
            stored = StoredJob(record=self._waiting, submission=program, package=b"")
            services.job_store.add(self._epoch, stored)
        else:
            self._is_cancelled = entry.cancel_requested_ms is not None
        return None

    def _note_cancel(self) -> None:
        """Stores that the job is to end, before anything is done about it."""
        if self._services is not None:
            now_ms = self._clock.wall_ms()
            self._services.job_store.request_cancel(self._epoch, self._job_id, now_ms)

    # -- the program ----------------------------------------------------------------------------

    def _run_program(self) -> int:
        set_launcher(self._launch)
        request = self._request
        failure: BaseException | None = None
        try:
            run_program(request.program, request.module, request.arguments, request.paths)
        except SystemExit as error:
            if error.code not in (None, 0):
                failure = ProgramError(f"the program ended itself: sys.exit({error.code!r:.200}).")
        except BaseException as error:
            failure = error
        job = self._job
        if job is None:
            # Not the job's end: the next process may get further.
            print(NO_JOB if failure is None else self._shown(failure), file=sys.stderr)
            return 1
        futures.wait([job.result])
        if job.is_fenced:
            _log.error("A later process runs job %s: this one ends.", self._job_id)
            return OVERRULED
        code = self._ended(job)
        if code == 0 and failure is not None and job.status is JobStatus.FINISHED:
            _log.error("The job has finished, and its program failed.\n%s", self._shown(failure))
            return 1
        return code

    def _launch(
        self, graph: StreamGraph, configuration: Configuration, listener: Listener | None = None
    ) -> LocalJob:
        if self._job is not None:
            raise ProgramError(
                f"the program executes a second job, '{graph.job_name}', after "
                f"'{self._job.graph.job_name}'. An application is one job: make a program of its "
                "own of the second one."
            )
        epoch = attempt_epoch(self._epoch, 1)
        if self._services is None:
            make_absolute(configuration)
            epoch = next_epoch(configuration, self._job_id)
        elif not any(map(configuration.contains_key, CHECKPOINT_PLACES)):
            # Where the next process finds them.
            place = shared_checkpoints(configuration) or ""
            configuration.put(CHECKPOINT_PLACES[0], place, Rank.FILE, "high availability")
        self._job = start_job(
            graph,
            configuration,
            listener,
            job_id=self._job_id,
            leader_epoch=epoch,
            before_start=self._before_start,
        )
        self.dispatcher.attach(self._job, configuration)
        return self._job

    def _before_start(self, job: LocalJob) -> None:
        remove_earlier_attempts(Path(job.settings.state.directory).parent, job.job_id)
        if self._is_cancelled:
            job.cancel()

    def _ended(self, job: LocalJob) -> int:
        """Says and records how the job has ended."""
        record = job.facts().record
        error = job.result.exception()
        if record.status is JobStatus.FINISHED:
            print(job.result.result(), flush=True)
        elif record.status is JobStatus.CANCELED:
            print(f"Job {self._job_id} was cancelled.", flush=True)
        else:
            assert error is not None
            shown = self._shown(error)
            _log.error("Job %s failed:\n%s", self._job_id, shown)
            record = msgspec.structs.replace(record, error=shown)
        has_run = JobStatus.RUNNING in record.timestamps
        if self._services is not None and (has_run or record.status is not JobStatus.FAILED):
            self._record_end(self._services, record)
        return _code_of(record.status)

    def _record_end(self, services: HaServices, record: JobRecord) -> None:
        """Records the end; asks storage that does not answer until it does."""
        while True:
            try:
                services.job_store.end(self._epoch, record)
                services.forget(self._job_id)
                return
            except (NotLeaderError, UnknownJobError) as error:
                _log.warning("The end of job %s is not recorded: %s", self._job_id, error)
                return
            except PenstockError as error:
                _log.warning("The end of job %s is not recorded yet: %s", self._job_id, error)
                self._is_leaving.wait(jittered(_RETRY_S))

    def _shown(self, error: BaseException) -> str:
        if self._request.shows_traces:
            return "".join(traceback.format_exception(error)).rstrip()
        return failure_of(error, 0, 0).text

    # -- the end --------------------------------------------------------------------------------

    def terminated(self) -> None:
        """The process was asked to end: suspends the job."""
        if self._code is None:
            if self._job is not None and not self._job.suspend():
                return  # It is ending, and the process with it.
            _log.info("Job %s is suspended; the next process continues it.", self._job_id)
        self._leave(TERMINATED if self._code is None else self._code)

    def _leave(self, code: int) -> NoReturn:
        """Ends the process; threads of the program must not keep it."""
        with self._leaving:
            self._is_leaving.set()
            if code != TERMINATED:
                stop_spark()
            # While this process leads: who has the job cancelled is to hear from it that it ended.
            self.dispatcher.close()
            if self._services is not None:
                self._services.election.stop()
                self._services.close()
            self.server.stop()
            _flush()
            os._exit(code)


def _code_of(status: JobStatus) -> int:
    """Returns the exit code for the end of a job, as Flink's entry point does."""
    return int(status is JobStatus.FAILED)


def _flush() -> None:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
