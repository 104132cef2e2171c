"""The driver's side of the sinks: holds committables and commits them when their epoch counts."""

from __future__ import annotations

from typing import Any

from penstock.connectors.sink import CommitContext, Committer
from penstock.core.clock import Clock
from penstock.graph.job_graph import JobGraph
from penstock.graph.nodes import NodeKind
from penstock.runtime.records import SubtaskReport


class SinkCommits:
    """All committers of a job attempt."""

    def __init__(self, graph: JobGraph, job_id: str, clock: Clock, spark: Any = None) -> None:
        self._job_id = job_id
        self._clock = clock
        self._spark = spark
        self._committers: dict[str, Committer] = {
            operator.uid: operator.spec.sink.create_committer()
            for stage in graph.stages
            for operator in stage.operators
            if operator.kind is NodeKind.SINK
        }
        self.pending: dict[str, list[Any]] = {}
        """Prepared output by uid, in the order of epochs and subtasks."""

    def prepared(self, reports: list[SubtaskReport]) -> None:
        """Takes the committables of an epoch that counts."""
        for report in sorted(reports, key=lambda report: (report.stage_id, report.subtask)):
            for uid, committables in report.committables.items():
                if committables:
                    self.pending.setdefault(uid, []).extend(committables)

    def commit(self, epoch: int, checkpoint_id: int | None = None, *, final: bool = False) -> None:
        """Commits everything pending; a committer without output is told only at the end."""
        for uid, committer in self._committers.items():
            committables = self.pending.get(uid, [])
            if committables or final:
                committer.commit(committables, self._context(uid, epoch, checkpoint_id, final))
            self.pending.pop(uid, None)

    def abort(self, reports: list[SubtaskReport], epoch: int) -> None:
        """Removes the output of an epoch that does not count."""
        for report in reports:
            for uid, committables in report.committables.items():
                if committables:
                    context = self._context(uid, epoch, None, final=False)
                    self._committers[uid].abort(committables, context)

    def close(self) -> None:
        for committer in self._committers.values():
            committer.close()

    def _context(
        self, uid: str, epoch: int, checkpoint_id: int | None, final: bool
    ) -> CommitContext:
        return CommitContext(
            job_id=self._job_id,
            uid=uid,
            epoch=epoch,
            checkpoint_id=checkpoint_id,
            final=final,
            now_ms=self._clock.wall_ms(),
            spark=self._spark,
        )
