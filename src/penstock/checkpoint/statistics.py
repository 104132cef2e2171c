"""History and figures of a job's checkpoints, told by the coordinator's facts; plain data.

REST, metrics and the command line read it. Nothing depends on it: it may forget, never decide.
Times are wall time, because people compare them with their clocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.coordination import facts
from penstock.checkpoint.coordination.checkpoints import SnapshotKind
from penstock.checkpoint.figures import (
    CheckpointFigures,
    Series,
    SubtaskFigures,
    Summary,
    TaskFigures,
)

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.instructions import Upload
    from penstock.checkpoint.manifest import StoredHandle
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.core.times import Clock


IN_PROGRESS: Final = "IN_PROGRESS"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One line of the history."""

    checkpoint_id: int
    status: str  # IN_PROGRESS, COMPLETED or FAILED.
    kind: SnapshotKind
    savepoint_format: str | None  # Format of a savepoint, else None.
    is_periodic: bool  # Whether the schedule triggered it, not a user.
    triggered_ms: int  # Wall time of the trigger.
    duration_ms: int = 0  # From trigger to the end, or so far.
    # Wall time of the last acknowledgement; None before the first.
    latest_ack_ms: int | None = None
    num_subtasks: int = 0  # Subtasks that take part.
    num_acknowledged: int = 0  # Subtasks that have acknowledged.
    figures: CheckpointFigures = field(default=CheckpointFigures(), repr=False)
    epoch: int = 0  # Epoch whose end it holds; 0 before it is known.
    location: str = ""  # Where a completed one is.
    is_discarded: bool = False  # Whether it was deleted since.
    failed_ms: int | None = None  # Wall time of the failure.
    failure_reason: str | None = None  # Flink's name for it.
    failure_message: str | None = None  # What people read.

    @property
    def is_savepoint(self) -> bool:
        return self.kind is SnapshotKind.SAVEPOINT

    @property
    def ended_ms(self) -> int:
        """Wall time of the end, or of now."""
        return self.triggered_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class RestoredRecord:
    """What the running attempt started from."""

    checkpoint_id: int
    restored_ms: int
    is_savepoint: bool
    location: str


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """How many there were."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Latest:
    """The last of each kind; `completed` is never a savepoint."""

    completed: CheckpointRecord | None = None
    savepoint: CheckpointRecord | None = None
    failed: CheckpointRecord | None = None
    restored: RestoredRecord | None = None


class CheckpointStatistics:
    """Takes in facts and answers questions.

    Args:
        history_size: Finished checkpoints to remember; those in progress are always kept.
        num_subtasks: Subtasks of the job.
    """

    def __init__(self, history_size: int = 10, num_subtasks: int = 0) -> None:
        self._history_size = history_size
        self._num_subtasks = num_subtasks
        self._records: dict[int, CheckpointRecord] = {}
        names = "checkpointed_size", "state_size", "end_to_end_duration"
        self._series = {name: Series() for name in names}
        self.counts = CheckpointCounts()
        self.latest = Latest()
        self.revision = 0
        """Rises with every fact, so that readers see at a glance whether anything has changed."""
        self.declined: dict[str, int] = {}
        """Requests that failed before they got an id, by reason."""

    def apply(self, fact: facts.Fact, wall_ms: int) -> None:
        """Takes in a fact.

        Args:
            fact: What the coordinator announced.
            wall_ms: Wall time of the announcement.
        """
        step = _STEPS.get(type(fact))
        if step is not None:
            step(self, fact, wall_ms)
            self.revision += 1

    def history(self) -> list[CheckpointRecord]:
        """Returns the remembered checkpoints, newest first."""
        # By sorted numbers, not by a key function: the history may be long, and is asked for often.
        records = dict(self._records)
        return [records[number] for number in sorted(records, reverse=True)]

    def find(self, checkpoint_id: int) -> CheckpointRecord | None:
        """Returns a checkpoint, if it is still remembered."""
        return self._records.get(checkpoint_id)

    def summary(self) -> dict[str, Summary]:
        """Returns the figures over all completed checkpoints and savepoints, by Flink's names."""
        return {name: series.summary() for name, series in self._series.items()}

    # -- one function per fact ----------------------------------------------------------------

    def _triggered(self, fact: facts.CheckpointTriggered, wall_ms: int) -> None:
        request = fact.request
        is_savepoint = request.kind is SnapshotKind.SAVEPOINT
        self._records[fact.checkpoint_id] = CheckpointRecord(
            fact.checkpoint_id,
            IN_PROGRESS,
            request.kind,
            request.format.value if is_savepoint else None,
            request.is_periodic,
            wall_ms,
            num_subtasks=self._num_subtasks,
        )
        counts = self.counts
        self.counts = replace(counts, total=counts.total + 1, in_progress=counts.in_progress + 1)

    def _uploaded(self, fact: facts.CheckpointUploaded, _wall_ms: int) -> None:
        record = self._records.get(fact.checkpoint_id)
        if record is None:
            return
        subtasks = [row for task in fact.figures.tasks for row in task.subtasks]
        self._records[fact.checkpoint_id] = replace(
            record,
            figures=fact.figures,
            num_acknowledged=len(subtasks),
            num_subtasks=max(record.num_subtasks, len(subtasks)),
            latest_ack_ms=max((row.acknowledged_ms for row in subtasks), default=None),
        )

    def _completed(self, fact: facts.CheckpointCompleted, _wall_ms: int) -> None:
        record = self._records.get(fact.checkpoint_id)
        if record is None:
            return
        done = replace(
            record,
            status=COMPLETED,
            duration_ms=fact.duration_ms,
            figures=fact.figures,
            epoch=fact.epoch,
            location=fact.location,
            num_acknowledged=record.num_subtasks,
        )
        counts = self.counts
        self.counts = replace(
            counts, in_progress=counts.in_progress - 1, completed=counts.completed + 1
        )
        self._series["checkpointed_size"].add(fact.figures.checkpointed_bytes)
        self._series["state_size"].add(fact.figures.state_bytes)
        self._series["end_to_end_duration"].add(fact.duration_ms)
        if done.is_savepoint:
            self.latest = replace(self.latest, savepoint=done)
        else:
            self.latest = replace(self.latest, completed=done)
        self._finish(done)

    def _failed(self, fact: facts.CheckpointFailed, wall_ms: int) -> None:
        record = self._records.get(fact.checkpoint_id)
        if record is None:
            return
        failed = replace(
            record,
            status=FAILED,
            duration_ms=fact.duration_ms,
            failed_ms=wall_ms,
            failure_reason=fact.failure.reason.name,
            failure_message=fact.failure.message or fact.failure.reason.value,
        )
        counts = self.counts
        self.counts = replace(counts, in_progress=counts.in_progress - 1, failed=counts.failed + 1)
        self.latest = replace(self.latest, failed=failed)
        self._finish(failed)

    def _finish(self, record: CheckpointRecord) -> None:
        self._records[record.checkpoint_id] = record
        finished = [id_ for id_, each in self._records.items() if each.status != IN_PROGRESS]
        for checkpoint_id in sorted(finished)[: max(len(finished) - self._history_size, 0)]:
            del self._records[checkpoint_id]

    def _discarded(self, fact: facts.CheckpointDiscarded, _wall_ms: int) -> None:
        record = self._records.get(fact.checkpoint_id)
        if record is not None:
            self._records[fact.checkpoint_id] = replace(record, is_discarded=True)
        newest = self.latest.completed
        if newest is not None and newest.checkpoint_id == fact.checkpoint_id:
            self.latest = replace(self.latest, completed=replace(newest, is_discarded=True))

    def _restored(self, fact: facts.CheckpointRestored, wall_ms: int) -> None:
        self.counts = replace(self.counts, restored=self.counts.restored + 1)
        is_savepoint = fact.kind is SnapshotKind.SAVEPOINT
        restored = RestoredRecord(fact.checkpoint_id, wall_ms, is_savepoint, fact.location)
        self.latest = replace(self.latest, restored=restored)

    def _declined(self, fact: facts.TriggerDeclined, _wall_ms: int) -> None:
        name = fact.failure.reason.name
        self.declined[name] = self.declined.get(name, 0) + 1


