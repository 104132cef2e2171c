"""Runs epochs in this process, level by level, without Spark.

The same subtasks, frames and reports as on Spark, so that tests of behaviour need no JVM. One cache
per partition, as if each had its own worker.

Functions run in a thread of their own, so that an epoch can be left although a function does not
return. A thread that runs Python code ends by an exception that is raised inside it. One that
sleeps or waits in C cannot be ended: it is left behind, and ends once the function returns.
"""

from __future__ import annotations

import ctypes
import logging
import queue
import sys
import threading
import traceback
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.core.errors import JobExecutionError
from penstock.runtime.exchange import Frame, FrameKind
from penstock.runtime.level_task import (
    EpochInterrupted,
    SubtaskCache,
    TaskPlace,
    level_tasks,
    read_report,
    run_level_task,
)
from penstock.runtime.overdue import WATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.runtime.records import (
        Delivery,
        EpochPlan,
        Errand,
        JobProgram,
        SubtaskKey,
        SubtaskReport,
    )

    Work = tuple[EpochPlan, Future[list[SubtaskReport]]]

_log = logging.getLogger("penstock.job")
_TRIES: Final = 8
_CLOSING_S: Final = 1.0
"""How long close() of functions may take after an interruption before the job ends without it."""
_BETWEEN_TRIES_S: Final = 0.1
"""A function may catch the exception, so it is raised again before its thread is left behind."""


class InProcessRunner:
    """An `EpochRunner` for tests and tools."""

    def __init__(self, program: JobProgram, *, keep_subtasks: bool = True) -> None:
        self._program = program
        self._keep_subtasks = keep_subtasks
        self._cache = SubtaskCache()
        self._attempt = 0
        self._work: queue.Queue[Work | None] = queue.Queue()
        self._thread = threading.Thread(
            target=self._serve,
            name=f"penstock-functions-{program.job_id[:8]}",
            daemon=True,
        )
        self._running: Future[list[SubtaskReport]] | None = None
        self._is_interrupted = False
        self._is_left = False
        """Whether a function does not return from the interrupted epoch."""
        self._gate = threading.Lock()
        self._is_exposed = False
        """Whether the thread may be interrupted: it runs an epoch. The gate guards this."""

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch."""
        if self._is_interrupted:
            # The job may have ended meanwhile: what was started now would stay for good.
            raise JobExecutionError("the epoch was interrupted.")
        if self._thread.ident is None:
            self._thread.start()
        running = self._running = Future()
        self._work.put((plan, running))
        if self._is_interrupted:
            # That was just before there was anything to interrupt.
            self._leave(running)
        return running.result()

    def attend(self, errands: Mapping[SubtaskKey, Errand]) -> list[Delivery]:
        """All files are in the directory that the driver sees."""
        raise AssertionError("an epoch in this process leaves no files elsewhere")

    def interrupt(self) -> None:
        """Ends the running epoch, or leaves the thread that runs it."""
        if not self._is_interrupted:
            self._is_interrupted = True
            if self._running is not None:
                threading.Thread(
                    target=self._leave,
                    args=(self._running,),
                    name="penstock-interrupt",
                    daemon=True,
                ).start()

    def _leave(self, running: Future[list[SubtaskReport]]) -> None:
        thread_id = self._thread.ident
        assert thread_id is not None
        for _ in range(_TRIES):
            if running.done():
                return
            with self._gate:
                if self._is_exposed and self._thread.is_alive():
                    _raise_in(thread_id, ctypes.py_object(EpochInterrupted))
            wait([running], _BETWEEN_TRIES_S)
        frame = sys._current_frames().get(thread_id)
        if running.done():
            return
        stack = "" if frame is None else "".join(traceback.format_stack(frame))
        _log.warning(
            "A function does not return, and a thread cannot be killed: it is left behind, goes on "
            "until the function returns, and keeps what it holds. With a penstock.spark.master "
            "other than in-process its worker would have been killed.\n%s",
            stack,
        )
        WATCH.leave(thread_id)
        self._is_left = True
        with suppress(InvalidStateError):
            running.set_exception(JobExecutionError("the epoch was interrupted."))

    def _serve(self) -> None:
        """Does what is queued until the queue ends, then closes the functions."""
        while (item := self._work.get()) is not None:
            plan, running = item
            result: list[SubtaskReport] = []
            error: BaseException | None = None
            try:
                with self._gate:
                    self._is_exposed = True
                result = self._run_levels(plan)
            except EpochInterrupted:
                error = JobExecutionError("the epoch was interrupted.")
            except BaseException as raised:
                error = raised
            finally:
                self._conceal()
            # No caller waits any more for what was left behind.
            with suppress(InvalidStateError):
                if error is None:
                    running.set_result(result)
                else:
                    running.set_exception(error)
            del item, plan, running, result, error
        self._cache.clear()

    def _conceal(self) -> None:
        """Returns once no interruption is under way and none will come.

        A number of a thread is given to another one later, which must not be hit.
        """
        is_exposed = True
        while is_exposed:
            with suppress(EpochInterrupted), self._gate:
                self._is_exposed = False
                _raise_in(threading.get_ident(), None)
                is_exposed = False

    def _run_levels(self, plan: EpochPlan) -> list[SubtaskReport]:
        graph = self._program.graph
        if not self._keep_subtasks:
            self._cache.clear()
        # A subtask is a task here.
        tasks = [level_tasks(graph, level, sys.maxsize) for level in range(len(graph.levels))]
        incoming: list[list[Frame]] = [[] for _ in tasks[0]]
        for here, following in zip(tasks, [*tasks[1:], []], strict=True):
            outgoing: list[list[Frame]] = [[] for _ in range(len(following) or 1)]
            for number, keys in enumerate(here):
                self._attempt += 1
                for target, frame in run_level_task(
                    self._program,
                    plan,
                    TaskPlace(number, keys, following),
                    incoming[number],
                    self._attempt,
                    self._cache,
                    in_turn=len(here),
                ):
                    outgoing[target].append(frame)
            incoming = outgoing
        return [read_report(frame) for frame in incoming[0] if frame.kind == FrameKind.REPORT]

    def close(self) -> None:
        """Closes all operators, in the thread that opened them."""
        if self._thread.ident is None:
            return
        self._work.put(None)
        patience_s = _CLOSING_S if self._is_interrupted else None
        self._thread.join(0 if self._is_left else patience_s)
        if self._thread.is_alive() and not self._is_left:
            _log.warning(
                "close() of functions of job %s has not returned in %g s. The job ends without "
                "it; its thread goes on.",
                self._program.job_id,
                _CLOSING_S,
            )


def _raise_in(thread_id: int, exception: ctypes.py_object[type[BaseException]] | None) -> None:
    """Raises an exception inside a thread when it runs Python code next; None takes it back."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), exception)
