"""Runs epochs in this process, level by level, without Spark.

The same subtasks, frames and reports as on Spark, so that tests of behaviour need no JVM. One cache
per partition, as if each had its own worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.runtime.frames import Frame, FrameKind
from penstock.runtime.level_task import (
    SubtaskCache,
    level_partitions,
    read_report,
    run_level_task,
)

if TYPE_CHECKING:
    from penstock.runtime.records import EpochPlan, JobProgram, SubtaskReport


class InProcessRunner:
    """An `EpochRunner` for tests and tools."""

    def __init__(self, program: JobProgram, *, keep_subtasks: bool = True) -> None:
        self._program = program
        self._keep_subtasks = keep_subtasks
        self._cache = SubtaskCache()
        self._attempt = 0

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch."""
        graph = self._program.graph
        if not self._keep_subtasks:
            self._cache.clear()
        incoming: list[list[Frame]] = [[] for _ in level_partitions(graph, 0)]
        for level in range(len(graph.levels)):
            partitions = level_partitions(graph, level)
            last = level + 1 == len(graph.levels)
            width = 1 if last else len(level_partitions(graph, level + 1))
            outgoing: list[list[Frame]] = [[] for _ in range(width)]
            for partition in range(len(partitions)):
                self._attempt += 1
                for target, frame in run_level_task(
                    self._program,
                    plan,
                    level,
                    partition,
                    incoming[partition],
                    self._attempt,
                    self._cache,
                ):
                    outgoing[target].append(frame)
            incoming = outgoing
        return [read_report(frame) for frame in incoming[0] if frame.kind == FrameKind.REPORT]

    def close(self) -> None:
        """Closes all operators."""
        self._cache.clear()
