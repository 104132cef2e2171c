"""Calls that wait: the records whose calls are in flight, and the loop that runs the calls."""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

_STOP_S: Final = 1.0
"""How long a cancelled call may take to end."""


class Call:
    """One record in the operator.

    Attributes:
        value: The record; the function gets a copy of what it could change.
        timestamp: Its event time.
        results: What its call returned; None while it runs.
        error: What its call raised.
        segment: Where `Waiting` keeps it.
    """

    __slots__ = ("error", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        self.error: Exception | None = None
        self.segment: _Segment | None = None


class _Segment:
    """Records of which any may leave first, and the watermark behind them."""

    __slots__ = ("ended", "running", "watermark")

    def __init__(self) -> None:
        self.running: dict[Call, None] = {}
        self.ended: list[Call] = []
        self.watermark: int | None = None


class Waiting:
    """Records in the operator, and the watermarks between them.

    Records leave as their calls end, but in the order of their segments, and none leaves on the
    other side of a watermark. If they are to leave in order, each is a segment.

    Attributes:
        size: Number of records.
    """

    def __init__(self, *, is_ordered: bool) -> None:
        self.size = 0
        self._is_ordered = is_ordered
        self._segments = deque([_Segment()])

    def add(self, calls: list[Call]) -> None:
        """Takes records whose calls begin."""
        last = self._segments[-1]
        for call in calls:
            if last.watermark is not None or (self._is_ordered and (last.running or last.ended)):
                last = _Segment()
                self._segments.append(last)
            last.running[call] = None
            call.segment = last
        self.size += len(calls)

    def add_watermark(self, watermark: int) -> None:
        """Takes a watermark that came behind all records so far."""
        self._segments[-1].watermark = watermark

    def end(self, call: Call) -> None:
        """Takes note that a call has its results."""
        segment = call.segment
        assert segment is not None
        del segment.running[call]
        segment.ended.append(call)

    def leaving(self) -> Iterator[Call | int]:
        """Removes and yields the records and watermarks that may leave now."""
        while True:
            first = self._segments[0]
            self.size -= len(first.ended)
            yield from first.ended
            first.ended = []
            if first.running:
                return
            if first.watermark is not None:
                yield first.watermark
                first.watermark = None
            if len(self._segments) == 1:
                return
            self._segments.popleft()

    def calls(self) -> Iterator[Call]:
        """Yields all records, the oldest first."""
        for segment in self._segments:
            yield from segment.ended
            yield from segment.running

    def last_watermark(self) -> int | None:
        """Returns the last watermark that waits."""
        return self._segments[-1].watermark


class CallLoop:
    """An event loop in a thread, which runs calls and says which have ended.

    Args:
        invoke: Makes the coroutine for a record; it returns the list of results.
        capacity: How many run at once.
    """

    def __init__(self, invoke: Callable[[Any], Awaitable[list[Any]]], capacity: int) -> None:
        self._invoke = invoke
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._free = asyncio.Semaphore(capacity)
        self._ended: queue.Queue[Call] = queue.Queue()
        # Of the loop's thread alone.
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Makes the loop; it runs from the first call on."""
        self._loop = asyncio.new_event_loop()
        # Where close() is not called, the thread must not stay.
        weakref.finalize(self, _abandon, self._loop)
        # So that the function's open() may make clients that look for the loop they will run on.
        asyncio.set_event_loop(self._loop)

    def start(self, calls: list[Call]) -> None:
        """Begins calls."""
        loop = self._loop
        assert loop is not None
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(loop,), name="penstock-async", daemon=True
            )
            self._thread.start()
        loop.call_soon_threadsafe(self._begin, loop, calls, self._ended)

    def ended(self, *, wait: bool) -> Iterator[Call]:
        """Yields the calls that have ended since the last time; waits for the first if told to."""
        while True:
            try:
                # With a limit, so that a cancelled job can interrupt this thread.
                yield self._ended.get(block=wait, timeout=0.1)
                wait = False
            except queue.Empty:
                if not wait:
                    return

    def forget(self) -> None:
        """Cancels all calls; none of them will be among those that have ended."""
        self._ended = queue.Queue()
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(_cancel, self._loop)

    def stop(self) -> bool:
        """Cancels all calls and stops the thread; returns False if a call blocks it."""
        if self._loop is None or self._thread is None:
            return True
        self._loop.call_soon_threadsafe(_cancel_and_stop, self._loop)
        self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Closes the loop, whose thread has stopped."""
        if self._loop is not None:
            self._loop.close()
            self._loop = self._thread = None
            asyncio.set_event_loop(None)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, calls: list[Call], ended: queue.Queue[Call]
    ) -> None:
        for call in calls:
            task = loop.create_task(self._run_call(call, ended))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_call(self, call: Call, ended: queue.Queue[Call]) -> None:
        async with self._free:
            try:
                call.results = await self._invoke(call.value)
            except Exception as error:
                call.error = error
            except BaseException as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # The loop would end, or the call would never.
                call.error = RuntimeError(f"the asynchronous call raised {error!r}")
        ended.put(call)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _cancel(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


def _cancel_and_stop(loop: asyncio.AbstractEventLoop) -> None:
    _cancel(loop)
    # Twice round the loop, so that cancelled calls clean up, and those who wait for them end.
    loop.call_soon(loop.call_soon, loop.call_soon, loop.stop)


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_running():
        loop.call_soon_threadsafe(_cancel_and_stop, loop)
    else:
        loop.close()
