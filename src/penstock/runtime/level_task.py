"""What one task of an epoch does: some subtasks of one level, frames in, frames out.

Spark's task function and the in-process runner both call `run_level_task`. An exception of a user's
function is a result: it becomes a report with an error, because Spark's retries are for lost
workers, not for code that will fail again.
"""

from __future__ import annotations

import pickle
import resource
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.core import errors
from penstock.core.errors import JobExecutionError, PenstockError, UserFunctionError
from penstock.operators.errors import describe_exception
from penstock.runtime.exchange import Frame, FrameKind
from penstock.runtime.overdue import WATCH
from penstock.runtime.records import (
    EpochPlan,
    JobProgram,
    SubtaskKey,
    SubtaskPlan,
    SubtaskReport,
)
from penstock.runtime.subtask import Subtask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.graph.job_graph import JobGraph

Routed = tuple[int, Frame]
"""Partition of the next level, and the frame."""


class EpochInterrupted(BaseException):
    """Raised inside an epoch that was given up; no `except Exception` takes it."""


class SubtaskCache:
    """Subtasks that this process served last, for one job attempt at a time.

    It is only a cache: a subtask that is not here, or holds another version, is restored.
    """

    def __init__(self) -> None:
        self._attempt: tuple[str, int] | None = None
        self._subtasks: dict[SubtaskKey, Subtask] = {}

    def get(self, program: JobProgram, key: SubtaskKey) -> Subtask:
        if self._attempt != program.cache_key:
            self.clear()
            self._attempt = program.cache_key
        subtask = self._subtasks.get(key)
        if subtask is None:
            stage = program.graph.stages[key[0]]
            subtask = self._subtasks[key] = Subtask(program, stage, key[1])
        return subtask

    def drop(self, key: SubtaskKey) -> None:
        """Forgets a subtask whose epoch failed; its functions are closed, as Flink closes them."""
        subtask = self._subtasks.pop(key, None)
        if subtask is not None:
            subtask.close()

    def clear(self) -> None:
        """Forgets all subtasks; their functions are closed, whatever ended them."""
        for key in list(self._subtasks):
            self.drop(key)


def level_partitions(graph: JobGraph, level: int) -> list[SubtaskKey]:
    """Returns the subtasks of a level in the order of its partitions."""
    return [
        (stage.stage_id, index)
        for stage in graph.levels[level]
        for index in range(stage.parallelism)
    ]


def level_tasks(graph: JobGraph, level: int, most: int) -> list[list[SubtaskKey]]:
    """Deals the subtasks of a level out to at most that many tasks, those of each stage evenly."""
    keys = level_partitions(graph, level)
    count = min(len(keys), most)
    return [keys[number::count] for number in range(count)]


class TaskPlace(NamedTuple):
    """A task among those of its epoch.

    Attributes:
        number: Its place in its level.
        keys: The subtasks that it runs.
        following: The subtasks of each task of the next level; empty behind the last one.
        home: Where the driver wants it to run; empty where it has no say.
    """

    number: int
    keys: Sequence[SubtaskKey]
    following: Sequence[Sequence[SubtaskKey]]
    home: str = ""


class Router:
    """Finds the task of the next level to which a frame goes."""

    def __init__(self, place: TaskPlace) -> None:
        following = place.following
        self._partitions = {key: number for number, keys in enumerate(following) for key in keys}
        # Frames for a later level, and reports, ride along in some partition of the next one.
        self._passing = place.number % max(1, len(following))

    def route(self, frame: Frame) -> Routed:
        if frame.kind == FrameKind.REPORT:
            return self._passing, frame
        return self._partitions.get((frame.stage, frame.subtask), self._passing), frame


def run_level_task(  # noqa: PLR0913, PLR0917 - the task's whole input
    program: JobProgram,
    plan: EpochPlan,
    place: TaskPlace,
    incoming: Iterable[Frame],
    attempt: int,
    cache: SubtaskCache,
    retries: int = 0,
    in_turn: int = 0,
) -> Iterator[Routed]:
    """Runs the subtasks of one task one after the other, up to the first that fails.

    It always reads all of `incoming`, or Spark would throw its worker away. As many subtasks as
    run one after the other (`in_turn`, those of this task by default) share the time to read.
    """
    keys = place.keys
    router = Router(place)
    worker_bytes = _resident_bytes() if place.home else 0
    frames: dict[SubtaskKey, list[Frame]] = {key: [] for key in keys}
    for frame in incoming:
        target = frame.stage, frame.subtask
        if frame.kind == FrameKind.REPORT or target not in frames:
            yield router.route(frame)
        else:
            frames[target].append(frame)
    for key in keys:
        try:
            mine = _in_time(plan.subtasks[key], in_turn or len(keys))
            with WATCH.watched(program, plan, key):
                for item in cache.get(program, key).run(plan, mine, frames.pop(key), attempt):
                    if isinstance(item, SubtaskReport):
                        # A task counts once.
                        item.retries, retries = retries, 0
                        item.home, item.worker_bytes = place.home, worker_bytes
                        yield router.route(_report_frame(item))
                    else:
                        yield router.route(item)
        except (GeneratorExit, EpochInterrupted):
            # The owner of the cache closes the functions once no interruption can follow.
            raise
        except BaseException as error:
            located = _located(error, program, plan, key)
            cache.drop(key)
            report = SubtaskReport(key[0], key[1], attempt, error=located)
            yield router.route(_report_frame(report))
            return


def _resident_bytes() -> int:
    """Returns the memory that this process has; 0 if the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _in_time(mine: SubtaskPlan, in_turn: int) -> SubtaskPlan:
    if mine.source is None or in_turn == 1:
        return mine
    budget = replace(mine.source.budget, max_ms=mine.source.budget.max_ms / in_turn)
    return replace(mine, source=replace(mine.source, budget=budget))


def _report_frame(report: SubtaskReport) -> Frame:
    payload = pickle.dumps(report, pickle.HIGHEST_PROTOCOL)
    return Frame(
        int(FrameKind.REPORT), report.stage_id, report.subtask, -1, 0, 0, report.attempt_id, payload
    )


def read_report(frame: Frame) -> SubtaskReport:
    """Reads the report in a frame."""
    report: SubtaskReport = pickle.loads(frame.payload)
    # Records for the program itself travel in it.
    report.bytes_sent += len(frame.payload)
    return report


def _located(
    error: BaseException, program: JobProgram, plan: EpochPlan, key: SubtaskKey
) -> PenstockError:
    """Returns the error that the driver raises, which says where it was."""
    stage = program.graph.stages[key[0]]
    if isinstance(error, UserFunctionError):
        lines = [str(error)]
        if not error.uid:
            # Selectors and assigners know the name of their operator only.
            lines.append(f"  task: '{stage.name}', subtask {key[1] + 1} of {stage.parallelism}")
        located = UserFunctionError(
            "\n".join([*lines, f"  epoch: {plan.epoch}"]),
            operator_name=error.operator_name,
            uid=error.uid,
            subtask=error.subtask if error.uid else key[1],
            record=error.record,
            cause_type=error.cause_type,
        )
        located.epoch = plan.epoch
        return located
    where = f"task '{stage.name}', subtask {key[1] + 1} of {stage.parallelism}, epoch {plan.epoch}"
    if isinstance(error, PenstockError):
        kind = getattr(errors, type(error).__name__, JobExecutionError)
        return kind(f"{error}\n  in {where}")
    return JobExecutionError(f"{describe_exception(error)}\n  in {where}")
