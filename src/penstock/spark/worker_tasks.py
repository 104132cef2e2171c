"""What runs in a worker: the tasks that the driver sends, and what a worker keeps between them.

`LevelTask` runs subtasks of an epoch, `Attendance` serves checkpoints while no epoch runs, and
`Farewell` closes the functions of a job attempt. A worker keeps the program that it served last,
and its subtasks.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkFiles, TaskContext, cloudpickle

from penstock.core import codec
from penstock.core.errors import ProgramError
from penstock.files.area import HomeArea
from penstock.runtime.level_task import SubtaskCache, TaskPlace, run_level_task
from penstock.runtime.records import Delivery, Errand, JobProgram, StateSettings, SubtaskKey
from penstock.runtime.state_files import open_area, remove_home
from penstock.runtime.transfers import TRANSFERS

if TYPE_CHECKING:
    from pyspark import Broadcast

    from penstock.runtime.exchange import Frame
    from penstock.spark.dependencies import WorkerSetup

CLOSING_AT_END_S: Final = 180.0
"""How long close() of functions may take before the job ends without it."""
_MEANWHILE_S: Final = 0.1

_CACHE = SubtaskCache()
"""Of this worker process."""

_PROGRAMS: dict[tuple[str, int], JobProgram] = {}
"""The job attempt that this worker process served last."""

# Records and state may hold instances of classes that only functions of the program know.
codec.register_by_value_pickler(cloudpickle.dumps)


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
    """A task that closes the functions of a job attempt in the worker it runs in; picklable.

    Args:
        cache_key: Names the attempt.
        patience_s: How long that may take.
        removes: At the end of the job, if its state files are the executor's own.
    """

    def __init__(
        self, cache_key: tuple[str, int], patience_s: float, removes: StateSettings | None = None
    ) -> None:
        self._cache_key = cache_key
        self._patience_s = patience_s
        self._removes = removes

    def __call__(self, partition: int, elements: Iterable[Any]) -> Iterator[Any]:
        for _ in elements:
            pass
        if self._cache_key in _PROGRAMS:
            close_functions(self._patience_s)
        else:
            # So that another worker takes the next task, if that one closes something.
            time.sleep(_MEANWHILE_S)
        if self._removes is not None:
            remove_home(self._removes)
        context = TaskContext.get()
        assert context is not None
        # The worker of an earlier try was ended.
        return iter((context.attemptNumber(),))


class Attendance:
    """A task that does errands of subtasks in the worker that has them; picklable.

    Args:
        cache_key: Names the job attempt.
        parts: The errands at each home.
    """

    def __init__(
        self, cache_key: tuple[str, int], parts: Sequence[Mapping[SubtaskKey, Errand]]
    ) -> None:
        self._cache_key = cache_key
        self._parts = parts

    def __call__(self, position: int, elements: Iterable[Any]) -> Iterator[Delivery]:
        for _ in elements:
            pass
        program = _PROGRAMS.get(self._cache_key)
        for key, errand in self._parts[position].items():
            if program is None:
                why = "the worker that held the state file has gone."
                yield from (Delivery(order.number, why) for order in errand.orders)
                continue
            area = open_area(program)
            assert isinstance(area, HomeArea)
            yield from TRANSFERS.attend(program, area, key, errand, is_idle=True)


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

    @property
    def size_bytes(self) -> int:
        """Its approximate size when it is sent."""
        return sum(len(plan) for _, plan in self._parts)

    def __call__(self, position: int, elements: Iterable[Any]) -> Iterator[tuple[int, Frame]]:
        program = _PROGRAMS.get(self._cache_key)
        if program is None:
            if _PROGRAMS:
                close_functions(CLOSING_AT_END_S)
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