_STEPS: Final[dict[type, Callable[[CheckpointStatistics, Any, int], None]]] = {
    facts.CheckpointTriggered: CheckpointStatistics._triggered,
    facts.CheckpointUploaded: CheckpointStatistics._uploaded,
    facts.CheckpointCompleted: CheckpointStatistics._completed,
    facts.CheckpointFailed: CheckpointStatistics._failed,
    facts.CheckpointDiscarded: CheckpointStatistics._discarded,
    facts.CheckpointRestored: CheckpointStatistics._restored,
    facts.TriggerDeclined: CheckpointStatistics._declined,
}


# -- what a checkpoint took, task by task ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskShape:
    """A task of the job: which operators it has, and how many subtasks."""

    task_id: str
    stage_id: int
    name: str  # For people.
    parallelism: int
    uids: tuple[str, ...]  # Its operators.


@dataclass(frozen=True, slots=True)
class SnapshotTimes:
    """When the steps of a checkpoint were, in wall time."""

    triggered_ms: int
    ended_ms: int  # End of the epoch that it holds.
    uploaded_ms: int  # All files were safe.
    # How long subtasks took to flush their state in that epoch, by stage and index.
    flush_ms: Mapping[tuple[int, int], float] = field(default_factory=dict)


def figures_of(
    tasks: Iterable[TaskShape],
    instruction: Upload,
    plan: UploadPlan,
    triggered_ms: int | None,
    now_ms: int,
) -> CheckpointFigures:
    """All files are safe: returns the figures, with those of each task.

        trigger ── start delay ──> end of the epoch ── async ──> acknowledged
                                    (sync: flush inside it)

    A subtask has acknowledged when all its bytes are safe: at once if none of them needed a file.
    """
    epoch = instruction.snapshot.times
    ended_ms, flush_ms = (now_ms, {}) if epoch is None else (epoch.ended_ms, epoch.flush_ms)
    times = SnapshotTimes(
        ended_ms if triggered_ms is None else triggered_ms, ended_ms, now_ms, flush_ms
    )
    return replace(plan.figures, tasks=task_figures(tasks, plan, instruction.checkpoint_id, times))


