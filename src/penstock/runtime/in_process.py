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
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import JobExecutionError
from penstock.runtime.frames import Frame, FrameKind
from penstock.runtime.level_task import (
    EpochInterrupted,
    SubtaskCache,
    level_partitions,
    read_report,
    run_level_task,
)
from penstock.runtime.overdue import WATCH

if TYPE_CHECKING:
    from penstock.runtime.records import EpochPlan, JobProgram, SubtaskReport

    Work = tuple[Callable[[], Any], Future[Any]]

_log = logging.getLogger("penstock.job")
_TRIES: Final = 8
_LONGEST_WAIT_S: Final = 0.2
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
            target=_serve,
            args=(self._work,),
            name=f"penstock-functions-{program.job_id[:8]}",
            daemon=True,
        )
        self._running: Future[Any] | None = None
        self._is_interrupted = False

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        """Runs one epoch."""
        return self._in_thread(lambda: self._run_levels(plan))  # type: ignore[no-any-return]

    def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._thread.ident is None:
            self._thread.start()
        running = self._running = Future()
        self._work.put((work, running))
        if self._is_interrupted:
            # That was before there was anything to interrupt.
            self._leave(running)
        # The exception that ends an epoch may come while its result is set, and nobody be notified.
        while not running.done():
            wait([running], _LONGEST_WAIT_S)
        return running.result()

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

    def _leave(self, running: Future[Any]) -> None:
        thread_id = self._thread.ident
        assert thread_id is not None
        for _ in range(_TRIES):
            if running.done():
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread_id), ctypes.py_object(EpochInterrupted)
            )
            wait([running], _BETWEEN_TRIES_S)
        frame = sys._current_frames().get(thread_id)
        if running.done() or frame is None:
            return
        _log.warning(
            "A function does not return, and a thread cannot be killed: it is left behind, goes on "
            "until the function returns, and keeps what it holds. With a penstock.spark.master "
            "other than in-process its worker would have been killed.\n%s",
            "".join(traceback.format_stack(frame)),
        )
        WATCH.leave(thread_id)
        with suppress(InvalidStateError):
            running.set_exception(JobExecutionError("the epoch was interrupted."))

    def _run_levels(self, plan: EpochPlan) -> list[SubtaskReport]:
        graph = self._program.graph
        if not self._keep_subtasks:
            self._cache.clear()
        incoming: list[list[Frame]] = [[] for _ in level_partitions(graph, 0)]
        for level in range(len(graph.levels)):
            partitions = level_partitions(graph, level)
            last = level + 1 == len(graph.levels)
            width = 1 if last else len(level_partitions(graph, level + 1))
            outgoing: list[list[Frame]] = [[] for _ in range(width)]
            for partition in range(len(partitions)):
                self._attempt += 1
                for target, frame in run_level_task(
                    self._program,
                    plan,
                    level,
                    partition,
                    incoming[partition],
                    self._attempt,
                    self._cache,
                    in_turn=len(partitions),
                ):
                    outgoing[target].append(frame)
            incoming = outgoing
        return [read_report(frame) for frame in incoming[0] if frame.kind == FrameKind.REPORT]

    def close(self) -> None:
        """Closes all operators, in the thread that opened them if it still serves."""
        if self._thread.ident is None:
            return
        if not self._is_interrupted:
            self._in_thread(self._cache.clear)
        self._work.put(None)
        self._thread.join(_BETWEEN_TRIES_S if self._is_interrupted else None)
        if self._is_interrupted and not self._thread.is_alive():
            self._cache.clear()


def _serve(queued: queue.Queue[Work | None]) -> None:
    """Does what is queued until it is told to end, or left behind."""
    # The interruption may come a moment after the work is done, and then breaks the queue's lock.
    with suppress(EpochInterrupted, InvalidStateError, RuntimeError):
        while (item := queued.get()) is not None:
            work, running = item
            try:
                running.set_result(work())
            except InvalidStateError:
                return
            except EpochInterrupted:
                running.set_exception(JobExecutionError("the epoch was interrupted."))
                return
            except BaseException as error:
                running.set_exception(error)
            del item, work, running
