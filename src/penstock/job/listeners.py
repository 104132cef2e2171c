"""Listeners of a job: Spark's listeners of queries, and ours for what Spark lacks.

1. The job's threads note what happens; they never wait for a listener.
2. One thread tells the listeners, in order. A listener that raises is logged and dropped.

A listener is any object with some of Spark's `onQueryStarted`, `onQueryProgress`, `onQueryIdle`,
`onQueryTerminated`, and of our `on_checkpoint_completed`, `on_checkpoint_failed` (both are given a
line of the history) and `on_restart` (given a `RestartEvent`).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.statistics import COMPLETED, CheckpointRecord
from penstock.core.errors import ProgramError
from penstock.core.times import SystemClock
from penstock.job.progress import JobDigest, digest_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.job.record import Job
    from penstock.runtime.job_state import EpochSummary
    from penstock.spark.query_events import QueryEvents

OF_SPARK: Final = ("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated")
OF_PENSTOCK: Final = ("on_checkpoint_completed", "on_checkpoint_failed", "on_restart")
_MOST_WAITING: Final = 1_000
_IDLE_EVERY_MS: Final = 10_000
_log = logging.getLogger("penstock.listeners")


@dataclass(frozen=True, slots=True)
class RestartEvent:
    """A job restarts after a failure."""

    job_id: str  # 32 hex digits.
    attempt: int  # Number of the new attempt, from 1.
    reason: str  # Why the one before failed.


def checked_listener(listener: Any) -> Any:
    """Returns something that has at least one method of a listener.

    Raises:
        ProgramError: It has none, or is a class.
    """
    known = (*OF_SPARK, *OF_PENSTOCK)
    if isinstance(listener, type) or not any(hasattr(listener, name) for name in known):
        raise ProgramError(
            f"add_listener() takes a StreamingQueryListener, or an object with one of "
            f"{', '.join(OF_PENSTOCK)}, but got {listener!r:.80}."
        )
    return listener


class JobListeners:
    """The listeners of one job; programs hand it over as the job's listener.

    Args:
        listeners: Those who listen from the start.
        on_epoch: Called after each epoch, on the driver's thread.
    """

    def __init__(
        self,
        listeners: tuple[Any, ...] = (),
        on_epoch: Callable[[EpochSummary], None] | None = None,
    ) -> None:
        self._listeners = [checked_listener(each) for each in listeners]
        self._on_epoch = on_epoch
        self._waiting: queue.Queue[tuple[str, Any] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._job: Job | None = None
        self._events: QueryEvents | None = None
        self._idle_told_ms: int | None = None

    @classmethod
    def of(cls, listener: Any, job: Job) -> JobListeners:
        """Returns the listeners of a job, whatever it was given as its listener."""
        listeners = listener if isinstance(listener, JobListeners) else cls((), listener)
        listeners._job = job
        job.result.add_done_callback(listeners._ended)
        return listeners

    def add(self, listener: Any) -> None:
        checked = checked_listener(listener)
        with self._lock:
            self._listeners = [*self._listeners, checked]

    def remove(self, listener: Any) -> None:
        with self._lock:
            self._listeners = [each for each in self._listeners if each is not listener]

    # -- called by the job's threads ----------------------------------------------------------

    def __call__(self, summary: EpochSummary) -> None:
        """An epoch counts."""
        if self._on_epoch is not None:
            self._on_epoch(summary)
        if self._job is None or not self._wants(OF_SPARK):
            return
        now_ms = self._clock.wall_ms()
        if summary.records_read:
            self._idle_told_ms = now_ms
            self._note("onQueryProgress", self._progress(self._job, summary, now_ms))
        elif self._idle_told_ms is None or now_ms - self._idle_told_ms >= _IDLE_EVERY_MS:
            self._idle_told_ms = now_ms
            self._note("onQueryIdle", self._query(self._job).idle(self._job.restarts, now_ms))

    def attempt_started(self) -> None:
        job = self._job
        if job is None or not self._listeners:
            return
        if job.restarts:
            reason = job.failures[0].text if job.failures else ""
            self._note("on_restart", RestartEvent(job.job_id, job.restarts, reason))
        elif self._wants(OF_SPARK):
            self._note("onQueryStarted", self._query(job).started(0, self._clock.wall_ms()))

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        """A checkpoint has completed or failed; this is its line of the history."""
        if self._listeners:
            is_completed = record.status == COMPLETED
            method = "on_checkpoint_completed" if is_completed else "on_checkpoint_failed"
            self._note(method, record)

    def _ended(self, result: Future[Any]) -> None:
        job = self._job
        assert job is not None
        if self._wants(OF_SPARK):
            # A cancelled job has not failed: Spark reports no error for such a query.
            failed = job.status.name == "FAILED"
            error = result.exception() if failed and not result.cancelled() else None
            self._note("onQueryTerminated", self._query(job).terminated(job.restarts, error))
        if self._thread is not None:
            self._waiting.put(None)

    def close(self, timeout_s: float = 5.0) -> None:
        """Waits for pending calls of listeners, up to the timeout."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    # -- telling ------------------------------------------------------------------------------

    def _wants(self, methods: tuple[str, ...]) -> bool:
        return any(hasattr(each, name) for each in self._listeners for name in methods)

    def _note(self, method: str, event: Any) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="penstock-listeners", daemon=True
                )
                self._thread.start()
        try:
            self._waiting.put_nowait((method, event))
        except queue.Full:
            _log.warning("Listeners are slow: a call of %s was left out.", method)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            method, event = item
            for listener in self._listeners:
                call = getattr(listener, method, None)
                if call is None:
                    continue
                try:
                    call(event)
                except Exception:
                    _log.exception(
                        "%s of listener %s raised; the listener is told nothing more.",
                        method,
                        type(listener).__name__,
                    )
                    self.remove(listener)

    def _query(self, job: Job) -> QueryEvents:
        if self._events is None:
            from penstock.spark.query_events import QueryEvents

            self._events = QueryEvents(job.job_id, job.graph.job_name)
        return self._events

    def _progress(self, job: Job, summary: EpochSummary, now_ms: int) -> Any:
        digest = digest_of(job, now_ms)
        rates = job.metrics.rates(job.facts().rates_at_ms)
        sources: dict[str, tuple[int, float]] = {}
        sinks: dict[str, int] = {}
        for report in summary.reports:
            stage = job.graph.stages[report.stage_id]
            if stage.is_source:
                name = stage.operators[0].name
                key = report.stage_id, report.subtask
                records, speed = sources.get(name, (0, 0.0))
                speed += rates.per_second(rates.subtask(key).records_in)
                sources[name] = records + report.records_read, speed
            for operator in stage.operators:
                if operator.kind.name == "SINK" and operator.uid in report.metrics:
                    written = report.metrics[operator.uid].records_in
                    sinks[operator.name] = sinks.get(operator.name, 0) + written
        return self._query(job).progress(
            summary,
            attempt=job.restarts,
            now_ms=now_ms,
            watermark_ms=digest.watermark_ms,
            sources=sources,
            sinks=sinks,
            figures=_figures(digest),
        )


def _figures(digest: JobDigest) -> dict[str, Any]:
    return {**asdict(digest), "status": digest.status.name}