def task_figures(
    tasks: Iterable[TaskShape], plan: UploadPlan, checkpoint_id: int, times: SnapshotTimes
) -> tuple[TaskFigures, ...]:
    """Returns the figures of every task of a job."""
    handles = {
        operator.uid: [tuple(subtask.handles) for subtask in operator.subtasks]
        for operator in plan.operators
    }
    return tuple(
        TaskFigures(
            task.task_id,
            task.name,
            tuple(
                _subtask(task, index, handles, checkpoint_id, times)
                for index in range(task.parallelism)
            ),
        )
        for task in tasks
    )


def _subtask(
    task: TaskShape,
    index: int,
    handles: Mapping[str, list[tuple[StoredHandle, ...]]],
    checkpoint_id: int,
    times: SnapshotTimes,
) -> SubtaskFigures:
    nothing: list[tuple[StoredHandle, ...]] = [()] * task.parallelism
    own = [handle for uid in task.uids for handle in handles.get(uid, nothing)[index]]
    new = [each for each in own if each.inline is not None or each.created_by == checkpoint_id]
    has_files = any(each.inline is None for each in new)
    # Clocks that are set back must not make a time negative.
    ended_ms = max(times.ended_ms, times.triggered_ms)
    acknowledged_ms = max(times.uploaded_ms, ended_ms) if has_files else ended_ms
    return SubtaskFigures(
        subtask=index,
        acknowledged_ms=acknowledged_ms,
        end_to_end_ms=acknowledged_ms - times.triggered_ms,
        sync_ms=round(times.flush_ms.get((task.stage_id, index), 0.0)),
        async_ms=acknowledged_ms - ended_ms,
        start_delay_ms=ended_ms - times.triggered_ms,
        checkpointed_bytes=sum(each.size_bytes for each in new),
        state_bytes=sum(each.size_bytes for each in own),
    )


_log = logging.getLogger("penstock.checkpoint")


class CheckpointJournal:
    """Takes in the coordinator's facts."""

    def __init__(self, job_id: str, clock: Clock, history_size: int, num_subtasks: int) -> None:
        self._job_id = job_id
        self._clock = clock
        self.statistics = CheckpointStatistics(history_size, num_subtasks)
        self.listener: Callable[[facts.Fact], None] | None = None
        self._refusal = ""
        """Why sinks did not commit, when this was said last."""

    def note(self, fact: facts.Fact) -> None:
        now_ms = self._clock.wall_ms()
        self.statistics.apply(fact, now_ms)
        line = self._line(fact, now_ms)
        if line is not None:
            _log.log(*line)
        if self.listener is not None:
            self.listener(fact)

    def _line(  # noqa: PLR0911 - one text for each kind of fact
        self, fact: facts.Fact, now_ms: int
    ) -> tuple[int, str] | None:
        match fact:
            case facts.CheckpointTriggered():
                # The first words are Flink's: dashboards and scripts look for them.
                return logging.INFO, (
                    f"Triggering checkpoint {fact.checkpoint_id} (type={fact.request.kind.value}) "
                    f"@ {now_ms} for job {self._job_id}."
                )
            case facts.CheckpointCompleted():
                return logging.INFO, (
                    f"Completed checkpoint {fact.checkpoint_id} for job {self._job_id} "
                    f"({fact.figures.checkpointed_bytes} bytes, "
                    f"checkpointDuration={fact.duration_ms} ms, "
                    f"finalizationTime={fact.finalization_ms} ms)."
                )
            case facts.CheckpointFailed():
                follows = fact.failure.reason in facts.CONSEQUENCES
                level = logging.INFO if follows else logging.WARNING
                return level, f"Checkpoint {fact.checkpoint_id} failed: {fact.failure}"
            case facts.CheckpointRestored():
                return logging.INFO, (
                    f"Job {self._job_id} starts from {fact.kind.value.lower()} "
                    f"{fact.checkpoint_id} in {fact.location}."
                )
            case facts.TriggerDeclined():
                return logging.INFO, f"A checkpoint was not triggered: {fact.failure}"
            case facts.SinkCommitDelayed():
                level = logging.INFO if fact.message == self._refusal else logging.WARNING
                self._refusal = fact.message
                return level, (
                    f"Sinks did not commit checkpoint {fact.checkpoint_id}; it is tried again: "
                    f"{fact.message}"
                )
            case facts.CleanupFailed():
                return logging.WARNING, (
                    f"Files of checkpoint {fact.checkpoint_id} were not deleted: {fact.message}"
                )
            case facts.LateAnswerDropped():
                return logging.INFO, (
                    f"A late answer ({fact.answer}) for checkpoint {fact.checkpoint_id} is dropped."
                )
        return None
