"""What REST and the page of an application see: one job, which its program has yet to execute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.job.embedded_dispatcher import EmbeddedDispatcher, new_id
from penstock.jobmanager.dispatching import Dispatcher, Leadership, UnknownJobError
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    RefusedError,
    Submission,
)

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.job.local_job import LocalJob
    from penstock.jobmanager.job_records import OutputPiece

_LOOK_S: Final = 0.3


class ApplicationDispatcher(Dispatcher):
    """The dispatcher of one job, which the program has yet to execute at first.

    Args:
        configuration: Of the process.
        waiting: What is known of the job until then.
        find_leadership: Says who leads.
        note_cancel: Stores that the job is to end, before it does.
    """

    def __init__(
        self,
        configuration: Configuration,
        waiting: JobRecord,
        find_leadership: Callable[[], Leadership],
        note_cancel: Callable[[], None],
    ) -> None:
        super().__init__(configuration.to_dict(), new_id)
        self._waiting = waiting
        self._find_leadership = find_leadership
        self._note_cancel = note_cancel
        self._job: EmbeddedDispatcher | None = None
        self._is_closed = threading.Event()

    def attach(self, job: LocalJob, configuration: Configuration) -> None:
        self._job = EmbeddedDispatcher(job, configuration)

    def leadership(self) -> Leadership:
        return self._find_leadership()

    def jobs(self) -> list[JobRecord]:
        self._check_leads()
        return [self._waiting] if self._job is None else self._job.jobs()

    def job(self, job_id: str) -> JobRecord:
        self._check_leads()
        if self._job is not None:
            return self._job.job(job_id)
        if job_id != self._waiting.job_id:
            raise UnknownJobError(
                f"Job {job_id} was not found; this process runs job {self._waiting.job_id}."
            )
        return self._waiting

    def document(self, job_id: str, name: str) -> bytes | None:
        self.job(job_id)
        return None if self._job is None else self._job.document(job_id, name)

    def submit(self, submission: Submission, package: bytes) -> str:
        del submission, package
        self._check_leads()
        raise RefusedError(
            "this process runs one application and takes no other job. Start `penstock "
            "jobmanager` and submit jobs to that."
        )

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        job = self._running(job_id)
        if command.kind is CommandKind.CANCEL:
            self._note_cancel()
        return job.trigger(job_id, command, trigger_id)

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        self.job(job_id)
        return None if self._job is None else self._job.operation(job_id, trigger_id)

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        return b"" if self._job is None else self._job.log_tail(job_id, max_bytes)

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        return self._running(job_id).output(job_id, cursor, max_bytes)

    def events(self, job_id: str) -> Iterator[str]:
        self.job(job_id)
        return self._events(job_id)

    def _events(self, job_id: str) -> Iterator[str]:
        while self._job is None:
            if self._is_closed.wait(_LOOK_S):
                return
        yield from self._job.events(job_id)

    def is_running(self, job_id: str) -> bool:
        return self._job is not None and self._job.is_running(job_id)

    def close(self) -> None:
        self._is_closed.set()
        self.end_disposals()

    def _running(self, job_id: str) -> EmbeddedDispatcher:
        self.job(job_id)
        if self._job is None:
            raise RefusedError(
                f"job {job_id} is not there yet: its program has not called execute(). Ask again."
            )
        return self._job
