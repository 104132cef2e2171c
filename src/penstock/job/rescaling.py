"""A job that runs gets another parallelism: it continues from a checkpoint, in another shape.

1. A checkpoint is taken that says what is wanted. From then on it counts: an attempt that restores
   it has the new parallelism, also one in another process.
2. The attempt leaves at the end of its epoch; the next one restores that checkpoint.

With `penstock.scheduler: reactive` the job wants as many subtasks as executors have slots.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.coordination.checkpoints import TriggerRequest
from penstock.core.errors import JobExecutionError, PenstockError
from penstock.core.job import JobStatus
from penstock.graph.job_graph import JobGraph, rescaled, spread
from penstock.job.snapshot import PARALLELISM

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint
    from penstock.graph.nodes import StreamGraph
    from penstock.job.resources import JobResources
    from penstock.job.settings import ReactiveSettings

_log: Final = logging.getLogger("penstock.job")


class SlotFollower:
    """Decides when a job takes the parallelism of its executors. Pure.

    The first change begins the time in which others may follow; all of them cause one rescale.
    """

    def __init__(self, settings: ReactiveSettings) -> None:
        self._settings = settings
        self._changed_ms: int | None = None
        self._rescaled_ms: int | None = None

    def observe(self, slots: int, parallelism: int, now_ms: int) -> int | None:
        """Returns the parallelism to take now; None to stay.

        Args:
            slots: Those that the job can use; 0 while there is no executor.
            parallelism: That of the job.
            now_ms: Of a clock that never goes back.
        """
        if slots in (0, parallelism):
            self._changed_ms = None
            return None
        if self._changed_ms is None:
            self._changed_ms = now_ms
        if now_ms - self._changed_ms < self._settings.stabilization_ms:
            return None
        last_ms = self._rescaled_ms
        if last_ms is not None and now_ms - last_ms < self._settings.cooldown_ms:
            return None
        self._rescaled_ms = now_ms
        return slots


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
        reactive: When to follow the executors; None for never.
    """

    def __init__(
        self, program: StreamGraph, graph: JobGraph, reactive: ReactiveSettings | None = None
    ) -> None:
        self.graph = graph
        """The shape of the attempt that runs, or starts."""
        self._program = program
        self._lock = threading.Lock()
        self._rescale: _Rescale | None = None
        self._follower = None if reactive is None else SlotFollower(reactive)

    def follow_executors(
        self, find_slots: Callable[[], int], now_ms: int, rescale: Callable[[int], Future[int]]
    ) -> None:
        """Has a reactive job rescaled when its executors have changed; called after each epoch."""
        if self._follower is None or self._rescale is not None:
            return
        try:
            stages = self.graph.stages_by_uid
            followers = [stages[uid] for uid in spread(self._program, 1)]
            parallelism = max(stage.parallelism for stage in followers)
            usable = min(find_slots(), *(stage.max_parallelism for stage in followers))
            wanted = self._follower.observe(usable, parallelism, now_ms)
            if wanted is not None:
                _log.info("The executors have %d slots: parallelism is %d.", wanted, parallelism)
                rescale(wanted)
        except PenstockError as error:
            _log.warning("The job does not follow its executors any more: %s", error)
            self._follower = None

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
        job = resources.job
        with self._lock:
            if self._rescale is not None:
                raise JobExecutionError("the job is being rescaled; ask again when it runs.")
            uids = {**job.parallelism, **self._by_uid(wanted)}
            rescale = self._rescale = _Rescale(rescaled(self._program, self.graph, uids))

        def taken(result: Future[CompletedCheckpoint]) -> None:
            error = result.exception()
            if error is None:
                # All checkpoints say so from now on; if this one had failed, none would.
                job.parallelism = uids
                rescale.checkpoint_id = result.result().checkpoint_id
                # The next attempt has the new shape, also if this one fails before it leaves.
                leave()
            else:
                self._rescale = None
                rescale.done.set_exception(error)

        try:
            request = resources.service.request(TriggerRequest(job={PARALLELISM: uids}))
            request.add_done_callback(taken)
        except BaseException:
            self._rescale = None
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
