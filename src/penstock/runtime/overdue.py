"""Says where an epoch is that runs far longer than it should.

1. In each process with subtasks one thread looks at the tasks that run (`TaskWatch`). Of one that
   is overdue it notes operator, record and stack in a file that the driver sees.
2. One thread of the job looks at the running epoch (`EpochWatch`). At ten times the target it
   reads those files, warns, and shows them on the page; it warns again each time the duration has
   doubled.

Nothing is counted for each record: the operator and its record are read off the stack, as
`operators.errors` does after an exception.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.core.errors import shorten
from penstock.files.private import replace_file
from penstock.operators.errors import failing_record, is_ours
from penstock.operators.logic import OperatorLogic
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from types import FrameType

    from penstock.runtime.job_state import RunningEpoch
    from penstock.runtime.records import EpochPlan, JobProgram, SubtaskKey

TIMES: Final = 10
"""An epoch is overdue when it runs so many times its target."""

_DIRECTORY: Final = "overdue"
_log = logging.getLogger("penstock.job")


@dataclass(frozen=True, slots=True)
class OverdueTask:
    """Where a task stands that does not end."""

    task: str  # Name of its stage.
    subtask: int  # From 0.
    parallelism: int
    operator: str | None  # Whose function runs, if any.
    record: str | None  # What the function was given.
    key: str | None  # The current key.
    stack: str  # Innermost call last; of the program, unless only the engine's own code runs.
    process: str  # Host and number of the process.

    def describe(self) -> str:
        """Returns some lines for people."""
        where = f"in operator '{self.operator}'" if self.operator else f"in task '{self.task}'"
        lines = [f"  {where}, subtask {self.subtask + 1} of {self.parallelism}, {self.process}"]
        if self.key is not None:
            lines.append(f"    key: {self.key}")
        if self.record is not None:
            lines.append(f"    record: {self.record}")
        return "\n".join([*lines, *(f"    {line}" for line in self.stack.splitlines())])


@dataclass(frozen=True, slots=True)
class OverdueEpoch:
    """An epoch that should have ended."""

    epoch: int
    started_ms: int  # Wall time.
    tasks: tuple[OverdueTask, ...]  # Those that are known to be overdue.

    def describe(self, ran_ms: int, target_ms: int) -> str:
        """Returns the text of the warning."""
        head = (
            f"Epoch {self.epoch} has run for {ran_ms / 1000:.0f} s; epochs should take "
            f"{target_ms / 1000:g} s (penstock.epoch.target-duration). Until it ends there is no "
            "checkpoint and no output."
        )
        if not self.tasks:
            why = "without checkpoints a sink may still commit, or Spark may lack free cores"
            return f"{head} No task says that it is overdue itself: {why}."
        return "\n".join([head, *(task.describe() for task in self.tasks)])


# -- in the process of the subtask ---------------------------------------------------------------


class TaskWatch:
    """Looks at the tasks of this process; its thread starts with the first one."""

    def __init__(self) -> None:
        self._tasks: dict[int, _Task] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, program: JobProgram, plan: EpochPlan, key: SubtaskKey) -> Iterator[None]:
        """Watches what this thread does inside the block."""
        thread_id = threading.get_ident()
        task = self._tasks[thread_id] = _Task(program, plan.epoch, key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="penstock-watch", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._tasks.pop(thread_id, None)
            task.forget()

    def leave(self, thread_id: int) -> None:
        """Forgets a thread that is left behind."""
        self._tasks.pop(thread_id, None)

    def _look(self) -> None:
        pause_s = 1.0
        while True:
            tasks = dict(self._tasks)
            pause_s = min(
                [task.patience_s / TIMES for task in tasks.values()], default=max(pause_s, 0.2)
            )
            time.sleep(pause_s)
            for thread_id, task in tasks.items():
                # Of those that run since the last look, and still do.
                if self._tasks.get(thread_id) is task:
                    task.look(sys._current_frames().get(thread_id))


class _Task:
    def __init__(self, program: JobProgram, epoch: int, key: SubtaskKey) -> None:
        stage = program.graph.stages[key[0]]
        self._epoch = epoch
        self._about = {
            "task": stage.name,
            "subtask": key[1],
            "parallelism": stage.parallelism,
            "process": f"{os.uname().nodename}, process {os.getpid()}",
        }
        folder = Path(program.state.scratch_directory, _DIRECTORY)
        self._note = folder / f"{program.attempt}-{epoch}-{key[0]}-{key[1]}.json"
        # Earlier than the driver, so that it finds the note.
        self.patience_s = program.target_ms * TIMES / 2000
        self._due_s = time.monotonic() + self.patience_s
        self._is_noted = False

    def look(self, frame: FrameType | None) -> None:
        """Writes the note when the task is overdue, and again from time to time."""
        now_s = time.monotonic()
        if frame is None or now_s < self._due_s:
            return
        self._due_s = now_s + self.patience_s
        text = json.dumps({**self._about, **standing(frame)})
        try:
            replace_file(self._note, text.encode())
            self._is_noted = True
        except OSError as error:
            # The directory is the driver's: it is gone when the job has ended.
            self._due_s = math.inf
            if not self._is_noted:
                _log.warning("A task is overdue, and its driver is not told (%s): %s", error, text)

    def forget(self) -> None:
        if self._is_noted:
            with suppress(OSError):
                self._note.unlink()


def standing(frame: FrameType) -> dict[str, Any]:
    """Returns operator, record, key and stack of a thread, given its innermost frame."""
    frames = [each for each, _ in traceback.walk_stack(frame)][::-1]
    found: dict[str, Any] = {"operator": None, "record": None, "key": None}
    for each in frames:
        if not is_ours(each.f_code.co_filename):
            continue
        names = each.f_locals
        logic, records = names.get("self"), names.get("records")
        if isinstance(logic, OperatorLogic):
            state = logic.context.keyed_state
            key = None if state is None or state.key is NO_KEY else shorten(state.key)
            found = {"operator": logic.context.name, "record": None, "key": key}
        if records is not None:
            values = names.get("inputs", getattr(names.get("batch"), "values", None))
            with suppress(Exception):
                found["record"] = failing_record(values or names["values"], records)
    last = max(
        (at for at, each in enumerate(frames) if is_ours(each.f_code.co_filename)), default=0
    )
    shown = frames[last + 1 :] or frames[last:]
    stack = traceback.StackSummary.extract((each, each.f_lineno) for each in shown)
    return {**found, "stack": "".join(stack.format()).rstrip()}


WATCH: Final = TaskWatch()
"""Of this process."""


# -- in the process of the driver ----------------------------------------------------------------


class Watched(Protocol):
    """What runs epochs, such as `JobDriver`."""

    @property
    def program(self) -> JobProgram: ...

    @property
    def running(self) -> RunningEpoch | None: ...


class EpochWatch:
    """Looks at the epochs of one attempt while it runs.

    Args:
        driver: Runs the epochs.
        show: Takes what is overdue, or None once it is no more.
    """

    def __init__(self, driver: Watched, show: Callable[[OverdueEpoch | None], None]) -> None:
        program = driver.program
        self._driver = driver
        self._target_ms = program.target_ms
        self._folder = Path(program.state.scratch_directory, _DIRECTORY)
        self._prefix = f"{program.attempt}-"
        self._told = show
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def __enter__(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        threading.Thread(target=self._look, name="penstock-epochs", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over.set()
            self._told(None)

    def _show(self, epoch: OverdueEpoch | None) -> None:
        with self._lock:
            # What was found meanwhile must not be shown behind the end.
            if not self._is_over.is_set():
                self._told(epoch)

    def _look(self) -> None:
        warned_of, next_ms, is_shown = 0, 0, False
        while not self._is_over.wait(self._target_ms / 1000):
            running = self._driver.running
            if running is None or running.ran_ms() < TIMES * self._target_ms:
                if is_shown:
                    self._show(None)
                    is_shown = False
                continue
            epoch = OverdueEpoch(running.epoch, running.started_ms, self._tasks(running.epoch))
            self._show(epoch)
            is_shown = True
            ran_ms = running.ran_ms()
            if warned_of != running.epoch:
                warned_of, next_ms = running.epoch, 0
            if ran_ms >= next_ms:
                next_ms = 2 * ran_ms
                _log.warning("%s", epoch.describe(ran_ms, self._target_ms))

    def _tasks(self, epoch: int) -> tuple[OverdueTask, ...]:
        found = []
        for path in sorted(self._folder.glob(f"{self._prefix}{epoch}-*.json")):
            # It may end at this moment.
            with suppress(OSError, ValueError):
                found.append(OverdueTask(**json.loads(path.read_text())))
        return tuple(found)
