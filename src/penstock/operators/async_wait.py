"""Runs functions that wait: calls overlap, and go on from one epoch into the next.

The calls run on an event loop in a thread of its own. `process` starts them and waits only while
`capacity` records are in the operator; whatever has ended is emitted when the subtask is in the
operator next. Records whose results have not left at the end of an epoch are operator state: after
a failure, or in a job with another parallelism, they are called again.

Watermarks wait for the records before them. With `is_ordered`, results leave in the order of the
records; without, in the order in which calls end, but on their side of each watermark.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Protocol

from penstock.core.errors import ProgramError
from penstock.core.naming import shorten
from penstock.core.records import Batch
from penstock.core.times import MIN_WATERMARK, NO_TIMESTAMP
from penstock.operators.adapters import as_instance
from penstock.operators.async_function import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
)
from penstock.operators.errors import function_error
from penstock.operators.function_logic import FunctionLogic
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.state.descriptors import ListStateDescriptor

IN_FLIGHT: Final = "calls in flight"
"""Name of the state; with blanks, so that no function has one of the same name."""

_LOOK_MS: Final = (10, 250)
"""How soon an epoch without input comes to collect results: as calls take, within these bounds."""
_STOP_S: Final = 1.0
_log = logging.getLogger("penstock.operators")


@dataclass(frozen=True)
class AsyncWaitSpec(OperatorSpec):
    """`AsyncDataStream`."""

    function: AsyncFunction
    timeout_ms: int  # Limit for one record with all its attempts; 0 is no limit.
    capacity: int = 100  # How many records are in the operator at once.
    retry: AsyncRetryStrategy = NO_RETRY_STRATEGY  # When a call is tried again.
    is_ordered: bool = True  # Whether results leave in the order of their records.

    def __post_init__(self) -> None:
        as_instance(self.function, AsyncFunction)
        name = type(self.function).__name__
        if not inspect.iscoroutinefunction(self.function.async_invoke):
            raise ProgramError(f"{name}.async_invoke must be declared with 'async def'.")
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int):
            raise ProgramError(f"the capacity is {self.capacity!r}; it must be a whole number.")
        if self.capacity < 1:
            raise ProgramError(f"the capacity is {self.capacity}; it must be at least 1.")
        if not isinstance(self.retry, AsyncRetryStrategy):
            raise ProgramError(
                f"the retry strategy is {self.retry!r}; it must be an AsyncRetryStrategy, for "
                "example AsyncRetryStrategy.fixed_delay(3, 100, None, has_exception_predicate)."
            )
        if self.retry.get_retry_predicate() is None:
            raise ProgramError(f"{type(self.retry).__name__}.get_retry_predicate returned None.")
        if self.timeout_ms <= 0 and self.retry is not NO_RETRY_STRATEGY:
            raise ProgramError(
                f"the timeout is {self.timeout_ms} ms; with a retry strategy it must be positive, "
                "since it bounds all attempts together."
            )

    def build(self) -> OperatorLogic:
        return AsyncWaitLogic(self)


class Call:
    """One record in the operator.

    Attributes:
        value: The record; the function gets a copy of what it could change.
        timestamp: Its event time.
        results: What its call returned; None while it runs.
        error: What its call raised.
        segment: Where `Unordered` keeps it.
    """

    __slots__ = ("error", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        self.error: Exception | None = None
        self.segment: _Segment | None = None


class Waiting(Protocol):
    """Records in the operator, and the watermarks between them."""

    size: int
    """Number of records."""

    def add(self, calls: list[Call]) -> None:
        """Takes records whose calls begin."""

    def add_watermark(self, watermark: int) -> None:
        """Takes a watermark that came behind all records so far."""

    def end(self, call: Call) -> None:
        """Takes note that a call has its results."""

    def leaving(self) -> Iterator[Call | int]:
        """Removes and yields the records and watermarks that may leave now."""

    def calls(self) -> Iterator[Call]:
        """Yields all records, the oldest first."""

    def last_watermark(self) -> int | None:
        """Returns the last watermark that waits."""


class Ordered:
    """Records leave in the order in which they came."""

    def __init__(self) -> None:
        self.size = 0
        self._queue: deque[Call | int] = deque()

    def add(self, calls: list[Call]) -> None:
        self._queue += calls
        self.size += len(calls)

    def add_watermark(self, watermark: int) -> None:
        if isinstance(self._queue[-1], int):
            self._queue.pop()
        self._queue.append(watermark)

    def end(self, call: Call) -> None:
        pass

    def leaving(self) -> Iterator[Call | int]:
        waiting = self._queue
        while waiting:
            first = waiting[0]
            if isinstance(first, Call):
                if first.results is None:
                    return
                self.size -= 1
            yield waiting.popleft()

    def calls(self) -> Iterator[Call]:
        return (each for each in self._queue if isinstance(each, Call))

    def last_watermark(self) -> int | None:
        last = self._queue[-1] if self._queue else None
        return last if isinstance(last, int) else None


class _Segment:
    """Records between two watermarks."""

    __slots__ = ("ended", "running", "watermark")

    def __init__(self) -> None:
        self.running: dict[Call, None] = {}
        self.ended: list[Call] = []
        self.watermark: int | None = None


class Unordered:
    """Records leave as their calls end; none leaves on the other side of a watermark."""

    def __init__(self) -> None:
        self.size = 0
        self._segments = deque([_Segment()])

    def add(self, calls: list[Call]) -> None:
        last = self._segments[-1]
        if last.watermark is not None:
            last = _Segment()
            self._segments.append(last)
        last.running.update(dict.fromkeys(calls))
        for call in calls:
            call.segment = last
        self.size += len(calls)

    def add_watermark(self, watermark: int) -> None:
        self._segments[-1].watermark = watermark

    def end(self, call: Call) -> None:
        segment = call.segment
        assert segment is not None
        del segment.running[call]
        segment.ended.append(call)

    def leaving(self) -> Iterator[Call | int]:
        while True:
            first = self._segments[0]
            self.size -= len(first.ended)
            yield from first.ended
            first.ended = []
            if first.running or first.watermark is None:
                return
            yield first.watermark
            first.watermark = None
            if len(self._segments) == 1:
                return
            self._segments.popleft()

    def calls(self) -> Iterator[Call]:
        for segment in self._segments:
            yield from segment.ended
            yield from segment.running

    def last_watermark(self) -> int | None:
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


class AsyncWaitLogic(FunctionLogic):
    """Starts a call for each record, and emits results in the order that was asked for."""

    why_no_state = (
        "an AsyncFunction has no keyed state, since its calls overlap. Keep it in a process "
        "function before or after this operator."
    )

    def __init__(self, spec: AsyncWaitSpec) -> None:
        super().__init__(spec.function)
        self._timeout_s = spec.timeout_ms / 1000 if spec.timeout_ms > 0 else None
        self.at_once = spec.capacity
        self._retry = spec.retry
        predicate = spec.retry.get_retry_predicate()
        self._again_for_result = predicate.result_predicate()
        self._again_for_error = predicate.exception_predicate()
        self._loop = CallLoop(self._results, spec.capacity)
        self._make_waiting = Ordered if spec.is_ordered else Unordered
        self._waiting: Waiting = self._make_waiting()
        self._is_idle = False  # Whether the input is, which is said when no record waits.
        self._call_ms = 0.0  # What calls take, about.

    # -- life cycle ---------------------------------------------------------------------------

    def open(self) -> None:
        self._loop.open()
        super().open()

    def restore(self, state: Any) -> None:
        snapshots, watermark = state or (None, MIN_WATERMARK)
        super().restore(snapshots)
        self._loop.forget()
        self._waiting = self._make_waiting()
        self._is_idle = False
        self._in_flight = self.context.operator_state.get_list_state(ListStateDescriptor(IN_FLIGHT))
        self._start([Call(value, timestamp) for value, timestamp in self._in_flight.get()])
        if watermark > self.watermark:
            self._waiting.add_watermark(watermark)

    def restore_rescaled(self, states: list[Any]) -> None:
        self.restore((None, min((taken for _, taken in states), default=MIN_WATERMARK)))

    def snapshot(self) -> Any:
        own = super().snapshot()
        records = [(call.value, call.timestamp) for call in self._waiting.calls()]
        if records or self._in_flight.get():
            self._in_flight.update(records)
        watermark = self._waiting.last_watermark()
        return own, self.watermark if watermark is None else watermark

    def close(self) -> None:
        has_stopped = self._loop.stop()
        if not has_stopped:
            _log.warning(
                "operator '%s': a call that was cancelled does not end, since its function blocks "
                "the event loop; close() is called meanwhile.",
                self.context.name,
            )
        super().close()
        if has_stopped:
            self._loop.close()

    # -- records and watermarks ---------------------------------------------------------------

    def process(self, batch: Batch, input_index: int = 0) -> None:
        values = batch.values
        timestamps: Iterable[int] = batch.timestamps or repeat(NO_TIMESTAMP)
        calls = list(map(Call, values, timestamps))
        begun = 0
        while begun < len(calls):
            room = self.at_once - self._waiting.size
            if room > 0:
                self._start(calls[begun : begun + room])
                begun += room
            self._collect(wait=begun < len(calls))

    def advance_watermark(self, watermark: int) -> None:
        if self._waiting.size:
            self._waiting.add_watermark(watermark)
            self._collect()
        else:
            super().advance_watermark(watermark)

    def advance_input_status(self, *, idle: bool) -> None:
        # Behind an idle input the watermark may pass the records that still wait here.
        self._is_idle = idle and self._waiting.size > 0
        if not self._is_idle:
            super().advance_input_status(idle=idle)

    def is_idle_behind(self, before: bool) -> bool:
        return before and not self._waiting.size

    def advance_processing_time(self, now_ms: int) -> None:
        self._collect()

    def end_of_epoch(self) -> None:
        self._collect()

    def end_input(self) -> None:
        while self._waiting.size:
            self._collect(wait=True)

    def next_processing_timer(self) -> int | None:
        if not self._waiting.size:
            return None
        least, most = _LOOK_MS
        return self.context.clock.now_ms + max(least, min(int(self._call_ms / 2), most))

    def _start(self, calls: list[Call]) -> None:
        if calls:
            self._waiting.add(calls)
            self._loop.start(calls)

    def _collect(self, *, wait: bool = False) -> None:
        """Emits what may leave; waits for one call to end if told to."""
        if wait:
            # Where an epoch takes long, this says which record it waits for.
            inputs = [next(self._waiting.calls()).value]
            records = iter(inputs)
            next(records)
        for call in self._loop.ended(wait=wait):
            if call.error is not None:
                record = shorten(call.value)
                raise function_error(call.error, self.context, record) from call.error
            self._waiting.end(call)
        outputs: list[Any] = []
        timestamps: list[int] = []
        for each in self._waiting.leaving():
            if isinstance(each, Call):
                assert each.results is not None
                outputs += each.results
                timestamps += repeat(each.timestamp, len(each.results))
            else:
                self._emit(outputs, timestamps)
                outputs, timestamps = [], []
                super().advance_watermark(each)
        self._emit(outputs, timestamps)
        if self._is_idle and not self._waiting.size:
            self.advance_input_status(idle=True)

    def _emit(self, outputs: list[Any], timestamps: list[int]) -> None:
        if outputs:
            has_times = timestamps.count(NO_TIMESTAMP) < len(timestamps)
            self.output.emit(Batch(outputs, timestamps if has_times else None))

    # -- one call, in the thread of the loop --------------------------------------------------

    async def _results(self, value: Any) -> list[Any]:
        snapshot = self.context.snapshot
        began = time.monotonic()
        result = self._checked(await self._call_in_time(snapshot(value)))
        self._call_ms += ((time.monotonic() - began) * 1000 - self._call_ms) / 16
        return list(map(snapshot, result))

    async def _call_in_time(self, value: Any) -> Any:
        if self._timeout_s is None:
            return await self._call(value)
        call = asyncio.ensure_future(self._call(value))
        done, _ = await asyncio.wait({call}, timeout=self._timeout_s)
        if done:
            return call.result()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return self.function.timeout(value)

    async def _call(self, value: Any) -> Any:
        attempts = 1
        while True:
            error: Exception | None = None
            result: Any = None
            try:
                result = await self.function.async_invoke(value)
            except Exception as raised:
                error = raised
            if not self._wants_again(result, error) or not self._retry.can_retry(attempts):
                if error is not None:
                    raise error
                return result
            pause_ms = self._retry.get_backoff_time_millis(attempts)
            await asyncio.sleep(max(0, pause_ms) / 1000)
            attempts += 1

    def _wants_again(self, result: Any, error: Exception | None) -> bool:
        if error is not None:
            return self._again_for_error is not None and bool(self._again_for_error(error))
        return self._again_for_result is not None and bool(self._again_for_result(result))

    def _checked(self, result: Any) -> list[Any]:
        if isinstance(result, list):
            return result
        name = type(self.function).__name__
        raise ProgramError(
            f"async_invoke or timeout of {name} returned {type(result).__name__} "
            f"{shorten(result)}; it must return a list of results, empty for none."
        )
