"""What each subtask contributed to a checkpoint: sizes from the plan, times from those who worked.

    trigger ── start delay ──> end of the epoch ── async ──> acknowledged
                                (sync: flush inside it)

A subtask has acknowledged when all its bytes are safe: at once if none of them needed a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.checkpoint.figures import CheckpointFigures, SubtaskFigures, TaskFigures
from penstock.checkpoint.savepoints.writer import UploadedSavepoint
from penstock.runtime.records import EpochTimes

if TYPE_CHECKING:
    from penstock.checkpoint.coordination import instructions
    from penstock.checkpoint.manifest import StoredHandle
    from penstock.checkpoint.statistics import CheckpointStatistics
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.core.clock import Clock
    from penstock.graph.job_graph import JobGraph, Stage


@dataclass(frozen=True, slots=True)
class SnapshotTimes:
    """When the steps of a checkpoint were, in wall time."""

    triggered_ms: int
    epoch: EpochTimes  # The end of the epoch that it holds, and the flushes in it.
    uploaded_ms: int  # All files were safe.


class TaskFigureBook:
    """Says what checkpoints took, in all and task by task.

    Args:
        graph: Which operators are in which task.
        clock: Says when.
        statistics: Knows when checkpoints were triggered.
    """

    def __init__(self, graph: JobGraph, clock: Clock, statistics: CheckpointStatistics) -> None:
        self._graph = graph
        self._clock = clock
        self._statistics = statistics

    def figures(
        self, wish: instructions.Upload, uploaded: UploadPlan | UploadedSavepoint
    ) -> CheckpointFigures:
        """All files are safe: returns the figures, with those of each task."""
        plan = uploaded.plan if isinstance(uploaded, UploadedSavepoint) else uploaded
        now_ms = self._clock.wall_ms()
        epoch = wish.snapshot.times or EpochTimes(now_ms)
        record = self._statistics.find(wish.checkpoint_id)
        triggered_ms = epoch.ended_ms if record is None else record.triggered_ms
        times = SnapshotTimes(triggered_ms, epoch, now_ms)
        tasks = task_figures(self._graph, plan, wish.checkpoint_id, times)
        return replace(plan.figures, tasks=tasks)


def task_figures(
    graph: JobGraph, plan: UploadPlan, checkpoint_id: int, times: SnapshotTimes
) -> tuple[TaskFigures, ...]:
    """Returns the figures of every task of a job."""
    handles = {
        operator.uid: [tuple(subtask.handles) for subtask in operator.subtasks]
        for operator in plan.operators
    }
    return tuple(
        TaskFigures(
            stage.vertex_id,
            stage.name,
            tuple(
                _subtask(stage, index, handles, checkpoint_id, times)
                for index in range(stage.parallelism)
            ),
        )
        for stage in graph.stages
    )


def _subtask(
    stage: Stage,
    index: int,
    handles: Mapping[str, list[tuple[StoredHandle, ...]]],
    checkpoint_id: int,
    times: SnapshotTimes,
) -> SubtaskFigures:
    nothing: list[tuple[StoredHandle, ...]] = [()] * stage.parallelism
    own = [
        handle
        for operator in stage.operators
        for handle in handles.get(operator.uid, nothing)[index]
    ]
    new = [each for each in own if each.inline is not None or each.created_by == checkpoint_id]
    has_files = any(each.inline is None for each in new)
    # Clocks that are set back must not make a time negative.
    ended_ms = max(times.epoch.ended_ms, times.triggered_ms)
    acknowledged_ms = max(times.uploaded_ms, ended_ms) if has_files else ended_ms
    return SubtaskFigures(
        subtask=index,
        acknowledged_ms=acknowledged_ms,
        end_to_end_ms=acknowledged_ms - times.triggered_ms,
        sync_ms=round(times.epoch.flush_ms.get((stage.stage_id, index), 0.0)),
        async_ms=acknowledged_ms - ended_ms,
        start_delay_ms=ended_ms - times.triggered_ms,
        checkpointed_bytes=sum(each.size_bytes for each in new),
        state_bytes=sum(each.size_bytes for each in own),
    )
