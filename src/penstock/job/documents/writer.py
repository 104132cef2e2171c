"""Writes the documents of a running job whenever they have changed.

`refresh` is called a few times a second while the job runs, and once more at its end. What
has not changed is not written: a document is encoded with the time that its last edition shows,
and compared. Lines of the history are encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.job import JobExecutionResult, JobStatus
from penstock.core.redaction import shown_value
from penstock.core.times import Clock, SystemClock
from penstock.job import documents
from penstock.job.documents.checkpoints import (
    checkpoint_config_view,
    checkpoints_view,
    details_view,
    record_view,
)
from penstock.job.documents.configuration import effective_config_view
from penstock.job.documents.current import failure_history
from penstock.job.documents.job import (
    config_view,
    exceptions_view,
    execution_result_view,
    job_view,
    plan_view,
    vertex_view,
)
from penstock.job.documents.metrics import metrics_view
from penstock.job.record import MOST_FAILURES, Job, JobFacts

if TYPE_CHECKING:
    from penstock.checkpoint.statistics import CheckpointRecord, CheckpointStatistics
    from penstock.core.configuration import Configuration

    View = Callable[[int], Any]


_encode = msgspec.json.Encoder().encode


class JobViews:
    """The documents of one job.

    Args:
        job: The job.
        configuration: What it was configured with.
        write: Takes the name of a document and its JSON.
        remove: Takes the name of a document that is not needed any more, because its checkpoint
            has left the history; None keeps them all.
        clock: Says when.
        read: Returns a document that an earlier process of the job wrote; what it tells of
            checkpoints and failures is shown on.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - documents come from somewhere and go somewhere
        self,
        job: Job,
        configuration: Configuration,
        write: Callable[[str, bytes], None],
        remove: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        read: Callable[[str], bytes | None] | None = None,
    ) -> None:
        self._job = job
        self._configuration = configuration
        self._write = write
        self._remove = remove
        self._clock = clock or SystemClock()
        self._written: dict[str, bytes] = {}
        self._times: dict[str, int] = {}
        self._history = _History(job.settings.leader_epoch)
        self._seen: Any = None
        self._earlier = _Earlier(read or (lambda _: None))

    def refresh(self) -> None:
        job = self._job
        statistics = job.statistics
        facts = job.facts()
        if not self._written:
            self._write_lasting(facts)
        self._refresh_checkpoints(statistics)
        self._put(documents.METRICS, partial(metrics_view, facts, statistics))
        for stage in facts.graph.stages:
            name = documents.VERTEX.format(vertex=stage.vertex_id)
            self._put(name, partial(vertex_view, facts, stage))
        self._put(documents.EXCEPTIONS, lambda _: self._exceptions(facts))
        result = _result(job)
        self._put(documents.EXECUTION_RESULT, lambda _: execution_result_view(facts, result))
        # Last: who sees that the job has ended finds the other documents complete.
        self._put(documents.JOB, partial(job_view, facts))

    def _write_lasting(self, facts: JobFacts) -> None:
        job, settings, configuration = self._job, self._job.settings, self._configuration
        parameters = {key: shown_value(key, value) for key, value in settings.parameters}
        views: dict[str, Any] = {
            documents.PLAN: {"plan": plan_view(job.job_id, facts.graph)},
            documents.CONFIG: config_view(
                job.job_id,
                facts.graph,
                settings.restart_strategy.describe(),
                parameters,
                object_reuse=settings.object_reuse,
            ),
            documents.EFFECTIVE_CONFIG: effective_config_view(configuration),
            documents.CHECKPOINT_CONFIG: checkpoint_config_view(
                settings.checkpoints, settings.state.backend, configuration
            ),
        }
        for name, view in views.items():
            self._written[name] = _encode(view)
            self._write(name, self._written[name])

    def _refresh_checkpoints(self, statistics: CheckpointStatistics | None) -> None:
        seen = None if statistics is None else statistics.revision
        if self._seen == (seen,):
            return
        history = self._history
        records = [] if statistics is None else statistics.history()
        changed, gone = history.update(records)
        room = self._job.settings.checkpoints.history_size - len(records)
        gone += self._earlier.left_out(room)
        for record in changed:
            name = documents.CHECKPOINT.format(checkpoint=record.checkpoint_id)
            self._write(name, _encode(details_view(record, history.leader_epoch)))
        if self._remove is not None:
            for checkpoint_id in gone:
                self._remove(documents.CHECKPOINT.format(checkpoint=checkpoint_id))
        view = checkpoints_view(statistics, history.lines(), history.leader_epoch)
        self._write(documents.CHECKPOINTS, _encode(self._earlier.with_checkpoints(view)))
        self._seen = (seen,)

    def _exceptions(self, facts: JobFacts) -> dict[str, Any]:
        return self._earlier.with_failures(exceptions_view(facts))

    def _put(self, name: str, view: View) -> None:
        """Writes a document unless only the time it shows would be new."""
        before = self._written.get(name)
        if before is not None and _encode(view(self._times[name])) == before:
            return
        self._times[name] = self._clock.wall_ms()
        self._written[name] = _encode(view(self._times[name]))
        self._write(name, self._written[name])


