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
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from penstock.core.errors import ProgramError, shorten
from penstock.core.records import Batch
from penstock.core.times import MIN_WATERMARK, NO_TIMESTAMP
from penstock.operators.adapters import as_instance
from penstock.operators.async_calls import Call, CallLoop, Waiting
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
        self._is_ordered = spec.is_ordered
        self._waiting = Waiting(is_ordered=spec.is_ordered)
        self._is_idle = False  # Whether the input is, which is said when no record waits.
        self._call_ms = 0.0  # What calls take, about.

    # -- life cycle ---------------------------------------------------------------------------

    def open(self) -> None:
        self._loop.open()
        super().open()

    def restore(self, state: Any) -> None:
        snapshots, watermark, is_idle = state or (None, MIN_WATERMARK, False)
        super().restore(snapshots)
        self._loop.forget()
        self._waiting = Waiting(is_ordered=self._is_ordered)
        self._is_idle = is_idle
        self._in_flight = self.context.operator_state.get_list_state(ListStateDescriptor(IN_FLIGHT))
        self._start([Call(value, timestamp) for value, timestamp in self._in_flight.get()])
        if watermark > self.watermark:
            self._waiting.add_watermark(watermark)

    def restore_rescaled(self, states: list[Any]) -> None:
        watermark = min((taken for _, taken, _ in states), default=MIN_WATERMARK)
        self.restore((None, watermark, False))

    def snapshot(self) -> Any:
        own = super().snapshot()
        records = [(call.value, call.timestamp) for call in self._waiting.calls()]
        if records or self._in_flight.get():
            self._in_flight.update(records)
        watermark = self._waiting.last_watermark()
        return own, self.watermark if watermark is None else watermark, self._is_idle

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
        # Asked after a restore, perhaps with other channels: the calls in flight come first.
        self._is_idle = before and self._waiting.size > 0
        return before and not self._is_idle

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
        call = asyncio.ensure_future(self._call_apart(value))
        done, _ = await asyncio.wait({call}, timeout=self._timeout_s)
        if done:
            return call.result()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return self.function.timeout(value)

    async def _call_apart(self, value: Any) -> Any:
        """Calls as a task of its own, out of which these two would end the loop for all calls."""
        try:
            return await self._call(value)
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"the asynchronous call raised {error!r}") from error

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
