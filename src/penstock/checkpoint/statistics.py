"""History and figures of a job's checkpoints, told by what passes the coordinator; plain data.

REST, metrics and the command line read it. Nothing depends on it: it may forget, never decide.
Times are wall time, because people compare them with their clocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import CONSEQUENCES, SnapshotKind
from penstock.checkpoint.figures import (
    CheckpointFigures,
    Series,
    SubtaskFigures,
    Summary,
    TaskFigures,
)
from penstock.core.fault_points import fault_span

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, PendingCheckpoint
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
    """Takes in what passes the coordinator, and answers questions.

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
        """Rises with every change, so that readers see at a glance whether there was any."""
        self.declined: dict[str, int] = {}
        """Requests that failed before they got an id, by reason."""

    def apply(
        self, said: events.Event | instructions.Instruction, wall_ms: int
    ) -> CheckpointRecord | None:
        """Takes in an event or an instruction; most say nothing new.

        Args:
            said: What the coordinator was told, or has said.
            wall_ms: Wall time of that.

        Returns:
            The checkpoint that it has ended, if any.
        """
        ended = None
        match said:
            case instructions.RequestSnapshot():
                self._triggered(said, wall_ms)
            case instructions.WriteMetadata(pending):
                self._uploaded(pending)
            case instructions.NotifyCompleted():
                ended = self._completed(said)
            case instructions.NotifyAborted():
                ended = self._failed(said, wall_ms)
            case instructions.DeleteCheckpoint(checkpoint):
                self._discarded(checkpoint.checkpoint_id)
            case events.Restored((*_, start)) | instructions.Recover(start) if start is not None:
                self._restored(start, wall_ms)
            case instructions.DeclineTrigger(_, failure):
                name = failure.reason.name
                self.declined[name] = self.declined.get(name, 0) + 1
            case _:
                return None
        self.revision += 1
        return ended

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

    # -- one function for each step of a checkpoint -------------------------------------------

    def _triggered(self, said: instructions.RequestSnapshot, wall_ms: int) -> None:
        request = said.request
        is_savepoint = request.kind is SnapshotKind.SAVEPOINT
        self._records[said.checkpoint_id] = CheckpointRecord(
            said.checkpoint_id,
            IN_PROGRESS,
            request.kind,
            request.format.value if is_savepoint else None,
            request.is_periodic,
            wall_ms,
            num_subtasks=self._num_subtasks,
        )
        counts = self.counts
        self.counts = replace(counts, total=counts.total + 1, in_progress=counts.in_progress + 1)

    def _uploaded(self, pending: PendingCheckpoint) -> None:
        record = self._records.get(pending.checkpoint_id)
        if record is None:
            return
        subtasks = [row for task in pending.figures.tasks for row in task.subtasks]
        self._records[pending.checkpoint_id] = replace(
            record,
            figures=pending.figures,
            num_acknowledged=len(subtasks),
            num_subtasks=max(record.num_subtasks, len(subtasks)),
            latest_ack_ms=max((row.acknowledged_ms for row in subtasks), default=None),
        )

    def _completed(self, said: instructions.NotifyCompleted) -> CheckpointRecord | None:
        pending = said.checkpoint
        record = self._records.get(pending.checkpoint_id)
        if record is None:
            return None
        done = replace(
            record,
            status=COMPLETED,
            duration_ms=said.duration_ms,
            figures=pending.figures,
            epoch=pending.epoch,
            location=pending.location,
            num_acknowledged=record.num_subtasks,
        )
        counts = self.counts
        self.counts = replace(
            counts, in_progress=counts.in_progress - 1, completed=counts.completed + 1
        )
        self._series["checkpointed_size"].add(pending.figures.checkpointed_bytes)
        self._series["state_size"].add(pending.figures.state_bytes)
        self._series["end_to_end_duration"].add(said.duration_ms)
        if done.is_savepoint:
            self.latest = replace(self.latest, savepoint=done)
        else:
            self.latest = replace(self.latest, completed=done)
        return self._finish(done)

    def _failed(self, said: instructions.NotifyAborted, wall_ms: int) -> CheckpointRecord | None:
        record = self._records.get(said.checkpoint_id)
        if record is None:
            return None
        failed = replace(
            record,
            status=FAILED,
            duration_ms=said.duration_ms,
            failed_ms=wall_ms,
            failure_reason=said.failure.reason.name,
            failure_message=said.failure.message or said.failure.reason.value,
        )
        counts = self.counts
        self.counts = replace(counts, in_progress=counts.in_progress - 1, failed=counts.failed + 1)
        self.latest = replace(self.latest, failed=failed)
        return self._finish(failed)

    def _finish(self, record: CheckpointRecord) -> CheckpointRecord:
        self._records[record.checkpoint_id] = record
        finished = [id_ for id_, each in self._records.items() if each.status != IN_PROGRESS]
        for checkpoint_id in sorted(finished)[: max(len(finished) - self._history_size, 0)]:
            del self._records[checkpoint_id]
        return record

    def _discarded(self, checkpoint_id: int) -> None:
        record = self._records.get(checkpoint_id)
        if record is not None:
            self._records[checkpoint_id] = replace(record, is_discarded=True)
        newest = self.latest.completed
        if newest is not None and newest.checkpoint_id == checkpoint_id:
            self.latest = replace(self.latest, completed=replace(newest, is_discarded=True))

    def _restored(self, start: CompletedCheckpoint, wall_ms: int) -> None:
        self.counts = replace(self.counts, restored=self.counts.restored + 1)
        restored = RestoredRecord(start.checkpoint_id, wall_ms, start.is_savepoint, start.location)
        self.latest = replace(self.latest, restored=restored)


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
    pending: PendingCheckpoint,
    plan: UploadPlan,
    triggered_ms: int | None,
    now_ms: int,
) -> CheckpointFigures:
    """All files are safe: returns the figures, with those of each task.

        trigger ── start delay ──> end of the epoch ── async ──> acknowledged
                                    (sync: flush inside it)

    A subtask has acknowledged when all its bytes are safe: at once if none of them needed a file.
    """
    epoch = pending.snapshot.times
    ended_ms, flush_ms = (now_ms, {}) if epoch is None else (epoch.ended_ms, epoch.flush_ms)
    times = SnapshotTimes(
        ended_ms if triggered_ms is None else triggered_ms, ended_ms, now_ms, flush_ms
    )
    return replace(plan.figures, tasks=task_figures(tasks, plan, pending.checkpoint_id, times))