class _History:
    """Encoded lines of the history, kept as long as their records are the same objects."""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self._known: dict[int, CheckpointRecord] = {}
        self._lines: dict[int, msgspec.Raw] = {}

    def update(self, records: list[CheckpointRecord]) -> tuple[list[CheckpointRecord], list[int]]:
        """Takes in the history, newest first; returns what has changed and what is gone."""
        known = self._known
        now = {record.checkpoint_id: record for record in records}
        changed = [record for record in records if known.get(record.checkpoint_id) is not record]
        gone = known.keys() - now.keys()
        for record in changed:
            line = msgspec.Raw(_encode(record_view(record, self.leader_epoch)))
            self._lines[record.checkpoint_id] = line
        for number in gone:
            del self._lines[number]
        self._known = now
        return changed, sorted(gone)

    def lines(self) -> list[msgspec.Raw]:
        return list(map(self._lines.__getitem__, self._known))


def _result(job: Job) -> JobExecutionResult | None:
    if job.status is not JobStatus.FINISHED or not job.result.done():
        return None
    return None if job.result.exception() is not None else job.result.result()


_COUNTED: Final = ("restored", "completed", "failed")
_ENDED: Final = ("COMPLETED", "FAILED")


class _Earlier:
    """What the process before told of checkpoints and failures; nothing of it decides anything."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._checkpoints, exceptions = (
            msgspec.json.decode(read(name) or b"{}")
            for name in (documents.CHECKPOINTS, documents.EXCEPTIONS)
        )
        self._failures = exceptions.get("exceptionHistory", {"entries": [], "truncated": False})
        lines = self._checkpoints.get("history", ())
        self._history = [line for line in lines if line["status"] in _ENDED]
        """Of checkpoints that had ended, newest first, as far as there is room for them."""
        self._undone = [line["id"] for line in lines if line["status"] not in _ENDED]

    def left_out(self, room: int) -> list[int]:
        """Forgets checkpoints for which there is no room any more; returns their numbers."""
        gone = [line["id"] for line in self._history[max(room, 0) :]] + self._undone
        self._history, self._undone = self._history[: max(room, 0)], []
        return gone

    def with_checkpoints(self, view: dict[str, Any]) -> dict[str, Any]:
        """Returns the document of checkpoints with what came before."""
        before = self._checkpoints.get("counts", {})
        counts = dict(view["counts"])
        for name in _COUNTED:
            counts[name] += before.get(name, 0)
        # What was in progress when the process died has neither completed nor failed.
        counts["total"] += before.get("total", 0) - before.get("in_progress", 0)
        known = self._checkpoints.get("latest", {})
        latest = {
            name: known.get(name) if found is None else found
            for name, found in view["latest"].items()
        }
        history = [*view["history"], *self._history]
        return view | {"counts": counts, "latest": latest, "history": history}

    def with_failures(self, view: dict[str, Any]) -> dict[str, Any]:
        """Returns the document of exceptions with what came before."""
        history, before = view["exceptionHistory"], self._failures
        entries = [*history["entries"], *before["entries"]]
        is_cut = history["truncated"] or before["truncated"] or len(entries) > MOST_FAILURES
        return failure_history(entries[:MOST_FAILURES], truncated=is_cut)
