"""Submitted jobs, kept for whichever job manager leads.

    <storageDir>/<cluster-id>/submittedExecutionPlan<12 hex>   package and submission of one job
                             /elected                          a job manager has led here before
    the record `execution-plans`                               which jobs there are: it decides

1. A job is submitted when the record names its file, and not before.
2. A new leader fences the record first. From then on an older leader, which may only have been
   asleep, can neither add a job nor end one.
3. A job that has ended is marked in the record, then written to the job result store, then taken
   out of the record, and then its file is deleted. A successor goes on wherever that was left.

One record for all jobs, and not one for each, because a fence has to lock out new entries too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.pointer import fence
from penstock.core.codec import DamagedError, seal, unseal
from penstock.core.errors import StateError
from penstock.core.job import JobStatus, application_status
from penstock.core.versioned import Rejected, Unknown, VersionedRecord
from penstock.files.contract import Content, Storage
from penstock.files.errors import FilesError, ObjectExistsError, ObjectMissingError
from penstock.jobmanager.dispatching import NotLeaderError, UnknownJobError
from penstock.jobmanager.job_records import JobRecord, RefusedError, Submission

_MAGIC: Final = b"\x93PENPLAN"
_VERSION: Final = 1
_SETTLE_TRIES: Final = 5
ELECTED: Final = "elected"


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted job, with all that is needed to run it."""

    record: JobRecord  # When nothing of it had run yet.
    submission: Submission  # Program, arguments and settings.
    package: bytes


class JobEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the record says about a job."""

    file: str  # Name of the file with the submission.
    size_bytes: int
    sha256: str
    # Wall time of the request to cancel; never taken back.
    cancel_requested_ms: int | None = None
    result: JobRecord | None = None  # How it has ended.


class _Index(msgspec.Struct, frozen=True):
    jobs: dict[str, JobEntry] = {}


class HaJobStore:
    """Jobs and results of one cluster.

    Args:
        storage: The shared directory.
        cluster_id: Name of the cluster.
        record: The record of submitted jobs.
        new_id: Returns 32 hex digits that are never used again.
    """

    def __init__(
        self, storage: Storage, cluster_id: str, record: VersionedRecord, new_id: Callable[[], str]
    ) -> None:
        self.results = JobResultStore(storage, cluster_id)
        self._storage = storage
        self._directory = cluster_id
        self._record = record
        self._new_id = new_id

    # -- leadership ---------------------------------------------------------------------------

    def take_over(self, epoch: int) -> dict[str, JobEntry]:
        """Locks older leaders out; returns the jobs that have not ended, oldest first.

        Raises:
            NotLeaderError: A newer leader was there first.
            StateError: The record is damaged.
            CheckpointError: It cannot be read or written at present.
        """
        self._storage.make_directory(self._directory)
        with contextlib.suppress(ObjectExistsError):
            self._storage.put_if_absent(f"{self._directory}/{ELECTED}", Content.of_bytes(b""))
        try:
            fence(
                lambda: self._record.fence(
                    leader_epoch=epoch,
                    write_id=self._new_id(),
                    initial=msgspec.msgpack.encode(_Index()),
                ),
                self._record.place,
            )
        except FencedError as error:
            raise NotLeaderError(str(error)) from error
        found = self._read().jobs
        for job_id, entry in found.items():
            if entry.result is not None:
                self._finish(epoch, job_id, entry)
        return {
            job_id: entry
            for job_id, entry in found.items()
            if entry.result is None and not self._has_ended(epoch, job_id)
        }

    def check_never_elected(self, wiped: str) -> None:
        """Called when there is no lease: an earlier leader would have left one.

        Args:
            wiped: What may have lost it, for the error.

        Raises:
            StateError: A job manager has led on this directory.
        """
        key = f"{self._directory}/{ELECTED}"
        if self._storage.exists(key):
            place = self._storage.url_of(key)
            raise StateError(
                f"{wiped} holds no lease, yet {place} says that job managers have led here before: "
                "its data was lost, or it is another one. Nothing is started, since running jobs "
                "and their checkpoints would be forgotten. Bring the data back or correct the "
                f"address; or, to start without them, delete {place}."
            )

    # -- jobs ---------------------------------------------------------------------------------

    def add(self, epoch: int, job: StoredJob) -> None:
        """Submits a job.

        Raises:
            NotLeaderError: A newer leader decides now; the job was not submitted.
            RefusedError: Whether it was submitted is unknown.
        """
        data = seal(_MAGIC, _VERSION, msgspec.msgpack.encode(job))
        name = f"submittedExecutionPlan{self._new_id()[:12]}"
        content = Content.of_bytes(data)
        self._storage.put_if_absent(f"{self._directory}/{name}", content)
        entry = JobEntry(file=name, size_bytes=content.size_bytes, sha256=content.sha256)
        try:
            self._change(epoch, lambda jobs: {**jobs, job.record.job_id: entry})
        except NotLeaderError:
            self._delete(name)
            raise

    def load(self, job_id: str, entry: JobEntry) -> StoredJob:
        """Reads a submitted job.

        Raises:
            StateError: Its file is damaged.
            CheckpointError: It cannot be read.
        """
        key = f"{self._directory}/{entry.file}"
        data = self._storage.read(key, size_bytes=entry.size_bytes, sha256=entry.sha256)
        what = f"job {job_id} in {self._storage.url_of(key)}"
        _, view = unseal(data, magic=_MAGIC, newest=_VERSION, what=what)
        try:
            return msgspec.msgpack.decode(view, type=StoredJob)
        except msgspec.DecodeError as error:
            raise DamagedError(f"{what} is whole but malformed: {error}.") from error

    def request_cancel(self, epoch: int, job_id: str, now_ms: int) -> None:
        """Stores a request to cancel, before anything is done about it.

        Raises:
            NotLeaderError: A newer leader decides now.
        """

        def change(jobs: dict[str, JobEntry]) -> dict[str, JobEntry]:
            entry = jobs.get(job_id)
            if entry is None or entry.cancel_requested_ms is not None:
                return jobs
            return {**jobs, job_id: msgspec.structs.replace(entry, cancel_requested_ms=now_ms)}

        self._change(epoch, change)

    def end(self, epoch: int, result: JobRecord) -> None:
        """Notes that a job has ended; it never starts again.

        Raises:
            NotLeaderError: A newer leader decides now, and it goes on with the job.
            UnknownJobError: There is no such job.
        """
        entry = self._read().jobs.get(result.job_id)
        if entry is None:
            if self.results.get(result.job_id) is not None:
                return
            raise UnknownJobError(f"there is no job {result.job_id} in {self._record.place}.")

        def change(jobs: dict[str, JobEntry]) -> dict[str, JobEntry]:
            entry = jobs.get(result.job_id)
            if entry is None or entry.result is not None:
                return jobs
            return {**jobs, result.job_id: msgspec.structs.replace(entry, result=result)}

        if entry.result is None:
            self._change(epoch, change)
            entry = msgspec.structs.replace(entry, result=result)
        self._finish(epoch, result.job_id, entry)

    # -- details ------------------------------------------------------------------------------

    def _finish(self, epoch: int, job_id: str, entry: JobEntry) -> None:
        assert entry.result is not None
        self.results.add(entry.result)
        self._change(epoch, lambda jobs: {key: jobs[key] for key in jobs if key != job_id})
        self._delete(entry.file)

    def _has_ended(self, epoch: int, job_id: str) -> bool:
        """Whether the result store knows a job that the record does not know to have ended."""
        result = self.results.get(job_id)
        if result is not None:
            self.end(epoch, result)
        return result is not None

    def _read(self) -> _Index:
        version = self._record.read()
        if version is None:
            return _Index()
        return _decoded(version.value, self._record.place)

    def _change(
        self, epoch: int, change: Callable[[dict[str, JobEntry]], dict[str, JobEntry]]
    ) -> None:
        place = self._record.place

        def changed(value: bytes | None) -> bytes:
            index = _Index() if value is None else _decoded(value, place)
            return msgspec.msgpack.encode(_Index(change(index.jobs)))

        outcome = self._record.update(changed, leader_epoch=epoch, new_write_id=self._new_id)
        for _ in range(_SETTLE_TRIES):
            if not isinstance(outcome, Unknown):
                break
            outcome = self._record.settle(outcome)
        if isinstance(outcome, Unknown):
            raise RefusedError(
                f"it is not known whether {place} was changed: {outcome.reason}. Look at the list "
                "of jobs before asking again."
            )
        if isinstance(outcome, Rejected):
            if not outcome.fenced:
                # The write whose fate was unknown lost against another one of ours: once more.
                self._change(epoch, change)
                return
            leader = "unknown" if outcome.current is None else outcome.current.leader_epoch
            raise NotLeaderError(
                f"the job manager of leader epoch {leader} decides about jobs now; epoch {epoch} "
                "is over."
            )

    def _delete(self, name: str) -> None:
        with contextlib.suppress(FilesError):
            self._storage.delete(f"{self._directory}/{name}")


def _decoded(value: bytes, place: str) -> _Index:
    if not value:
        return _Index()
    try:
        return msgspec.msgpack.decode(value, type=_Index)
    except msgspec.DecodeError as error:
        raise DamagedError(f"the list of jobs {place} is whole but malformed: {error}.") from error


_SUFFIX: Final = ".json"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    id: str
    application_status: str
    net_runtime: int
    job_status: str
    job_name: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    error: str | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    result: _Entry


class JobResultStore:
    """Results of one cluster."""

    def __init__(self, storage: Storage, cluster_id: str) -> None:
        self._storage = storage
        self._directory = f"job-result-store/{cluster_id}"

    def add(self, result: JobRecord) -> None:
        """Writes a result; fine when it is there already, because a job ends once."""
        ended_ms = result.ended_ms or result.changed_ms
        entry = _Entry(
            id=result.job_id,
            application_status=application_status(result.status),
            net_runtime=max(0, ended_ms - result.submitted_ms),
            job_status=result.status.name,
            job_name=result.name,
            started_ms=result.submitted_ms,
            ended_ms=ended_ms,
            error=result.error,
        )
        data = msgspec.json.encode(_File(version=1, result=entry))
        self._storage.make_directory(self._directory)
        try:
            self._storage.put_if_absent(self._key(result.job_id), Content.of_bytes(data))
        except ObjectExistsError:
            return

    def get(self, job_id: str) -> JobRecord | None:
        """Returns how a job has ended; None when it has not.

        Raises:
            DamagedError: The file is not what was written.
        """
        key = self._key(job_id)
        try:
            data = self._storage.read(key)
        except ObjectMissingError:
            return None
        try:
            found = msgspec.json.decode(data, type=_File).result
        except msgspec.DecodeError as error:
            raise DamagedError(f"the job result {self._storage.url_of(key)}: {error}.") from error
        return JobRecord(
            job_id=found.id,
            status=JobStatus[found.job_status],
            name=found.job_name,
            submitted_ms=found.started_ms,
            ended_ms=found.ended_ms,
            error=found.error,
        )

    def newest(self, number: int) -> list[JobRecord]:
        """Returns the results that were written last, newest first."""
        entries = [
            entry for entry in self._storage.list(self._directory) if entry.key.endswith(_SUFFIX)
        ]
        entries.sort(key=lambda entry: entry.modified_ms, reverse=True)
        names = [entry.key.rpartition("/")[2].removesuffix(_SUFFIX) for entry in entries]
        found = [self.get(name) for name in names[:number]]
        return [result for result in found if result is not None]

    def _key(self, job_id: str) -> str:
        return f"{self._directory}/{job_id}{_SUFFIX}"
