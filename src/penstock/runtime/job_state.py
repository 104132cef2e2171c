"""The state of the whole job after an epoch: one value, which a checkpoint makes durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.errors import JobExecutionError

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph
    from penstock.runtime.records import SubtaskKey, SubtaskReport, SubtaskVersion
    from penstock.runtime.source_progress import SourceProgress


@dataclass(frozen=True, slots=True)
class JobState:
    """Everything that the next epoch starts from.

    Attributes:
        epoch: Number of the last epoch that counts; 0 before the first.
        versions: State of every subtask.
        sources: Progress of every source, by uid.
        ended: Subtasks whose input has ended.
        next_timers: When subtasks want an epoch without input.
        is_firing: A subtask has event timers left that are due: the next epoch reads nothing.
    """

    epoch: int = 0
    versions: dict[SubtaskKey, SubtaskVersion] = field(default_factory=dict)
    sources: dict[str, SourceProgress] = field(default_factory=dict)
    ended: frozenset[SubtaskKey] = frozenset()
    next_timers: dict[SubtaskKey, int] = field(default_factory=dict)
    is_firing: bool = False

    @property
    def next_timer_ms(self) -> int | None:
        """When the earliest processing timer is due."""
        return min(self.next_timers.values(), default=None)

    def folded(self, graph: JobGraph, reports: list[SubtaskReport]) -> JobState:
        """Returns the state after an epoch whose reports are complete and consistent."""
        versions: dict[SubtaskKey, SubtaskVersion] = {}
        sources = dict(self.sources)
        ended: set[SubtaskKey] = set()
        timers: dict[SubtaskKey, int] = {}
        for report in reports:
            key = report.stage_id, report.subtask
            assert report.version is not None
            versions[key] = report.version
            if report.input_ended:
                ended.add(key)
            if report.next_timer_ms is not None:
                timers[key] = report.next_timer_ms
            stage = graph.stages[report.stage_id]
            if stage.is_source:
                uid = stage.operators[0].uid
                sources[uid] = sources[uid].read(
                    report.subtask, report.positions, report.finished_splits
                )
        is_firing = any(report.is_firing for report in reports)
        return JobState(self.epoch + 1, versions, sources, frozenset(ended), timers, is_firing)


class InconsistentEpoch(JobExecutionError):
    """Two subtasks read different attempts of one upstream task; the epoch must be run again."""


def check_reports(graph: JobGraph, reports: list[SubtaskReport]) -> None:
    """Checks that the reports describe one consistent run.

    Raises:
        InconsistentEpoch: A report is missing, doubled, or was made from another attempt.
    """
    attempts = {(report.stage_id, report.subtask): report.attempt_id for report in reports}
    expected = {(stage.stage_id, i) for stage in graph.stages for i in range(stage.parallelism)}
    if set(attempts) != expected or len(reports) != len(expected):
        missing = sorted(expected - set(attempts))
        raise InconsistentEpoch(
            f"an epoch gave {len(reports)} reports for {len(expected)} subtasks; "
            f"missing: {missing}."
        )
    for report in reports:
        for upstream, attempt in report.consumed.items():
            if attempts[upstream] != attempt:
                raise InconsistentEpoch(
                    f"subtask {report.subtask} of stage {report.stage_id} read attempt {attempt} "
                    f"of stage {upstream[0]}, subtask {upstream[1]}, but attempt "
                    f"{attempts[upstream]} reported."
                )
