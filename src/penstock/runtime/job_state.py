"""The state of the whole job after an epoch, how far its sources are, and what an epoch tells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import READ_RECORDS
from penstock.core.errors import JobExecutionError
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, saturating_add

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.source import Discovery, Split
    from penstock.graph.job_graph import JobGraph
    from penstock.runtime.records import SubtaskKey, SubtaskReport, SubtaskVersion

# The driver's view of one source: splits found, who reads them, and how far they got.
#
# A value with pure transitions; the driver keeps one per source and writes it into checkpoints by
# uid. Splits that are worked off one after the other are handed out as subtasks become free, so
# that fast subtasks take more: two ahead at first, more while subtasks run dry within an epoch
# (many small splits), fewer again when they are large. Concurrent splits are dealt out at once.


_LEAST_AHEAD: Final = 2
_MOST_AHEAD: Final = 1024


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """Progress of one source.

    Attributes:
        state: What `Source.discover` wants back.
        complete: No further split will be found.
        waiting: Splits that no subtask reads yet, in reading order.
        assigned: By subtask: its unfinished splits.
        positions: By split id of assigned splits.
        finished: Number of splits that ended.
        next_owner: Subtask that gets the next concurrent split.
        ahead: How many unfinished splits a subtask is given.
        resumed: By split id of waiting splits that were begun before a restore: where to go on.
    """

    state: Any = None
    complete: bool = False
    waiting: tuple[Split, ...] = ()
    assigned: dict[int, tuple[Split, ...]] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)
    finished: int = 0
    next_owner: int = 0
    ahead: int = _LEAST_AHEAD
    resumed: dict[str, Any] = field(default_factory=dict)

    def discovered(self, discovery: Discovery) -> SourceProgress:
        """Takes new splits."""
        return replace(
            self,
            state=discovery.state,
            complete=discovery.complete,
            waiting=self.waiting + discovery.splits,
        )

    def dealt(self, parallelism: int) -> SourceProgress:
        """Hands waiting splits out."""
        if not self.waiting:
            return self
        assigned = {index: self.assigned.get(index, ()) for index in range(parallelism)}
        positions = dict(self.positions)
        owner = self.next_owner
        rest: list[Split] = []
        for split in self.waiting:
            if split.concurrent:
                chosen = owner % parallelism
                owner += 1
            else:
                chosen = min(assigned, key=lambda index: (len(assigned[index]), index))
                if len(assigned[chosen]) >= self.ahead:
                    rest.append(split)
                    continue
            assigned[chosen] = (*assigned[chosen], split)
            positions[split.split_id] = self.resumed.get(split.split_id, split.start)
        return replace(
            self, waiting=tuple(rest), assigned=assigned, positions=positions, next_owner=owner
        )

    def read(self, subtask: int, positions: dict[str, Any], finished: list[str]) -> SourceProgress:
        """Takes what one subtask reported."""
        known = {split.split_id for split in self.assigned.get(subtask, ())}
        unknown = set(positions) - known
        if unknown:
            raise JobExecutionError(f"subtask {subtask} read splits it was not given: {unknown}.")
        done = set(finished)
        merged = {**self.positions, **positions}
        for split_id in done:
            merged.pop(split_id, None)
        given = self.assigned.get(subtask, ())
        left = tuple(split for split in given if split.split_id not in done)
        ahead = self.ahead
        if done and not left:
            ahead = min(ahead * 2, _MOST_AHEAD)
        elif len(left) * 2 > ahead:
            ahead = max(ahead // 2, _LEAST_AHEAD)
        return replace(
            self,
            ahead=ahead,
            assigned={**self.assigned, subtask: left},
            positions=merged,
            finished=self.finished + len(done),
        )

    @property
    def is_unread(self) -> bool:
        """Whether some of what was found has not been read to its end."""
        return bool(self.waiting) or any(self.assigned.values())

    def is_last_for(self, subtask: int) -> bool:
        """Whether nothing can follow the splits that the subtask has now."""
        return self.complete and not self.waiting

    def splits_of(self, subtask: int) -> tuple[tuple[Split, Any], ...]:
        """Returns unfinished splits of a subtask with their positions."""
        return tuple(
            (split, self.positions[split.split_id]) for split in self.assigned.get(subtask, ())
        )


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.graph.job_graph import JobGraph
    from penstock.operators.watermark_strategy import WatermarkAlignment
    from penstock.runtime.records import SubtaskReport

    Progress = Mapping[str, SourceProgress]


# What watermarks wait for: splits for those of their group, and for the end of a micro-batch.
#
# Watermark alignment: splits of a group wait for the slowest, so that none runs far ahead.
#
# The driver hears the watermark of every split with the reports of an epoch. The next epoch does
# not read those that are more than the allowed drift ahead of their group's minimum, and reads
# others until they are: a split overshoots by one read at most. An idle split holds no other back,
# one without a watermark yet holds all others back: as in Flink, `with_idleness` is for
# those.

Splits = dict[str, int | None]
"""Watermark by split id; None for idle ones."""


class SplitAlignment:
    """How far the splits of aligned sources are, in one attempt of a job.

    What a restart forgets is known again after one epoch.
    """

    def __init__(self, graph: JobGraph) -> None:
        self._alignments: dict[str, WatermarkAlignment] = {}
        self._uids: dict[int, str] = {}
        for stage in graph.stages:
            if stage.is_source:
                head = stage.operators[0]
                alignment = getattr(head.spec.strategy, "alignment", None)
                if alignment is not None:
                    self._alignments[head.uid] = alignment
                    self._uids[stage.stage_id] = head.uid
        self._splits: dict[tuple[str, int], Splits] = {}

    def heard(self, reports: Iterable[SubtaskReport]) -> None:
        """Takes the reports of an epoch that counts."""
        for report in reports:
            uid = self._uids.get(report.stage_id)
            if uid is not None:
                self._splits[uid, report.subtask] = report.split_watermarks

    def paused(self, uid: str) -> frozenset[str]:
        """Returns the splits of a source that are not to be read now."""
        limit = self.limit(uid)
        if limit is None:
            return frozenset()
        return frozenset(
            split
            for (other, _), splits in self._splits.items()
            if other == uid
            for split, watermark in splits.items()
            if watermark is not None and watermark > limit
        )

    def limit(self, uid: str) -> int | None:
        """Returns the watermark beyond which no split of a source is to be read on."""
        alignment = self._alignments.get(uid)
        if alignment is None:
            return None
        if not self._splits:
            # There is no watermark yet: each split begins with its own.
            return MIN_WATERMARK
        return saturating_add(self._lowest(alignment.group), alignment.max_drift_ms)

    def _lowest(self, group: str) -> int:
        return min(
            (
                watermark
                for (uid, _), splits in self._splits.items()
                if self._alignments[uid].group == group
                for watermark in splits.values()
                if watermark is not None
            ),
            default=MAX_WATERMARK,
        )


class FirstRead:
    """Whether a job is still in its first read, which the small first bounds of epochs cut.

    What is late must not depend on that: watermarks wait for the end of the read, as they do for
    that of a micro-batch. They do not wait for slow functions, whose epochs stay small.

    Args:
        graph: Of the job.
        is_over: Whether there is none: the job goes on, or its user bounds epochs.

    """

    def __init__(self, graph: JobGraph, *, is_over: bool) -> None:
        operators = [operator.spec for stage in graph.stages for operator in stage.operators]
        strategies = [getattr(spec, "strategy", None) for spec in operators]
        # Generators may emit behind any record, and what is late follows from that.
        asks = any(getattr(each, "generator_factory", None) is not None for each in strategies)
        sources = [stage.operators[0].spec.source for stage in graph.stages if stage.is_source]
        emits = any(each.emits_watermarks or each.has_micro_batches for each in sources)
        self._is_over = is_over or asks or emits
        self._epochs = self._records = 0

    def is_cut_by(self, bound: int) -> bool:
        """Returns whether watermarks wait in an epoch of at most so many records."""
        return not self._is_over and self._records + bound < READ_RECORDS

    def epoch_counts(self, records: int, *, backlog: bool) -> None:
        """Hears what an epoch read."""
        self._epochs += records > 0
        self._records += records
        # The input may end where the bound does, which only the next epoch shows.
        is_whole = self._records > 0 and not backlog
        self._is_over = self._is_over or self._epochs == _FIRST_EPOCHS or is_whole


_FIRST_EPOCHS: Final = 4
"""So many grow to a read, if functions are fast: 4, 64, 1,024 and 16,384 records."""


class MicroBatches:
    """Which stages are inside a micro-batch of their sources, in one attempt of a job."""

    def __init__(self, graph: JobGraph) -> None:
        self._sources_of: dict[int, frozenset[str]] = {}
        """The sources with micro-batches that a stage reads, near or far."""
        for stage in graph.stages:
            found = {
                uid
                for edge in graph.inputs_of(stage)
                for uid in self._sources_of[edge.source_stage]
            }
            head = stage.operators[0]
            if stage.is_source and head.spec.source.has_micro_batches:
                found.add(head.uid)
            self._sources_of[stage.stage_id] = frozenset(found)
        self._began: set[str] = set()

    def discovered(self, before: Progress, after: Progress) -> None:
        """Takes what a search for splits changed."""
        for uid in frozenset().union(*self._sources_of.values()):
            if after[uid].is_unread and not before[uid].is_unread:
                self._began.add(uid)

    def epoch_counts(self) -> None:
        """What has begun is under way."""
        self._began.clear()

    def place(self, stage_id: int, sources: Progress) -> tuple[bool, bool]:
        """Returns whether the next epoch begins a micro-batch for a stage, and if it reads one."""
        unread = {uid for uid in self._sources_of[stage_id] if sources[uid].is_unread}
        return unread <= self._began, bool(unread)


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


@dataclass(frozen=True, slots=True)
class EpochSummary:
    """What listeners are told after each epoch.

    Attributes:
        epoch: Its number.
        duration_ms: From planning to the commit of the sinks.
        records_read: Over all sources.
        backlog: Whether more could have been read.
        reports: The reports themselves.
        phases_ms: What the duration is made of: `plan`, `run` (on the engine, tries in vain
            included), `fold` and `commit`.
    """

    epoch: int
    duration_ms: int
    records_read: int
    backlog: bool
    reports: list[SubtaskReport] = field(repr=False)
    phases_ms: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunningEpoch:
    """An epoch under way."""

    epoch: int
    started_ms: int  # Wall time.
    ran_ms: Callable[[], int]  # How long it has run by now.
