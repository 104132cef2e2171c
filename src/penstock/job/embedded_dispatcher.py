"""The service of one job in its own process: of `env.execute(ui=True)`, or of an application.

The same routes and page as a job manager's, over one `LocalJob`, which the program of an
application has yet to execute at first. Jobs cannot be submitted here and the process is not
restarted; all else works: savepoint, stop, cancel, figures, history, log.
"""

from __future__ import annotations

import collections
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.redaction import SecretlessFormatter
from penstock.job.documents.writer import JobViews
from penstock.job.managed_job import begin, result_of
from penstock.job.record import task_counts
from penstock.jobmanager.dispatching import Dispatcher, Leadership, Operations, UnknownJobError
from penstock.jobmanager.job_records import Command, CommandKind, Operation, RefusedError

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.job.local_job import LocalJob
    from penstock.jobmanager.job_records import JobRecord, OutputPiece, Submission

_REFRESH_S: Final = 0.3
_LOOK_S: Final = 0.3
_MOST_LOG_LINES: Final = 5_000


class EmbeddedDispatcher(Dispatcher):
    """A dispatcher with one job, which runs already.

    Args:
        job: The job.
        configuration: What it was configured with.
    """

    def __init__(self, job: LocalJob, configuration: Configuration) -> None:
        super().__init__(configuration.to_dict(), new_id)
        self._job = job
        self._documents: dict[str, bytes] = {}
        self._views = JobViews(job, configuration, self._write, self._remove)
        self._changed = threading.Condition()
        self._change = 0
        self._changes: dict[str, int] = {}
        self._operations = Operations("commands", workers=2, most_open=1_000, kept=1_000)
        self._log = _LogLines()
        self._closed = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="penstock-views", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the threads; documents stay as they are."""
        self._closed.set()
        self._thread.join()
        self._operations.close()
        self.end_disposals()
        self._log.close()

    # -- the dispatcher's protocol ------------------------------------------------------------

    def jobs(self) -> list[JobRecord]:
        return [self.job(self._job.job_id)]

    def job(self, job_id: str) -> JobRecord:
        self._check(job_id)
        facts = self._job.facts()
        return msgspec.structs.replace(facts.record, tasks=task_counts(facts))

    def document(self, job_id: str, name: str) -> bytes | None:
        self._check(job_id)
        return self._documents.get(name)

    def submit(self, submission: Submission, package: bytes) -> str:
        raise RefusedError(
            "this page belongs to one job, in the process of its program. Start `penstock "
            "jobmanager` and submit jobs to that."
        )

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        self._check(job_id)
        if self._job.status.is_terminal_state():
            raise RefusedError(f"job {job_id} is {self._job.status.name}; nothing can be asked.")
        trigger_id = self._trigger_id(trigger_id)
        if command.kind is CommandKind.CANCEL:
            self._operations.done(trigger_id, self._job.cancel)
        else:
            self._operations.begin(trigger_id, lambda: self._obey(command))
        return trigger_id

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        self._check(job_id)
        return self._operations.get(trigger_id)

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        if job_id is not None:
            self._check(job_id)
        return self._log.text().encode("utf-8", "replace")[-max_bytes:]

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        raise RefusedError("the job runs in the process of its program, which prints there.")

    def events(self, job_id: str) -> Iterator[str]:
        self._check(job_id)
        seen = self._change
        while True:
            with self._changed:
                while self._change <= seen and not self._is_over:
                    self._changed.wait()
                names = [name for name, change in self._changes.items() if change > seen]
                is_over, seen = self._is_over, self._change
            yield from names
            if is_over:
                return

    # -- details ------------------------------------------------------------------------------

    def _check(self, job_id: str) -> None:
        if job_id != self._job.job_id:
            raise UnknownJobError(
                f"Job {job_id} was not found; this page belongs to job {self._job.job_id}."
            )

    def is_running(self, job_id: str) -> bool:
        return job_id == self._job.job_id and not self._job.status.is_terminal_state()

    def _obey(self, command: Command) -> dict[str, Any]:
        result = begin(self._job, command).result()
        if command.cancel_job:
            self._job.cancel()
        return result_of(command, result)

    def _run(self) -> None:
        has_ended = False
        while not has_ended and not self._closed.is_set():
            has_ended = self._job.result.done()
            self._views.refresh()
            self._closed.wait(0 if has_ended else _REFRESH_S)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _write(self, name: str, content: bytes) -> None:
        with self._changed:
            self._documents[name] = content
            self._change += 1
            self._changes[name] = self._change
            self._changed.notify_all()

    def _remove(self, name: str) -> None:
        with self._changed:
            self._documents.pop(name, None)
            self._changes.pop(name, None)


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


def new_id() -> str:
    """Returns 32 hex digits that are never used again."""
    return uuid.uuid4().hex  # noqa: TID251 - the composition root is where ids come from


class _LogLines(logging.Handler):
    """The last lines that Penstock logged in this process."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LOG_LINES)
        self.setFormatter(SecretlessFormatter("%(asctime)s %(levelname)-7s %(name)s  %(message)s"))
        logging.getLogger("penstock").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record))
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        return "\n".join(list(self._lines)) + "\n"

    def close(self) -> None:
        logging.getLogger("penstock").removeHandler(self)
        super().close()
