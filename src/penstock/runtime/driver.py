"""The driver of one job attempt: plans an epoch, has it run, folds the reports, commits the sinks.

1. Sources are asked for splits, splits are dealt out, the admission sets the budget.
2. The runner runs the epoch on Spark, or in this process, and returns the reports.
3. An error report ends the attempt; inconsistent attempts make the epoch run again from the same
   state; otherwise the reports are folded into the next job state.
4. Sink output of the epoch is committed; files that no version names any more are removed.
5. With nothing to read, the driver waits until a timer or a poll is due, or someone calls.
"""

from __future__ import annotations

import functools
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError, PenstockError
from penstock.core.fault_points import fault_span
from penstock.operators.errors import function_error
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.runtime.job_metrics import work_by_level
from penstock.runtime.job_state import (
    EpochSummary,
    FirstRead,
    InconsistentEpoch,
    JobState,
    MicroBatches,
    RunningEpoch,
    SourceProgress,
    SplitAlignment,
    check_reports,
)
from penstock.runtime.records import (
    EpochPlan,
    EpochTimes,
    JobProgram,
    SourceAssignment,
    SubtaskKey,
    SubtaskPlan,
    SubtaskReport,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.job import WantedSnapshot
    from penstock.core.times import Clock
    from penstock.graph.job_graph import Stage
    from penstock.runtime.admission import Admission
    from penstock.runtime.records import Delivery, Errand
    from penstock.runtime.sinks import SinkCommits
    from penstock.runtime.state_files import StateFiles

_TRIES_OF_AN_EPOCH: Final = 4
_POLL_MS: Final = 20
_QUIET_TICK_MS: Final = 200
"""How often a job without input runs an epoch, so that idleness and custom generators see time."""
_log = logging.getLogger("penstock.job")
_FOLD: Final = fault_span("epoch.fold")
_PREPARED: Final = fault_span("sink.prepare")


class EpochRunner(Protocol):
    """Runs epochs somewhere."""

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch and returns all reports."""

    def attend(self, errands: Mapping[SubtaskKey, Errand]) -> list[Delivery]:
        """Has the holders of files do errands while no epoch runs; returns what is done."""

    def interrupt(self) -> None:
        """Makes `run` raise soon, whatever a function does; safe from any thread, and again."""


class Checkpoints(Protocol):
    """Takes checkpoints; implemented by `CheckpointService`."""

    def wanted(self) -> WantedSnapshot | None:
        """Returns what is asked for at the end of the epoch that has just ended, if anything."""

    def offer(self, driver: JobDriver, *, stopped: bool) -> None:
        """Takes the state at the end of an epoch."""


@dataclass(frozen=True, slots=True)
class DriverParts:
    """What all attempts of a job share."""

    sinks: SinkCommits
    files: StateFiles
    checkpoints: Checkpoints
    clock: Clock
    on_epoch: Callable[[EpochSummary], None]
    epoch_interval_ms: int  # From the start of an epoch to that of the next one, at least.
    commits_epochs: bool  # Output counts with each epoch, as there are no checkpoints.


class JobDriver:
    """Drives one attempt of a job to its end."""

    def __init__(
        self,
        program: JobProgram,
        runner: EpochRunner,
        shared: DriverParts,
        state: JobState | None,
        admission: Admission,
    ) -> None:
        self.program = program
        self._graph = program.graph
        self._runner = runner
        self._sinks, self.files, self._clock = shared.sinks, shared.files, shared.clock
        self._checkpoints = shared.checkpoints
        self._epoch_interval_ms = shared.epoch_interval_ms
        self._commits_epochs = shared.commits_epochs
        self.admission = admission
        """For the next epoch; the next attempt begins with it."""
        self._on_epoch = shared.on_epoch
        self._wake = threading.Condition()
        self._cancelled = False
        self._is_draining = False
        self.has_stopped = False
        """Whether the job ended with a savepoint that a user asked for."""
        self.has_left = False
        """Whether `run` returned since it was told to, with input left."""
        self._leaves = False
        self._failure: JobExecutionError | None = None
        self._run_ms = 0
        self.running: RunningEpoch | None = None
        """For those who look from other threads."""
        self._alignment = SplitAlignment(self._graph)
        self._micro_batches = MicroBatches(self._graph)
        self._first_read = FirstRead(self._graph, is_over=state is not None or admission.is_set)
        self.epoch_times = EpochTimes()
        """Of the last epoch that counts."""
        self.state = state or JobState(
            sources={stage.operators[0].uid: SourceProgress() for stage in self._sources()}
        )

    def cancel(self) -> None:
        """Ends `run`, and the running epoch with it; safe from any thread."""
        with self._wake:
            self._cancelled = True
            self._wake.notify_all()
        self._runner.interrupt()

    def fail(self, message: str, *, is_lasting: bool = False) -> None:
        """Makes `run` raise, since checkpoints fail, and ends the epoch; safe from any thread."""
        with self._wake:
            self._failure = (InputError if is_lasting else JobExecutionError)(message)
            self._failure.failure_label = "checkpoint"
            self._wake.notify_all()
        self._runner.interrupt()

    def leave(self) -> None:
        """Ends `run` when the running epoch has ended; safe from any thread."""
        with self._wake:
            self._leaves = True
            self._wake.notify_all()

    def wake(self) -> None:
        """Makes a waiting driver look around; safe from any thread."""
        with self._wake:
            self._wake.notify_all()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def run(self) -> None:
        """Runs epochs until the input has ended in every subtask, or the job is stopped."""
        try:
            self._run_epochs()
        except Exception:
            # `fail` interrupts the epoch, which then fails, too; its message is the cause.
            self.is_over()
            raise

    def _run_epochs(self) -> None:
        while not self.is_over():
            if self._leaves:
                self.has_left = True
                return
            started = self._clock.monotonic_ms()
            if not self.state.is_firing:
                self._discover()
            summary = self._run_epoch(started)
            self._on_epoch(summary)
            if self._offer() or self._has_ended():
                return
            is_busy = summary.records_read > 0 or summary.backlog or self.state.is_firing
            self._pause(started, quiet=not is_busy)

    def is_over(self) -> bool:
        """Says whether the job was cancelled; raises if it was told to fail."""
        if self._failure is not None:
            raise self._failure from None
        return self._cancelled

    def _offer(self) -> bool:
        """Hands the state over if it is wanted; says whether the job stops with it."""
        request = self._checkpoints.wanted()
        if request is None:
            return False
        if request.drain and not self._has_ended():
            self._is_draining = True
            self._run_epoch(self._clock.monotonic_ms())
            while self.state.is_firing and not self.is_over():
                self._run_epoch(self._clock.monotonic_ms())
        self.has_stopped = request.stop
        self._checkpoints.offer(self, stopped=request.stop)
        return request.stop

    # -- one epoch ----------------------------------------------------------------------------

    def _run_epoch(self, started_ms: int) -> EpochSummary:
        number = self.state.epoch + 1
        self.running = RunningEpoch(
            number, self._clock.wall_ms(), lambda: self._clock.monotonic_ms() - started_ms
        )
        self._run_ms = 0
        reports = self._consistent_reports()
        ran_ms = self._clock.monotonic_ms()
        before = self.state
        with _FOLD:
            self.state = before.folded(self._graph, reports)
            self._alignment.heard(reports)
            self._micro_batches.epoch_counts()
        flushes = {(each.stage_id, each.subtask): each.commit_ms for each in reports}
        self.epoch_times = EpochTimes(self._clock.wall_ms(), flushes)
        with _PREPARED:
            self._sinks.prepared(self.state.epoch, reports)
        folded_ms = self._clock.monotonic_ms()
        if self._commits_epochs:
            self._sinks.commit(self.state.epoch, final=self._has_ended())
        self.files.settle(answer for report in reports for answer in report.deliveries)
        self.files.released(before.versions, self.state.versions)
        ended_ms = self._clock.monotonic_ms()
        duration = ended_ms - started_ms
        phases = {
            "plan": ran_ms - started_ms - self._run_ms,
            "run": self._run_ms,
            "fold": folded_ms - ran_ms,
            "commit": ended_ms - folded_ms,
        }
        records = sum(report.records_read for report in reports)
        backlog = any(report.backlog for report in reports) or any(
            progress.waiting for progress in self.state.sources.values()
        )
        self.admission = self.admission.after_epoch(
            records,
            duration,
            sum(work_by_level(self._graph, reports)),
            backlog=backlog,
            cut_short=not any(each.backlog and not each.cut_short for each in reports),
            moved_bytes=sum(report.bytes_read + report.bytes_sent for report in reports),
        )
        self._first_read.epoch_counts(records, backlog=backlog)
        self.running = None
        return EpochSummary(self.state.epoch, duration, records, backlog, reports, phases)

    def _consistent_reports(self) -> list[SubtaskReport]:
        for try_number in range(_TRIES_OF_AN_EPOCH):
            plan = self._plan(try_number)
            asked_ms = self._clock.monotonic_ms()
            reports = self._runner.run(plan)
            self._run_ms += self._clock.monotonic_ms() - asked_ms
            errors = [report.error for report in reports if report.error is not None]
            if errors:
                self._sinks.abort(reports, plan.epoch)
                # The most upstream error is the cause; later ones may follow from it.
                raise errors[0]
            try:
                check_reports(self._graph, reports)
            except InconsistentEpoch:
                self._sinks.abort(reports, plan.epoch)
                if try_number + 1 == _TRIES_OF_AN_EPOCH:
                    raise
                continue
            return reports
        raise AssertionError("unreachable")

    def _plan(self, try_number: int) -> EpochPlan:
        now_ms = self._clock.wall_ms()
        subtasks: dict[SubtaskKey, SubtaskPlan] = {}
        errands = self.files.errands()
        readers = sum(stage.parallelism for stage in self._sources())
        share = max(1, self.admission.max_records // readers)
        size = max(1, self.admission.max_bytes // readers)
        for stage in self._graph.stages:
            begins, inside = self._micro_batches.place(stage.stage_id, self.state.sources)
            if self._first_read.is_cut_by(self.admission.max_records):
                begins, inside = False, True
            for index in range(stage.parallelism):
                key = stage.stage_id, index
                source = None
                if stage.is_source:
                    budget = Budget(share, size, now_ms, max_ms=self.admission.target_ms)
                    source = self._assignment(stage, index, budget)
                version = self.state.versions.get(key)
                subtasks[key] = SubtaskPlan(version, source, begins, inside, errands.get(key))
        return EpochPlan(self.state.epoch + 1, try_number, now_ms, subtasks)

    def _assignment(self, stage: Stage, index: int, budget: Budget) -> SourceAssignment:
        progress = self.state.sources[stage.operators[0].uid]
        splits = progress.splits_of(index)
        paused = self._alignment.paused(stage.operators[0].uid)
        if self.state.is_firing:
            # Timers that are due fire before any record behind them.
            paused = frozenset(split.split_id for split, _ in splits)
        return SourceAssignment(
            splits,
            budget,
            is_last=progress.is_last_for(index),
            stop=self._is_draining,
            paused=paused,
            limit=self._alignment.limit(stage.operators[0].uid),
        )

    def attend(self) -> None:
        """Has executors bring files to a checkpoint that is waited for while no epoch runs."""
        if self.files.has_orders:
            self.files.settle(self._runner.attend(self.files.errands()))

    # -- sources and waiting ------------------------------------------------------------------

    def _sources(self) -> list[Stage]:
        return [stage for stage in self._graph.stages if stage.is_source]

    def _discover(self) -> bool:
        """Asks sources for splits and deals them out; says whether anything changed."""
        now_ms = self._clock.wall_ms()
        sources = dict(self.state.sources)
        for stage in self._sources():
            operator = stage.operators[0]
            progress = sources[operator.uid]
            source = operator.spec.source
            is_busy = progress.is_unread and source.searches_after_reading(progress.state)
            if not progress.complete and not is_busy:
                try:
                    found = source.discover(progress.state, now_ms)
                except PenstockError:
                    raise
                except Exception as error:
                    what = "the search for splits"
                    raise function_error(error, operator.name, what=what) from error
                progress = progress.discovered(found)
            sources[operator.uid] = progress.dealt(stage.parallelism)
        changed = any(
            sources[uid].waiting != before.waiting
            or sources[uid].assigned != before.assigned
            or sources[uid].complete != before.complete
            for uid, before in self.state.sources.items()
        )
        self._micro_batches.discovered(self.state.sources, sources)
        self.state = replace(self.state, sources=sources)
        if changed:
            for stage in self._sources():
                _check_splits(self.program.job_id, stage, sources[stage.operators[0].uid])
        return changed

    def _has_ended(self) -> bool:
        return len(self.state.ended) == sum(stage.parallelism for stage in self._graph.stages)

    def _pause(self, started_ms: int, *, quiet: bool) -> None:
        """Waits for the next epoch: not at all while records come, a tick when none did."""
        due_ms = started_ms + self._epoch_interval_ms
        if quiet:
            due_ms = max(due_ms, started_ms + _QUIET_TICK_MS)
        while not self.is_over():
            now_ms = self._clock.monotonic_ms()
            if self.files.has_orders:
                # Executors hear of them, and answer, by epochs.
                due_ms = min(due_ms, started_ms + _QUIET_TICK_MS)
            timer_ms = self.state.next_timer_ms
            if timer_ms is not None:
                left = max(timer_ms - self._clock.wall_ms(), 0)
                due_ms = min(due_ms, max(now_ms + left, started_ms + self._epoch_interval_ms))
            if now_ms >= due_ms or (quiet and self._discover()):
                return
            if self._leaves or self._checkpoints.wanted() is not None:
                # The next epoch comes at once and ends with the snapshot.
                return
            with self._wake:
                if not self._cancelled:
                    self._wake.wait(min(due_ms - now_ms, _POLL_MS) / 1000)


def _check_splits(job_id: str, stage: Stage, progress: SourceProgress) -> None:
    """Warns of subtasks without a split, which hold event time back, as in Flink."""
    # Splits of another kind end, and others follow them.
    owners = [any(each.concurrent for each in mine) for mine in progress.assigned.values()]
    idle = stage.parallelism - sum(owners)
    strategies = [getattr(operator.spec, "strategy", None) for operator in stage.operators]
    waits = any(
        isinstance(each, WatermarkStrategy)
        and each.generates_watermarks
        and each.idle_timeout_ms is None
        for each in strategies
    )
    if any(owners) and idle > 0 and waits and not progress.complete:
        source = stage.operators[0]
        _warn_of_idle_subtasks(job_id, source.name, idle, stage.parallelism)


@functools.cache  # Not in each attempt.
def _warn_of_idle_subtasks(job_id: str, name: str, idle: int, parallelism: int) -> None:
    _log.warning(
        "Job %s: %d of %d subtasks of '%s' have no split to read and hold the watermark back, so "
        "no event-time window or timer fires. Set its parallelism to %d, or call "
        "with_idleness(...) on its watermark strategy.",
        *(job_id, idle, parallelism, name, parallelism - idle),
    )
