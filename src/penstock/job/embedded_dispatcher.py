"""The service of one job in its own process: of `env.execute(ui=True)`, or of an application.

The same routes and page as a job manager's, over one `LocalJob`. Jobs cannot be submitted here and
the process is not restarted; all else works: savepoint, stop, cancel, figures, history, log.
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
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    Operation,
    OperationStatus,
    RefusedError,
)

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.job.local_job import LocalJob
    from penstock.jobmanager.job_records import JobRecord, OutputPiece, Submission

_REFRESH_S: Final = 0.3
_CLOSE_S: Final = 5.0
_MOST_LOG_LINES: Final = 5_000


class EmbeddedDispatcher(Dispatcher):
    """A dispatcher with one job, which the program of an application has yet to execute at first.

    Args:
        configuration: Of the process.
        waiting: What is known of the job until it is attached.
        find_leadership: Says who leads; None where no other process can.
        note_cancel: Stores that the job is to end, before it does.
    """

    def __init__(
        self,
        configuration: Configuration,
        waiting: JobRecord,
        find_leadership: Callable[[], Leadership] | None = None,
        note_cancel: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(configuration.to_dict(), new_id)
        self._waiting = waiting
        self._find_leadership = find_leadership or super().leadership
        self._note_cancel = note_cancel
        self._job: LocalJob | None = None
        self._documents: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._change = 0
        self._changes: dict[str, int] = {}
        self._operations = Operations("commands", workers=2, most_open=1_000, kept=1_000)
        self._log = _LogLines()
        self._closed = threading.Event()
        self._is_over = False
        self._has_told = threading.Event()
        """Who asked for something last has heard what came of it."""
        self._has_told.set()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, job: LocalJob, configuration: Configuration) -> EmbeddedDispatcher:
        """Returns the dispatcher of a job that runs already."""
        dispatcher = cls(configuration, job.facts().record)
        dispatcher.attach(job, configuration)
        return dispatcher

    def attach(self, job: LocalJob, configuration: Configuration) -> None:
        """The program has executed the job, which was configured so."""
        views = JobViews(job, configuration, self._write, self._remove)
        self._job = job
        self._thread = threading.Thread(
            target=self._run, args=(job, views), name="penstock-views", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends the threads; documents stay as they are.

        A job that has ended as someone asked says so first: the process may end with it.
        """
        if self._job is not None and self._job.result.done():
            self._has_told.wait(_CLOSE_S)
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self._end_events()
        self._operations.close()
        self.end_disposals()
        self._log.close()

    # -- the dispatcher's protocol ------------------------------------------------------------

    def leadership(self) -> Leadership:
        return self._find_leadership()

    def jobs(self) -> list[JobRecord]:
        return [self.job(self._waiting.job_id)]

    def job(self, job_id: str) -> JobRecord:
        self._check(job_id)
        if self._job is None:
            return self._waiting
        facts = self._job.facts()
        if facts.record.status.is_terminal_state():
            self._has_told.set()
        return msgspec.structs.replace(facts.record, tasks=task_counts(facts))

    def document(self, job_id: str, name: str) -> bytes | None:
        self._check(job_id)
        return self._documents.get(name)

    def submit(self, submission: Submission, package: bytes) -> str:
        self._check_leads()
        raise RefusedError(
            "this page belongs to one job, in the process of its program. Start `penstock "
            "jobmanager` and submit jobs to that."
        )

    def trigger(self, job_id: str, command: Command, trigger_id: str | None = None) -> str:
        self._check(job_id)
        job = self._job
        if job is None:
            raise RefusedError(
                f"job {job_id} is not there yet: its program has not called execute(). Ask again."
            )
        if job.status.is_terminal_state():
            raise RefusedError(f"job {job_id} is {job.status.name}; nothing can be asked.")
        trigger_id = self._trigger_id(trigger_id)
        self._has_told.clear()
        if command.kind is CommandKind.CANCEL:
            self._note_cancel()
            self._operations.done(trigger_id, job.cancel)
        else:
            self._operations.begin(trigger_id, lambda: _obeyed(job, command))
        return trigger_id

    def operation(self, job_id: str, trigger_id: str) -> Operation | None:
        self._check(job_id)
        found = self._operations.get(trigger_id)
        if found is not None and found.status is not OperationStatus.IN_PROGRESS:
            self._has_told.set()
        return found

    def log_tail(self, job_id: str | None, max_bytes: int) -> bytes:
        if job_id is not None:
            self._check(job_id)
        return self._log.text().encode("utf-8", "replace")[-max_bytes:]

    def output(self, job_id: str, cursor: str, max_bytes: int) -> OutputPiece:
        self._check(job_id)
        raise RefusedError("the job runs in the process of its program, which prints there.")

    def events(self, job_id: str) -> Iterator[str]:
        self._check(job_id)
        # Now, so that no change after this call is missed.
        return self._events(self._change)

    def _events(self, seen: int) -> Iterator[str]:
        is_over = False
        while not is_over:
            with self._changed:
                while self._change <= seen and not self._is_over:
                    self._changed.wait()
                names = [name for name, change in self._changes.items() if change > seen]
                is_over, seen = self._is_over, self._change
            yield from names

    def is_running(self, job_id: str) -> bool:
        job = self._job
        return job is not None and job_id == job.job_id and not job.status.is_terminal_state()

    # -- details ------------------------------------------------------------------------------

    def _check(self, job_id: str) -> None:
        self._check_leads()
        if job_id != self._waiting.job_id:
            raise UnknownJobError(
                f"Job {job_id} was not found; this page belongs to job {self._waiting.job_id}."
            )

    def _run(self, job: LocalJob, views: JobViews) -> None:
        has_ended = False
        while not has_ended and not self._closed.is_set():
            has_ended = job.result.done()
            views.refresh()
            self._closed.wait(0 if has_ended else _REFRESH_S)
        self._end_events()

    def _end_events(self) -> None:
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


def _obeyed(job: LocalJob, command: Command) -> dict[str, Any]:
    result = begin(job, command).result()
    if command.cancel_job:
        job.cancel()
    return result_of(command, result)


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
