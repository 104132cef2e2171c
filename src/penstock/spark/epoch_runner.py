"""One epoch as one Spark job: level 0, shuffle, level 1, shuffle, ... reports.

Frames travel as elements of RDDs, not as rows of DataFrames: the same two-level epoch then takes
about 60 % of the time, since nothing is planned, generated or converted to Arrow on the way
(`docs/decisions/0001`). The job program is a broadcast, unpickled once per worker; an epoch's
closure holds versions, splits and numbers only.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkFiles, TaskContext, cloudpickle

from penstock.core import pickling
from penstock.core.errors import JobExecutionError, PenstockError, ProgramError
from penstock.runtime.frames import Frame, FrameKind
from penstock.runtime.level_task import (
    SubtaskCache,
    TaskPlace,
    level_partitions,
    level_tasks,
    read_report,
    run_level_task,
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
from penstock.spark.losses import SparkMemory, epoch_failure, is_alive
from penstock.spark.slots import MOST_SLOTS, SlottedLineage, has_one_executor

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from penstock.runtime.records import EpochPlan, JobProgram, SubtaskKey, SubtaskReport


# When a worker's garbage collector runs.
#
# State is many objects and few cycles. Left alone, the collector walks over all of them again and
# again; even one collection of the objects of a task took 9 % of the time of a windowed count. So
# it rests during tasks, what they leave is set aside, and cycles of users' objects are looked for
# once in a while.

_TASKS_BETWEEN_COLLECTIONS: Final = 200

_tasks = 0


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keeps the collector from running inside the block, which is one task."""
    global _tasks  # noqa: PLW0603 - there is one collector in a process
    gc.disable()
    try:
        yield
    finally:
        _tasks += 1
        if _tasks >= _TASKS_BETWEEN_COLLECTIONS:
            _tasks = 0
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.enable()


# Records and state may hold instances of classes that only functions of the program know.
pickling.register_by_value_pickler(cloudpickle.dumps)

_log = logging.getLogger("penstock.job")
_AGAIN_S: Final = 0.2
"""Pause between two tries to cancel an epoch, whose job may not have reached Spark before."""

_CLOSING_S: Final = 1.0
_CLOSING_AT_END_S: Final = 180.0
"""How long close() of functions may take before the job ends without it, cancelled or not."""
_MEANWHILE_S: Final = 0.1

_CACHE = SubtaskCache()
"""Of this worker process."""

_PROGRAMS: dict[tuple[str, int], JobProgram] = {}
"""The job attempt that this worker process served last."""


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


_HOME: list[str] = []
"""The working directory of this worker before it was that of shipped files."""


def _set_up(setup: WorkerSetup) -> None:
    """Makes this worker one of another job."""
    for name in setup.path:
        sys.path.insert(0, SparkFiles.get(name))
    if setup.works_in_files:
        if not _HOME:
            _HOME.append(os.getcwd())
        os.chdir(SparkFiles.getRootDirectory())
    elif _HOME:
        os.chdir(_HOME.pop())


