"""A dispatcher that keeps jobs, documents and operations in memory, as the tests put them there."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.core.job import JobStatus
from penstock.jobmanager.dispatching import Leadership, NotLeaderError, UnknownJobError
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    OperationStatus,
    OutputPiece,
    Submission,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB_ID = "40dcc6d2ba90f13930abce295de8d038"
TRIGGER_ID = "0123456789abcdef0123456789abcdef"
VERTEX_ID = "ea632d67b7d595e5b851708ae9ad79d6"


def job_record(
    job_id: str,
    name: str,
    status: JobStatus,
    submitted_ms: int,
    ended_ms: int | None = None,
    changed_ms: int = 0,
    **more: Any,
) -> JobRecord:
    return JobRecord(
        job_id=job_id,
        name=name,
        status=status,
        submitted_ms=submitted_ms,
        ended_ms=ended_ms,
        changed_ms=changed_ms,
        **more,
    )


class MemoryDispatcher:
    """Everything the routes may ask for."""

    def __init__(self) -> None:
        self.leads = Leadership(True, 7, "http://localhost:8081")
        self.records: dict[str, JobRecord] = {}
        self.documents: dict[tuple[str, str], bytes] = {}
        self.log = b"a line with password=hunter2\n"
        self.commands: list[tuple[str, str, Command]] = []
        self.operations: dict[str, Operation] = {}
        self.disposed: list[str] = []
        self.submitted: list[tuple[Submission, bytes]] = []
        self.asked: list[str] = []
        self.changes: queue.Queue[str | None] = queue.Queue()
        self.lock = threading.Lock()

    def add(self, record: JobRecord, **documents: object) -> None:
        self.records[record.job_id] = record
        for name, content in documents.items():
            key = record.job_id, name.replace("__", "/").replace("_", "-")
            self.documents[key] = msgspec.json.encode(content)

    def _check(self, job_id: str | None = None) -> None:
        if not self.leads.is_leader:
            raise NotLeaderError("a standby", self.leads.leader_url)
        if job_id is not None and job_id not in self.records:
            raise UnknownJobError(f"Job {job_id} was not found.")

    def leadership(self) -> Leadership:
        return self.leads

    def jobs(self) -> list[JobRecord]:
        self._check()
        return list(self.records.values())

    def job(self, job_id: str) -> JobRecord:
        self._check(job_id)
        return self.records[job_id]

    def document(self, job_id: str, name: str) -> bytes | None:
        self.asked.append(name)
        self._check(job_id)
        return self.documents.get((job_id, name))

    def submit(self, submission: Submission, package: bytes) -> str:
        self._check()
        self.submitted.append((submission, package))
        return JOB_ID

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        self._check(job_id)
        with self.lock:
            trigger_id = trigger_id or TRIGGER_ID
            if trigger_id not in self.operations:
                self.operations[trigger_id] = Operation(trigger_id, OperationStatus.IN_PROGRESS)
                self.commands.append((job_id, trigger_id, command))
        if command.kind is CommandKind.CANCEL:
            self.records[job_id] = msgspec.structs.replace(
                self.records[job_id], status=JobStatus.CANCELLING
            )
        return trigger_id

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        self._check(job_id)
        return self.operations.get(trigger_id)

    def dispose_savepoint(self, path: str, trigger_id: str | None = None) -> str:
        self._check()
        trigger_id = trigger_id or TRIGGER_ID
        self.disposed.append(path)
        self.operations[trigger_id] = Operation(trigger_id, OperationStatus.COMPLETED)
        return trigger_id

    def disposal(self, trigger_id: str) -> Operation | None:
        self._check()
        return self.operations.get(trigger_id)

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        self._check(job_id)
        return self.log[-max_bytes:]

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        self._check(job_id)
        return OutputPiece(b"" if cursor else b"printed, token=abcdef1\n"[:max_bytes], "7-24")

    def events(self, job_id: str) -> Iterator[str]:
        self._check(job_id)
        while (name := self.changes.get()) is not None:
            yield name
