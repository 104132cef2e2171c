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

from pyspark import cloudpickle

from penstock.core.errors import JobExecutionError, PenstockError, ProgramError
from penstock.runtime.frames import FrameKind
from penstock.runtime.level_task import (
    TaskPlace,
    level_partitions,
    level_tasks,
    read_report,
)
from penstock.spark.dependencies import WorkerSetup
from penstock.spark.environments import Look, check, marked, without_penstock
from penstock.spark.homes import (
    Executor,
    Executors,
    Home,
    assigned,
    has_fixed_executors,
    homes_of,
    warn_of_settings,
)
from penstock.spark.losses import SparkMemory, epoch_failure, is_alive
from penstock.spark.slots import MOST_SLOTS, SlottedLineage, has_one_executor
from penstock.spark.worker_tasks import CLOSING_AT_END_S, Attendance, Farewell, LevelTask

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

_CLOSING_S: Final = 1.0
"""How long close() of functions may take before the job ends without it, cancelled or not."""


def pickled_program(program: JobProgram) -> bytes:
    """Serialises a program with the user's functions in it, and the classes of the user's script.

    Raises:
        ProgramError: A function holds something that cannot travel to a worker.
    """
    try:
        pickled = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
        return cloudpickle.dumps((pickled, _main_classes()))  # type: ignore[no-any-return,no-untyped-call]
    except Exception as error:
        culprit = _unserialisable(program)
        raise ProgramError(
            f"{culprit} cannot be sent to Spark's workers: {error}. Create connections, locks, "
            "files and the like in open() of a rich function, or inside the function itself."
        ) from error


def _main_classes() -> dict[str, type]:
    """Returns the classes of the user's script that the program's functions brought along.

    Workers make them known as `__main__.Name`, as they are here. Records and state then name their
    classes, which is faster than bringing them along, and keeps code out of checkpoints.
    """
    brought = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
    return {
        name: found
        for name, found in vars(sys.modules["__main__"]).items()
        if isinstance(found, type) and found.__qualname__ == name and found in brought
    }


def _unserialisable(program: JobProgram) -> str:
    for stage in program.graph.stages:
        for operator in stage.operators:
            try:
                cloudpickle.dumps(operator.spec)  # type: ignore[no-untyped-call]
            except Exception:
                return f"the function of operator '{operator.name}'"
    for edge in program.graph.edges:
        try:
            cloudpickle.dumps(edge.partitioning)  # type: ignore[no-untyped-call]
        except Exception:
            name = program.graph.stages[edge.target_stage].operators[0].name
            return f"the key selector or partitioner before operator '{name}'"
    return "the program"


def _same(partition: int) -> int:
    return partition


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
        self._checked: set[str] = set() if before is None else before._checked
        """Executors that were asked what they have."""
        self.ends_job = False
        """Whether no attempt follows this one when it closes."""
        self._context = spark.sparkContext
        self._memory = SparkMemory(self._context)
        self._program = program
        self._broadcast = self._context.broadcast(pickled_program(program))
        self._executors: Executors | None = None
        self.homes: dict[SubtaskKey, Home] = {} if before is None else dict(before.homes)
        """Where subtasks run; at first, where those of the attempt before ran."""
        self._slots: SlottedLineage | None = None
        if has_one_executor(self._context):
            # As many tasks as run at once.
            self._deal(max(1, self._context.defaultParallelism))
            if max(map(len, self._tasks)) <= MOST_SLOTS:
                levels = [[Home("", slot) for slot in range(len(tasks))] for tasks in self._tasks]
                self._slots = SlottedLineage(self._context, levels, {})
        elif has_fixed_executors(self._context) or program.state.stays:
            warn_of_settings(self._context)
            self._executors = Executors(self._context)
        else:
            # Each subtask is a task.
            self._deal(sys.maxsize)
        self._tag = f"penstock-{program.job_id}-{program.leader_epoch}-{program.attempt}"
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._is_interrupted = threading.Event()
        self._has_run = False

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch."""
        context = self._context
        self._is_idle.clear()
        try:
            if self._is_interrupted.is_set():
                raise JobExecutionError(f"epoch {plan.epoch} was interrupted.")
            self._has_run = True
            executors = self._executors
            if executors is not None and self._slots is None and self._program.state.stays:
                before = {home.executor for home in self.homes.values()}
                executors.wait(self._most_subtasks, before, self._is_interrupted)
            if executors is not None and (executors.have_changed() or self._slots is None):
                self._move_in(plan, executors.known.values())
            frames = self._frames(plan) if self._slots is None else self._slotted(plan, self._slots)
            context.setInterruptOnCancel(True)
            context.addJobTag(self._tag)
            collected = frames.collect()
        except PenstockError:
            raise
        except Exception as error:
            if self._is_interrupted.is_set():
                raise JobExecutionError(f"epoch {plan.epoch} was interrupted.") from error
            raise epoch_failure(context, self._memory, plan.epoch, error) from error
        finally:
            self._is_idle.set()
            # Jobs that commit output run in this thread too, and are not to be cancelled. A JVM
            # that has gone is told of by the error that is under way.
            with suppress(Exception):
                context.removeJobTag(self._tag)
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
    def _most_subtasks(self) -> int:
        graph = self._program.graph
        return max(len(level_partitions(graph, level)) for level in range(len(graph.levels)))

    def _deal(self, most_tasks: int) -> None:
        """Deals the subtasks of each level out to at most that many tasks."""
        graph = self._program.graph
        self._tasks = [level_tasks(graph, level, most_tasks) for level in range(len(graph.levels))]
        self._names = [[""] * len(tasks) for tasks in self._tasks]

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
        self._slots = SlottedLineage(self._context, levels, locations)
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
                missing = without_penstock(error)
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

    def _slotted(self, plan: EpochPlan, slots: SlottedLineage) -> Any:
        return slots.frames(
            [
                {slot: self._task(plan, level, numbers) for slot, numbers in group.items()}
                for level, group in enumerate(slots.groups)
            ]
        )

    def _frames(self, plan: EpochPlan) -> Any:
        """Returns the plain lineage, which lets Spark run any task in any worker."""
        width = len(self._tasks[0])
        frames: Any = self._context.parallelize(range(width), width)
        for level, tasks in enumerate(self._tasks):
            width = len(tasks)
            if level:
                frames = frames.partitionBy(width, _same)
            frames = frames.mapPartitionsWithIndex(self._task(plan, level, range(width)))
        return frames

    def close(self) -> None:
        """Closes the functions in the workers, and releases the broadcast."""
        if is_alive(self._context):
            self._close_functions()
            self._broadcast.destroy()

    def _close_functions(self) -> None:
        """Closes them in idle workers; those that Spark kills close theirs themselves."""
        if not self._has_run:
            return
        patience_s = _CLOSING_S if self._is_interrupted.is_set() else CLOSING_AT_END_S
        state = self._program.state
        removes = state if state.stays and self.ends_job else None
        task = Farewell(self._program.cache_key, patience_s, removes)
        context = self._context
        try:
            if self._slots is None:
                tasks = max(context.defaultParallelism, *map(len, self._tasks))
                seeds: Any = context.parallelize(range(tasks), tasks)
                tries = seeds.mapPartitionsWithIndex(task).collect()
            else:
                tries = self._slots.each(dict.fromkeys(self._slots.homes, task)).collect()
        except Exception:
            _log.warning("Functions could not be closed on Spark.", exc_info=True)
            return
        if any(tries):
            _log.warning(
                "close() of functions of job %s has not returned in %g s: their worker was ended.",
                self._program.job_id,
                patience_s,
            )
