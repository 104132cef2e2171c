"""What the service can do, as REST, the web page and the tests see it: one class, plain records.

The dispatcher owns jobs; each job runs in a driver process of its own. Long operations are
*triggered* and then asked about by their trigger id, which the caller may choose: the same id twice
is the same operation. Documents are JSON; a driver writes them while its job runs, and they stay
when it has ended. REST completes them from the record of the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.checkpoint.deletion import delete_snapshot
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.core.errors import PenstockError
from penstock.files.urls import Storages
from penstock.jobmanager.job_directory import checked_id
from penstock.jobmanager.job_records import Operation, OperationStatus, RefusedError

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import Command, JobRecord, OutputPiece, Submission


class UnknownJobError(PenstockError):
    """There is no such job."""


class NotLeaderError(PenstockError):
    """Another job manager leads, or none does."""

    def __init__(self, message: str, leader_url: str | None = None) -> None:
        super().__init__(message)
        self.leader_url = leader_url


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads."""

    is_leader: bool  # Whether this process does.
    epoch: int  # Its leader epoch; 0 without high availability.
    # Where the leader's REST interface is; None when there is none or it is unknown.
    leader_url: str | None


class Operations:
    """Operations by trigger id; the same id twice is one operation.

    Args:
        what: What they are, for people and as the name of threads.
        workers: How many go on at once.
        most_open: How many may wait or go on.
        kept: How many are remembered.
    """

    def __init__(self, what: str, *, workers: int, most_open: int, kept: int) -> None:
        self._what = what
        self._most_open = most_open
        self._kept = kept
        self._lock = threading.Lock()
        self._known: dict[str, Operation] = {}
        self._workers = ThreadPoolExecutor(workers, f"penstock-{what}")

    def begin(self, trigger_id: str, work: Callable[[], Mapping[str, Any]]) -> None:
        """Has a thread do something; the result is the rest of the `Operation`.

        Raises:
            RefusedError: Too many wait already.
        """
        if self._note(Operation(trigger_id, OperationStatus.IN_PROGRESS)):
            self._workers.submit(self._run, trigger_id, work)

    def done(self, trigger_id: str, work: Callable[[], None]) -> None:
        """Does something at once that takes no time."""
        if self._note(Operation(trigger_id, OperationStatus.COMPLETED)):
            work()

    def get(self, trigger_id: str) -> Operation | None:
        with self._lock:
            return self._known.get(trigger_id)

    def close(self) -> None:
        """What has not begun does not begin any more."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _note(self, operation: Operation) -> bool:
        """Remembers an operation; says whether it is new."""
        with self._lock:
            if operation.trigger_id in self._known:
                return False
            is_open = [each.status is OperationStatus.IN_PROGRESS for each in self._known.values()]
            if sum(is_open) >= self._most_open:
                raise RefusedError(f"{sum(is_open)} {self._what} wait already; ask again later.")
            self._known[operation.trigger_id] = operation
            for known in [*self._known][: -self._kept]:
                if self._known[known].status is not OperationStatus.IN_PROGRESS:
                    del self._known[known]
            return True

    def _run(self, trigger_id: str, work: Callable[[], Mapping[str, Any]]) -> None:
        try:
            done = Operation(trigger_id, OperationStatus.COMPLETED, **work())
        except Exception as problem:
            text = str(problem)
            if not isinstance(problem, PenstockError):
                text = f"{type(problem).__name__}: {problem}"
            done = Operation(trigger_id, OperationStatus.FAILED, error=text)
        with self._lock:
            self._known[trigger_id] = done


class Dispatcher(Protocol):
    """Runs jobs. Every method may be called from any thread; none blocks for long.

    What all dispatchers do alike is here. A savepoint is deleted in the background: one at a time,
    and only what a valid `_metadata` names. The last disposals are remembered.

    Args:
        options: Configuration; keys of storage are read from it.
        new_id: Returns 32 hex digits that are never used again.
    """

    _new_id: Callable[[], str]
    _storages: Storages
    _disposals: Operations

    def __init__(self, options: Mapping[str, str], new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._storages = Storages(options)
        self._disposals = Operations("disposals", workers=1, most_open=50, kept=100)

    def leadership(self) -> Leadership:
        """Says who leads. All other methods raise `NotLeaderError` on a standby."""
        return Leadership(True, 0, None)

    def dispose_savepoint(self, path: str, trigger_id: str | None = None) -> str:
        """Deletes a savepoint: only the files that its valid `_metadata` names."""
        self._check_leads()
        trigger_id = self._trigger_id(trigger_id)
        self._disposals.begin(trigger_id, lambda: self._dispose(path))
        return trigger_id

    def disposal(self, trigger_id: str) -> Operation | None:
        """Returns the operation of a disposal; None if it is unknown."""
        self._check_leads()
        return self._disposals.get(checked_id(trigger_id, "trigger id"))

    def end_disposals(self) -> None:
        """Waits for none: what has not begun does not begin any more."""
        self._disposals.close()

    def is_running(self, job_id: str) -> bool:
        """Whether a job has not ended: its checkpoints are not for disposal."""

    def jobs(self) -> list[JobRecord]:
        """Returns all jobs that are remembered, newest first."""

    def job(self, job_id: str) -> JobRecord:
        """Returns a job. Raises `UnknownJobError`."""

    def document(self, job_id: str, name: str) -> bytes | None:
        """Returns a JSON document as the driver has written it last; names: `job.documents`.

        None while there is no such document. Raises `UnknownJobError`.
        """

    def submit(self, submission: Submission, package: bytes) -> str:
        """Stores a job and starts it; returns its id. Raises `RefusedError`."""

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        """Hands a command to a running job; returns the trigger id."""

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        """Returns the operation of a command; None if it is unknown."""

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        """Returns the end of a job's log, or of the job manager's own."""

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        """Returns what a job's program printed on its standard output, from a cursor on."""

    def events(self, job_id: str) -> Iterator[str]:
        """Yields the name of a document each time it has changed; ends with the job."""

    def _check_leads(self) -> None:
        found = self.leadership()
        if not found.is_leader:
            leader = found.leader_url
            known = f"ask {leader}" if leader else "no leader is known; ask again in a moment"
            raise NotLeaderError(f"this job manager does not lead: {known}.", leader)

    def _trigger_id(self, given: str | None) -> str:
        return checked_id(given or self._new_id(), "trigger id")

    def _dispose(self, path: str) -> Mapping[str, str]:
        loaded = load_snapshot(self._storages, path)
        manifest = loaded.manifest
        if not manifest.kind.is_savepoint and self.is_running(manifest.job_id):
            raise CheckpointError(
                f"{loaded.directory} is checkpoint {manifest.checkpoint_id} of job "
                f"{manifest.job_id}, which has not ended and may need it. Stop or cancel the job "
                "first."
            )
        report = delete_snapshot(self._storages, loaded)
        if not report.is_complete:
            place, reason = report.failed[0]
            raise CheckpointError(
                f"{len(report.failed)} files of {loaded.directory} could not be deleted, among "
                f"them {place}: {reason}"
            )
        return {}
