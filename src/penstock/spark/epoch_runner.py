"""One epoch as one Spark job: level 0, shuffle, level 1, shuffle, ... reports.

Frames travel as elements of RDDs, not as rows of DataFrames: the same two-level epoch then takes
about 60 % of the time, since nothing is planned, generated or converted to Arrow on the way
(`docs/decisions/0001`). The job program is a broadcast, unpickled once per worker; an epoch's
closure holds versions, splits and numbers only.
"""

from __future__ import annotations

import logging
import pickle
import sys
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import (
    ExecutorLostError,
    JobExecutionError,
    PenstockError,
)
from penstock.runtime.exchange import FrameKind
from penstock.runtime.level_task import (
    TaskPlace,
    level_partitions,
    level_tasks,
    read_report,
)
from penstock.spark.dependencies import WorkerSetup
from penstock.spark.homes import (
    Executor,
    Executors,
    Home,
    assigned,
    has_fixed_executors,
    homes_of,
    warn_of_settings,
)
from penstock.spark.processes import (
    Look,
    SparkMemory,
    check,
    epoch_failure,
    is_alive,
    marked,
    without_penstock,
)
from penstock.spark.slots import MOST_SLOTS, Broadcasts, SlottedLineage, has_one_executor
from penstock.spark.worker_tasks import (
    CLOSING_AT_END_S,
    Attendance,
    Farewell,
    LevelTask,
    pickled_program,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.runtime.records import (
        Delivery,
        EpochPlan,
        Errand,
        JobProgram,
        SubtaskKey,
        SubtaskReport,
    )


_log = logging.getLogger("penstock.job")
_AGAIN_S: Final = 0.2
"""Pause between two tries to cancel an epoch, whose job may not have reached Spark before."""

_WATCH_S: Final = 0.5
"""How often the executors are looked at while an epoch runs."""

_TRIES_OF_AN_EPOCH: Final = 4
"""Spark too tries a task so often on executors that are lost."""

_CLOSING_S: Final = 1.0
"""How long close() of functions may take before the job ends without it, cancelled or not."""


class SparkEpochRunner:
    """An `EpochRunner` on a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        program: JobProgram,
        setup: WorkerSetup | None = None,
        before: SparkEpochRunner | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> None:
        self._setup = setup or WorkerSetup()
        self._shared = shared or {}
        """Directories that executors must see, by the setting that names them."""
        self.enough = 0
        """Slots of a cluster with which the job has run in another application."""
        self._checked: set[str] = set() if before is None else before._checked
        """Executors that were asked what they have."""
        self.ends_job = False
        """Whether no attempt follows this one when it closes."""
        self._context = spark.sparkContext
        self._memory = SparkMemory(self._context)
        self._program = program
        self._broadcast = self._context.broadcast(pickled_program(program))
        self._broadcasts = Broadcasts(self._context)
        self._executors: Executors | None = None
        self.homes: dict[SubtaskKey, Home] = {} if before is None else dict(before.homes)
        """Where subtasks run; at first, where those of the attempt before ran."""
        self._slots: SlottedLineage | None = None
        if has_one_executor(self._context):
            # As many tasks as run at once.
            self._deal(max(1, self._context.defaultParallelism))
        elif has_fixed_executors(self._context) or program.state.stays:
            warn_of_settings(self._context)
            self._executors = Executors(self._context)
        else:
            # Each subtask is a task.
            self._deal(sys.maxsize, anywhere=True)
        self._tag = f"penstock-{program.job_id}-{program.leader_epoch}-{program.attempt}"
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._is_interrupted = threading.Event()
        self._is_closed = threading.Event()
        self._taken: set[str] = set()
        """Executors that tasks of the running epoch were given to."""
        self._lost: set[str] = set()
        """Those of them that are lost."""
        self._ending = threading.Lock()
        """Is held to cancel an epoch for a lost executor, and to end it."""
        self._has_run = False

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch; on other executors if one is lost that alone had no state.

        Raises:
            ExecutorLostError: An executor was lost with state, or executors were lost in each try.
        """
        for _ in range(_TRIES_OF_AN_EPOCH):
            holders = self._holders_of(plan)
            reports = self._run_once(plan, holders)
            if reports is not None:
                return reports
            lost = self._names_of_lost()
            if self._lost & holders:
                raise ExecutorLostError(
                    f"executors were lost in epoch {plan.epoch} with state that only they had: "
                    f"{lost}. The job goes on from its latest checkpoint, on the others and on "
                    "those that Spark starts."
                )
            _log.warning(
                "Executors were lost in epoch %d: %s. It needs no state that only they had, so it "
                "is run again on the others and on those that Spark starts.",
                plan.epoch,
                lost,
            )
        raise ExecutorLostError(
            f"executors were lost in each of {_TRIES_OF_AN_EPOCH} tries of epoch {plan.epoch}, at "
            f"last: {lost}. Their logs say why."
        )

    def _run_once(self, plan: EpochPlan, holders: set[str]) -> list[SubtaskReport] | None:
        """Runs an epoch; None if executors were lost that it needs."""
        context, executors = self._context, self._executors
        self._lost = set()
        self._is_idle.clear()
        try:
            if self._is_interrupted.is_set():
                raise JobExecutionError(f"epoch {plan.epoch} was interrupted.")
            self._has_run = True
            if executors is not None and self._have_moved(executors):
                self._lost = holders - executors.known.keys()
                if self._lost:
                    return None
                self._move_in(plan, executors.known.values())
            assert self._slots is not None, "made at the start, or once there are executors"
            frames = self._frames(plan, self._slots)
            context.setInterruptOnCancel(True)
            context.addJobTag(self._tag)
            collected = frames.collect()
        except PenstockError:
            raise
        except Exception as error:
            if self._is_interrupted.is_set():
                raise JobExecutionError(f"epoch {plan.epoch} was interrupted.") from error
            if self._lost and is_alive(context):
                return None
            raise epoch_failure(context, self._memory, plan.epoch, error) from error
        finally:
            with self._ending:
                self._is_idle.set()
            # Jobs that commit output run in this thread too, and are not to be cancelled. A JVM
            # that has gone is in the error that is under way.
            with suppress(Exception):
                context.removeJobTag(self._tag)
                self._broadcasts.forget()
        return [read_report(frame) for _, frame in collected if frame.kind == FrameKind.REPORT]

    def interrupt(self) -> None:
        """Cancels the Spark job of the epoch; Spark kills workers that do not end by themselves."""
        if not self._is_interrupted.is_set():
            self._is_interrupted.set()
            threading.Thread(target=self._cancel, name="penstock-interrupt", daemon=True).start()

    def _cancel(self) -> None:
        while not self._is_idle.is_set():
            try:
                self._context.cancelJobsWithTag(self._tag)
            except Exception:
                # The JVM has gone, and the epoch with it.
                _log.debug("An epoch could not be cancelled.", exc_info=True)
                return
            self._is_idle.wait(_AGAIN_S)

    def _holders_of(self, plan: EpochPlan) -> set[str]:
        """Returns the executors that alone have state files that the plan names."""
        if not self._program.state.stays or self._slots is None:
            return set()
        return {
            self.homes[key].executor
            for key, mine in plan.subtasks.items()
            # What was restored is fetched from a checkpoint, by any executor.
            if mine.version is not None
            and not mine.version.places
            and any(handle.inline is None for handle in mine.version.files)
        } - {""}

    def _have_moved(self, executors: Executors) -> bool:
        """Looks whether subtasks need other homes; waits for executors if there are none yet."""
        if self._slots is None:
            watch = threading.Thread(target=self._watch, args=(executors,), daemon=True)
            watch.name = "penstock-executors"
            watch.start()
        has_changed = executors.have_changed() or self._slots is None
        stays = self._program.state.stays
        if not executors.known or (stays and self._slots is None):
            # Where state does not stay, one is enough: it is asked what it has before its first
            # task, and others as they come.
            before = {home.executor for home in self.homes.values()} if stays else ()
            most = self._most_subtasks if stays else 1
            executors.wait(most, before, self._is_interrupted, self.enough)
            return True
        return has_changed

    def _watch(self, executors: Executors) -> None:
        """Cancels an epoch that has lost an executor.

        Its state may be lost, too; and Spark would try to fetch from it for up to minutes, before
        it runs the tasks elsewhere.
        """
        while not self._is_closed.wait(_WATCH_S):
            try:
                lost = set() if self._is_idle.is_set() else executors.gone(self._taken)
                with self._ending:
                    if lost & self._taken and not self._is_idle.is_set():
                        self._lost = lost
                        self._context.cancelJobsWithTag(self._tag)
            except Exception:
                # The JVM has gone, and the epoch with it.
                _log.debug("Executors could not be looked at.", exc_info=True)
                return

    def _names_of_lost(self) -> str:
        assert self._executors is not None
        why = self._executors.why_gone
        return ", ".join(f"{executor}{why(executor)}" for executor in sorted(self._lost))

    def attend(self, errands: Mapping[SubtaskKey, Errand]) -> list[Delivery]:
        """Has the holders of files do errands, in one Spark job without records."""
        if self._slots is None:
            return []
        by_home: dict[Home, dict[SubtaskKey, Errand]] = {}
        for key, errand in errands.items():
            by_home.setdefault(self.homes[key], {})[key] = errand
        tasks = {
            slot: Attendance(self._program.cache_key, [by_home.get(home, {}) for home in homes])
            for slot, homes in self._slots.homes.items()
        }
        try:
            return self._slots.each(tasks).collect()
        except Exception as error:
            raise epoch_failure(self._context, self._memory, 0, error) from error

    @property
    def slots(self) -> int:
        """How many tasks executors ran at once when the last epoch began."""
        if self._executors is None:
            return max(1, self._context.defaultParallelism)
        return sum(each.slots for each in self.executors)

    @property
    def executors(self) -> list[Executor]:
        """The executors of a cluster when the last epoch began."""
        return [] if self._executors is None else list(self._executors.known.values())

    @property
    def _most_subtasks(self) -> int:
        graph = self._program.graph
        return max(len(level_partitions(graph, level)) for level in range(len(graph.levels)))

    def _deal(self, most_tasks: int, *, anywhere: bool = False) -> None:
        """Deals the subtasks of each level out to at most that many tasks.

        They have a slot each, unless there are too many, or they may run `anywhere`: then all share
        one, and Spark runs any task in any of its workers.
        """
        graph = self._program.graph
        self._tasks = [level_tasks(graph, level, most_tasks) for level in range(len(graph.levels))]
        self._names = [[""] * len(tasks) for tasks in self._tasks]
        shares = anywhere or max(map(len, self._tasks)) > MOST_SLOTS
        levels = [
            [Home("", 0 if shares else slot) for slot in range(len(tasks))] for tasks in self._tasks
        ]
        spare = [Home("", 0)] * self._context.defaultParallelism if shares else []
        self._slots = SlottedLineage(self._context, levels, {}, self._broadcasts, spare)

    def _move_in(self, plan: EpochPlan, executors: Collection[Executor]) -> None:
        """Gives subtasks their homes, and each home that has some a task."""
        # Before there is an executor, tasks wait for any.
        alone = [Executor("", "", max(1, self._context.defaultParallelism))]
        homes = homes_of(executors or alone)
        sizes = {
            key: sum(handle.size_bytes for handle in mine.version.files)
            for key, mine in plan.subtasks.items()
            if mine.version is not None
        }
        levels: list[list[Home]] = []
        self._tasks = []
        for level in range(len(self._program.graph.levels)):
            keys = level_partitions(self._program.graph, level)
            tasks: dict[Home, list[SubtaskKey]] = {home: [] for home in sorted(homes)}
            found = assigned(keys, homes, self.homes, sizes)
            if self._program.state.stays and self._slots is not None:
                # A move in the middle of an attempt would lose the state.
                living = {key: self.homes[key] for key in keys if self.homes[key] in tasks}
                found |= living
            for key in keys:
                tasks[found[key]].append(key)
            self.homes |= found
            levels.append([home for home, mine in tasks.items() if mine])
            self._tasks.append([mine for mine in tasks.values() if mine])
        self._names = [[str(home) for home in level] for level in levels]
        locations = {each.id: each.location for each in executors}
        self._slots = SlottedLineage(self._context, levels, locations, self._broadcasts)
        self._taken = {home.executor for level in levels for home in level} - {""}
        if locations.keys() - self._checked:
            self._check_executors(self._slots)
            self._checked |= locations.keys()

    def _check_executors(self, slots: SlottedLineage) -> None:
        """Asks executors for what they must have; new ones, once each."""
        with marked(self._shared) as marks:
            look = dict.fromkeys(slots.homes, Look(self._setup, marks))
            try:
                found = slots.each(look).collect()
            except Exception as error:
                missing = without_penstock(error, self._context.pythonExec)
                if missing is None:
                    raise
                raise missing from error
            check(found, marks)

    def _task(self, plan: EpochPlan, level: int, numbers: Iterable[int]) -> LevelTask:
        """Returns the function of some tasks of a level."""
        tasks, names = self._tasks[level], self._names[level]
        following = self._tasks[level + 1] if level + 1 < len(self._tasks) else []
        parts = []
        for number in numbers:
            keys = tasks[number]
            part = replace(plan, subtasks={key: plan.subtasks[key] for key in keys})
            place = TaskPlace(number, keys, following, names[number])
            parts.append((place, pickle.dumps(part, pickle.HIGHEST_PROTOCOL)))
        return LevelTask(self._broadcast, self._program.cache_key, not level, parts, self._setup)

    def _frames(self, plan: EpochPlan, slots: SlottedLineage) -> Any:
        return slots.frames(
            [
                {slot: self._task(plan, level, numbers) for slot, numbers in group.items()}
                for level, group in enumerate(slots.groups)
            ]
        )

    def close(self) -> None:
        """Closes the functions in the workers, and releases the broadcast."""
        self._is_closed.set()
        if is_alive(self._context):
            self._close_functions()
            self._broadcasts.forget()
            self._broadcast.destroy()

    def _close_functions(self) -> None:
        """Closes them in idle workers; those that Spark kills close theirs themselves."""
        if not self._has_run:
            return
        patience_s = _CLOSING_S if self._is_interrupted.is_set() else CLOSING_AT_END_S
        state = self._program.state
        removes = state if state.stays and self.ends_job else None
        task = Farewell(self._program.cache_key, patience_s, removes)
        assert self._slots is not None, "an epoch has run"
        try:
            lost = set() if self._executors is None else self._executors.gone(self._taken)
            tries = self._slots.each(dict.fromkeys(self._slots.homes, task), lost).collect()
        except Exception:
            # The user may stop the session as soon as the job is cancelled.
            if is_alive(self._context):
                _log.warning("Functions could not be closed on Spark.", exc_info=True)
            return
        if any(tries):
            _log.warning(
                "close() of functions of job %s has not returned in %g s: their worker was ended.",
                self._program.job_id,
                patience_s,
            )