def task_figures(
    tasks: Iterable[TaskShape], plan: UploadPlan, checkpoint_id: int, times: SnapshotTimes
) -> tuple[TaskFigures, ...]:
    """Returns the figures of every task of a job."""
    handles = {
        operator.uid: [tuple(subtask.handles) for subtask in operator.subtasks]
        for operator in plan.manifest.operators
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
_HISTORY: Final = fault_span("checkpoint.history")


_NOTED: Final = (
    instructions.RequestSnapshot,
    instructions.WriteMetadata,
    instructions.NotifyCompleted,
    instructions.NotifyAborted,
    instructions.DeleteCheckpoint,
    instructions.Recover,
    instructions.DeclineTrigger,
    instructions.IgnoreAnswer,
    events.Restored,
    events.SinkCommitFailed,
    events.DeletionFailed,
)
"""What history or log has to say something about."""


class CheckpointJournal:
    """Follows what passes the coordinator: history, log, and whoever listens to the job."""

    def __init__(self, job_id: str, clock: Clock, history_size: int, num_subtasks: int) -> None:
        self._job_id = job_id
        self._clock = clock
        self.statistics = CheckpointStatistics(history_size, num_subtasks)
        self.listener: Callable[[CheckpointRecord], None] | None = None
        """Is given each checkpoint that has completed or failed."""
        self._refusal = ""
        """Why sinks did not commit, when this was said last."""

    def note(self, said: events.Event | instructions.Instruction) -> None:
        """Takes in an event or an instruction; what is told of checkpoints must not break them."""
        if not isinstance(said, _NOTED):
            return
        try:
            with _HISTORY:
                self._note(said)
        except Exception:
            _log.exception("the history of checkpoints could not be written")

    def _note(self, said: events.Event | instructions.Instruction) -> None:
        now_ms = self._clock.wall_ms()
        ended = self.statistics.apply(said, now_ms)
        line = self._line(said, now_ms)
        if line is not None:
            _log.log(*line)
        if ended is not None and self.listener is not None:
            self.listener(ended)

    def _line(  # noqa: PLR0911 - one text for each kind
        self, said: events.Event | instructions.Instruction, now_ms: int
    ) -> tuple[int, str] | None:
        match said:
            case instructions.RequestSnapshot(number, request):
                # The first words are Flink's: dashboards and scripts look for them.
                return logging.INFO, (
                    f"Triggering checkpoint {number} (type={request.kind.value}) @ {now_ms} "
                    f"for job {self._job_id}."
                )
            case instructions.NotifyCompleted(pending):
                return logging.INFO, (
                    f"Completed checkpoint {pending.checkpoint_id} for job {self._job_id} "
                    f"({pending.figures.checkpointed_bytes} bytes, "
                    f"checkpointDuration={said.duration_ms} ms, "
                    f"finalizationTime={said.finalization_ms} ms)."
                )
            case instructions.NotifyAborted(number, failure):
                level = logging.INFO if failure.reason in CONSEQUENCES else logging.WARNING
                return level, f"Checkpoint {number} failed: {failure}"
            case events.Restored((*_, start)) | instructions.Recover(start) if start is not None:
                return logging.INFO, (
                    f"Job {self._job_id} starts from {start.kind.value.lower()} "
                    f"{start.checkpoint_id} in {start.location}."
                )
            case instructions.DeclineTrigger(_, failure):
                return logging.INFO, f"A checkpoint was not triggered: {failure}"
            case events.SinkCommitFailed(number, message):
                level = logging.INFO if message == self._refusal else logging.WARNING
                self._refusal = message
                return level, (
                    f"Sinks did not commit checkpoint {number}; it is tried again: {message}"
                )
            case events.DeletionFailed(number, message):
                return logging.WARNING, (
                    f"Files of checkpoint {number} were not deleted: {message}"
                )
            case instructions.IgnoreAnswer(number, answer):
                return logging.INFO, f"A late answer ({answer}) for checkpoint {number} is dropped."
        return None
