"""A job that runs gets another parallelism: it continues from a checkpoint, in another shape.

1. A checkpoint is taken that says what is wanted. From then on it counts: an attempt that restores
   it has the new parallelism, also one in another process.
2. The attempt leaves at the end of its epoch; the next one restores that checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.errors import JobExecutionError
from penstock.core.job import JobStatus
from penstock.graph.job_graph import rescaled, spread

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint
    from penstock.graph.job_graph import JobGraph
    from penstock.graph.nodes import StreamGraph
    from penstock.job.resources import JobResources


class RescaledError(Exception):
    """The attempt has ended for one with other parallelisms: no failure."""


@dataclass
class _Rescale:
    """A change under way."""

    graph: JobGraph
    done: Future[int] = field(default_factory=Future)
    checkpoint_id: int | None = None  # Once it is complete.


class Rescaling:
    """The parallelism of one job, as its program and its operators want it.

    Args:
        program: As its author wrote it.
        graph: As it was compiled.
    """

    def __init__(self, program: StreamGraph, graph: JobGraph) -> None:
        self.graph = graph
        """The shape of the attempt that runs, or starts."""
        self._program = program
        self._lock = threading.Lock()
        self._rescale: _Rescale | None = None

    def restored(self, wanted: dict[str, int]) -> JobGraph:
        """Takes the shape that a checkpoint of the job wants."""
        self.graph = rescaled(self._program, self.graph, wanted)
        return self.graph

    def begin(
        self, wanted: int | Mapping[str, int], resources: JobResources, leave: Callable[[], None]
    ) -> Future[int]:
        """Has a checkpoint taken, and then the attempt leave.

        Returns:
            A future of the number of the checkpoint; it comes when the job runs again.

        Raises:
            JobExecutionError: The job is being rescaled, or has no such vertex.
            ProgramError: Operators cannot have that parallelism.
        """
        job, before = resources.job, resources.job.parallelism
        with self._lock:
            if self._rescale is not None:
                raise JobExecutionError("the job is being rescaled; ask again when it runs.")
            uids = {**before, **self._by_uid(wanted)}
            rescale = self._rescale = _Rescale(rescaled(self._program, self.graph, uids))
        job.parallelism = uids

        def taken(result: Future[CompletedCheckpoint]) -> None:
            error = result.exception()
            if error is None:
                rescale.checkpoint_id = result.result().checkpoint_id
                # The next attempt has the new shape, also if this one fails before it leaves.
                leave()
            else:
                job.parallelism, self._rescale = before, None
                rescale.done.set_exception(error)

        try:
            resources.service.request_checkpoint().add_done_callback(taken)
        except BaseException:
            job.parallelism, self._rescale = before, None
            raise
        return rescale.done

    def take(self) -> JobGraph | None:
        """Returns the shape of the attempt that starts now, if a checkpoint wants another one."""
        rescale = self._rescale
        if rescale is None or rescale.checkpoint_id is None:
            return None
        self.graph = rescale.graph
        return self.graph

    def status_is(self, status: JobStatus) -> None:
        """Answers those who asked: the job runs in its new shape, or has ended."""
        rescale = self._rescale
        if rescale is None:
            return
        if status is JobStatus.RUNNING:
            if rescale.graph is self.graph:
                self._rescale = None
                rescale.done.set_result(rescale.checkpoint_id or 0)
        elif not rescale.done.done():
            self._rescale = None
            rescale.done.set_exception(
                JobExecutionError(f"the job is {status.name}; it was not rescaled.")
            )

    def _by_uid(self, wanted: int | Mapping[str, int]) -> dict[str, int]:
        if isinstance(wanted, int):
            return spread(self._program, wanted)
        stages = {stage.vertex_id: stage for stage in self.graph.stages}
        unknown = sorted(set(wanted) - set(stages))
        if unknown:
            raise JobExecutionError(
                f"the job has no vertex {unknown[0]}; it has {', '.join(stages)}."
            )
        return {
            operator.uid: parallelism
            for vertex, parallelism in wanted.items()
            for operator in stages[vertex].operators
        }
