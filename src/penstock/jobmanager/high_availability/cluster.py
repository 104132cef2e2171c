"""One job manager of a cluster: what its dispatcher does when it leads, and when it does not.

* Granted: older leaders are locked out of the list of jobs; what this directory lacks of the jobs
  in it is fetched; the dispatcher leads, and each job starts from its latest checkpoint, in an
  epoch that fences the attempts of earlier leaders.
* Revoked: the dispatcher stands by, which kills its drivers. Should one live on, it is fenced.
* What the leader decides about jobs is noted in the shared list before anything is done about it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.job import JobStatus
from penstock.core.times import Clock, jittered
from penstock.files.errors import ObjectMissingError
from penstock.jobmanager import job_intake
from penstock.jobmanager.dispatching import Leadership, NotLeaderError, UnknownJobError
from penstock.jobmanager.high_availability.job_store import JobEntry, StoredJob
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.job_records import JobRecord, Submission

if TYPE_CHECKING:
    from penstock.jobmanager.dispatcher import JobDispatcher
    from penstock.jobmanager.high_availability.coordination import HaServices

_log = logging.getLogger("penstock.jobmanager")
_RETRY_SECONDS: Final = 1.0
_LONGEST_ERROR: Final = 4_000


class ClusterJobs:
    """Jobs of the cluster on this job manager: follows its leadership, stores its decisions.

    Args:
        services: Election, the jobs that all job managers share, and their records.
        root: Directory of the jobs on this one.
        clock: Says when.
        history: How many ended jobs of the cluster are shown.
    """

    def __init__(self, services: HaServices, root: Path, clock: Clock, history: int) -> None:
        self._services = services
        self._store = services.job_store
        self._root = root
        self._clock = clock
        self._history = history
        self._dispatcher: JobDispatcher | None = None
        self._epoch = 0
        self._lock = threading.Lock()
        self._unrecorded: dict[str, JobRecord] = {}
        self._is_closed = threading.Event()
        self._has_unrecorded = threading.Event()
        self._thread = threading.Thread(target=self._record_ends, name="penstock-ha", daemon=True)

    def start(self, dispatcher: JobDispatcher, url: str) -> None:
        """Has a dispatcher lead when it is this job manager's turn.

        Args:
            dispatcher: Started, and given these jobs.
            url: Where others reach this job manager.
        """
        self._dispatcher = dispatcher
        self._thread.start()
        self._services.election.start(self, url)

    def stop(self) -> None:
        """Kills the drivers, gives the lease up, so that another goes on at once, and ends."""
        self._services.election.stop()
        self._is_closed.set()
        self._has_unrecorded.set()
        self._thread.join(timeout=5)
        self._services.close()

    # -- leadership ---------------------------------------------------------------------------

    def granted(self, epoch: int) -> None:
        """Recovers all jobs of the cluster; tries again until it works or the leadership ends."""
        told = ""
        while self._is_leading(epoch) and not self._is_closed.is_set():
            try:
                jobs = self._recovered(epoch)
            except NotLeaderError as error:
                _log.warning("Jobs are not recovered in epoch %d: %s", epoch, error)
                return
            except PenstockError as error:
                # None is skipped: a job that cannot be read may have to go on.
                if str(error) != told:
                    _log.error("Jobs cannot be recovered in epoch %d: %s", epoch, error)
                told = str(error)
                self._is_closed.wait(jittered(_RETRY_SECONDS))
                continue
            with self._lock:
                if self._is_leading(epoch) and self._dispatcher is not None:
                    self._epoch = epoch
                    self._dispatcher.lead(epoch, jobs)
            return

    def revoked(self, epoch: int) -> None:
        with self._lock:
            self._epoch = 0
            if self._dispatcher is not None:
                self._dispatcher.stand_by()

    def _recovered(self, epoch: int) -> list[JobRecord]:
        entries = self._store.take_over(epoch)
        found = [self._recover(epoch, job_id, entry) for job_id, entry in entries.items()]
        self._end_elsewhere(set(entries))
        return found + self._ended_last()

    def _recover(self, epoch: int, job_id: str, entry: JobEntry) -> JobRecord:
        """Brings a job's directory up to date; returns what is known of the job."""
        record = JobDirectory(self._root / job_id).job.read()
        if record is None:
            try:
                stored = self._store.load(job_id, entry)
            except ObjectMissingError as error:
                return self._given_up(epoch, job_id, error)
            if not stored.package:
                raise ConfigurationError(
                    f"the cluster id {self._services.settings.cluster_id} is that of an "
                    f"application, which runs job {job_id}. Stop this job manager, and give it a "
                    "high-availability.cluster-id of its own; until then the job stands still."
                )
            record = stored.record
            job_intake.store(self._root, record, stored.submission, stored.package)
        if record.status.is_globally_terminal_state():
            # It ended here, and the end could not be noted in the shared list: now it is.
            self._store.end(epoch, _shortened(record))
            return record
        if entry.cancel_requested_ms is not None and record.cancel_requested_ms is None:
            record = msgspec.structs.replace(record, cancel_requested_ms=entry.cancel_requested_ms)
            JobDirectory(self._root / job_id).job.write(record)
        return record

    def _given_up(self, epoch: int, job_id: str, error: ObjectMissingError) -> JobRecord:
        """Ends a job whose submission is gone: nothing can bring it back, and others wait."""
        text = f"the job cannot be started again, since what was submitted is gone: {error}"
        _log.error("Job %s has failed: %s", job_id, text)
        now_ms = self._clock.wall_ms()
        result = JobRecord(job_id=job_id, status=JobStatus.FAILED, ended_ms=now_ms, error=text)
        self._store.end(epoch, result)
        return self._blank(result)

    def _blank(self, result: JobRecord) -> JobRecord:
        """Makes the directory of a job of which nothing but its end is known here."""
        record = _ended(result, result)
        directory = JobDirectory(self._root / result.job_id)
        directory.create()
        directory.job.write(record)
        return record

    def _end_elsewhere(self, running: set[str]) -> None:
        """Notes in this directory which of its jobs have ended under another leader."""
        for record in job_intake.recorded_jobs(self._root):
            if record.job_id in running or record.status.is_globally_terminal_state():
                continue
            result = self._store.results.get(record.job_id)
            if result is not None:
                JobDirectory(self._root / record.job_id).job.write(_ended(record, result))

    def _ended_last(self) -> list[JobRecord]:
        """Returns the jobs of the cluster that ended last, also those that ran elsewhere."""
        found = []
        for result in self._store.results.newest(self._history):
            record = JobDirectory(self._root / result.job_id).job.read()
            found.append(self._blank(result) if record is None else record)
        return found

    # -- what the leader decides --------------------------------------------------------------

    def add(self, record: JobRecord, submission: Submission, package: bytes) -> None:
        job = StoredJob(record=record, submission=submission, package=package)
        self._store.add(self._leading_epoch(), job)

    def request_cancel(self, job_id: str, now_ms: int) -> None:
        """Notes that a job is to end, whatever comes."""
        self._store.request_cancel(self._leading_epoch(), job_id, now_ms)

    def end(self, record: JobRecord) -> None:
        """Notes that a job has ended; a store that does not answer is asked until it does."""
        self._unrecorded[record.job_id] = _shortened(record)
        self._has_unrecorded.set()

    def confirmed(self, own: Leadership) -> Leadership:
        """Returns who leads now: this job manager only if it was told so and its time lasts."""
        found = self._services.election.leadership()
        if own.is_leader and found.is_leader and own.epoch == found.epoch:
            return own
        # Leadership was granted a moment ago, and no job is recovered yet.
        return Leadership(False, 0, None if found.is_leader else found.leader_url)

    def _is_leading(self, epoch: int) -> bool:
        found = self._services.election.leadership()
        return found.is_leader and found.epoch == epoch

    def _leading_epoch(self) -> int:
        epoch = self._epoch
        if not epoch or not self._is_leading(epoch):
            raise NotLeaderError("this job manager does not lead any more.")
        return epoch

    def _record_ends(self) -> None:
        while not self._is_closed.is_set():
            self._has_unrecorded.wait()
            self._has_unrecorded.clear()
            for job_id, result in list(self._unrecorded.items()):
                if self._record_end(result):
                    self._unrecorded.pop(job_id, None)
            if self._unrecorded and not self._is_closed.wait(jittered(_RETRY_SECONDS)):
                self._has_unrecorded.set()

    def _record_end(self, result: JobRecord) -> bool:
        """Notes an end; False when it has to be tried again."""
        try:
            self._store.end(self._leading_epoch(), result)
            self._services.forget(result.job_id)
        except (NotLeaderError, UnknownJobError) as error:
            _log.warning("The end of job %s is not recorded: %s", result.job_id, error)
        except PenstockError as error:
            _log.warning("The end of job %s is not recorded yet: %s", result.job_id, error)
            return False
        return True


def _shortened(record: JobRecord) -> JobRecord:
    """Returns a job that has ended as its successors keep it."""
    error = None if record.error is None else record.error[:_LONGEST_ERROR]
    return msgspec.structs.replace(record, error=error)


def _ended(record: JobRecord, result: JobRecord) -> JobRecord:
    return msgspec.structs.replace(
        record,
        name=result.name,
        status=result.status,
        changed_ms=result.ended_ms or result.changed_ms,
        ended_ms=result.ended_ms or result.changed_ms,
        error=result.error,
    )