def close_functions(patience_s: float) -> None:
    """Closes the functions that this worker has open; the worker ends if that takes longer.

    Only the system's own clock stops a close() that never lets go of the interpreter.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, patience_s)
    _CACHE.clear()
    _PROGRAMS.clear()
    signal.setitimer(signal.ITIMER_REAL, 0)


class Farewell:
    """A task that closes the functions of a job attempt in the worker it runs in; picklable."""

    def __init__(self, cache_key: tuple[str, int], patience_s: float) -> None:
        self._cache_key = cache_key
        self._patience_s = patience_s

    def __call__(self, partition: int, elements: Iterable[Any]) -> Iterator[Any]:
        for _ in elements:
            pass
        if self._cache_key in _PROGRAMS:
            close_functions(self._patience_s)
        else:
            # So that another worker takes the next task, if that one closes something.
            time.sleep(_MEANWHILE_S)
        context = TaskContext.get()
        assert context is not None
        # The worker of an earlier try was ended.
        return iter((context.attemptNumber(),))


class LevelTask:
    """The function of some tasks of one level; picklable.

    Args:
        program: The job program.
        cache_key: Names it.
        is_first: Whether the level reads sources.
        parts: Each task's place, and its part of the plan, which no other task unpickles.
        setup: What a worker does first.
    """

    def __init__(
        self,
        program: Broadcast[bytes],
        cache_key: tuple[str, int],
        is_first: bool,
        parts: Sequence[tuple[TaskPlace, bytes]],
        setup: WorkerSetup,
    ) -> None:
        self._program = program
        self._cache_key = cache_key
        self._is_first = is_first
        self._parts = parts
        self._setup = setup

    def __call__(self, position: int, elements: Iterable[Any]) -> Iterator[tuple[int, Frame]]:
        program = _PROGRAMS.get(self._cache_key)
        if program is None:
            if _PROGRAMS:
                close_functions(_CLOSING_AT_END_S)
            _set_up(self._setup)
            pickled, classes = pickle.loads(self._program.value)
            vars(sys.modules["__main__"]).update(classes)
            program = _PROGRAMS[self._cache_key] = pickle.loads(pickled)
        context = TaskContext.get()
        assert context is not None
        # What the first level is given only makes the partitions.
        frames = _drain(elements) if self._is_first else (element[1] for element in elements)
        place, plan = self._parts[position]
        with collector_at_rest():
            yield from run_level_task(
                program,
                pickle.loads(plan),
                place,
                frames,
                context.taskAttemptId(),
                _CACHE,
                context.attemptNumber(),
            )


def _drain(elements: Iterable[Any]) -> list[Frame]:
    for _ in elements:
        pass
    return []


def _same(partition: int) -> int:
    return partition


class SparkEpochRunner:
    """An `EpochRunner` on a Spark session."""

    def __init__(
        self, spark: SparkSession, program: JobProgram, setup: WorkerSetup | None = None
    ) -> None:
        self._setup = setup or WorkerSetup()
        self._context = spark.sparkContext
        self._memory = SparkMemory(self._context)
        self._program = program
        self._broadcast = self._context.broadcast(pickled_program(program))
        self._executors: Executors | None = None
        self._homes: dict[SubtaskKey, Home] = {}
        self._slots: SlottedLineage | None = None
        if has_one_executor(self._context):
            # As many tasks as run at once.
            self._deal(max(1, self._context.defaultParallelism))
            if max(map(len, self._tasks)) <= MOST_SLOTS:
                levels = [[Home("", slot) for slot in range(len(tasks))] for tasks in self._tasks]
                self._slots = SlottedLineage(self._context, levels, {})
        elif has_fixed_executors(self._context):
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
            found = assigned(keys, homes, self._homes, sizes)
            for key in keys:
                tasks[found[key]].append(key)
            self._homes |= found
            levels.append([home for home, mine in tasks.items() if mine])
            self._tasks.append([mine for mine in tasks.values() if mine])
        self._names = [[str(home) for home in level] for level in levels]
        locations = {each.id: each.location for each in executors}
        self._slots = SlottedLineage(self._context, levels, locations)

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
        patience_s = _CLOSING_S if self._is_interrupted.is_set() else _CLOSING_AT_END_S
        task = Farewell(self._program.cache_key, patience_s)
        context = self._context
        try:
            if self._slots is None:
                tasks = max(context.defaultParallelism, *map(len, self._tasks))
                seeds: Any = context.parallelize(range(tasks), tasks)
                tries = seeds.mapPartitionsWithIndex(task).collect()
            else:
                tries = self._slots.each(task).collect()
        except Exception:
            _log.warning("Functions could not be closed on Spark.", exc_info=True)
            return
        if any(tries):
            _log.warning(
                "close() of functions of job %s has not returned in %g s: their worker was ended.",
                self._program.job_id,
                patience_s,
            )
