"""Functions that wait for something, many records at once.

All calls of a batch run on one event loop, at most `capacity` at a time, and the batch is done when
the last one is: no call outlives its batch, so there is nothing in flight to snapshot, and neither
watermarks nor timers can overtake a record.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic

from penstock.core.errors import ProgramError
from penstock.core.naming import shorten
from penstock.core.records import Batch
from penstock.core.type_variables import IN, OUT
from penstock.operators.adapters import as_instance
from penstock.operators.errors import function_error
from penstock.operators.function_logic import FunctionLogic
from penstock.operators.functions import Function
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.results import spread

__all__ = [
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "AsyncWaitLogic",
    "AsyncWaitSpec",
]

ResultPredicate = Callable[[list[Any]], bool] | None
ExceptionPredicate = Callable[[Exception], bool] | None


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes are tried again."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate:
        """Returns whether a list of results is tried again; None: never."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate:
        """Returns whether an exception is tried again; None: never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often and how long after a call is tried again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Returns whether to try again after that many attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the pause after that many attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Returns which outcomes are tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Makes the strategy that never tries again."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate = None,
        exception_predicate: ExceptionPredicate = None,
    ) -> AsyncRetryStrategy:
        """Makes a strategy with the same pause each time."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(  # noqa: PLR0913, PLR0917 - PyFlink's signature
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate = None,
        exception_predicate: ExceptionPredicate = None,
    ) -> AsyncRetryStrategy:
        """Makes a strategy whose pauses grow."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Two functions as a predicate."""

    def __init__(
        self, result_predicate: ResultPredicate, exception_predicate: ExceptionPredicate
    ) -> None:
        self._of_result = result_predicate
        self._of_exception = exception_predicate

    def result_predicate(self) -> ResultPredicate:
        return self._of_result

    def exception_predicate(self) -> ExceptionPredicate:
        return self._of_exception


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """The first outcome counts."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


NO_RETRY_STRATEGY: Final = NoRetryStrategy()


@dataclass(frozen=True)
class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """The same pause each time."""

    max_attempts: int
    backoff_time_millis: int
    result_predicate: ResultPredicate = None
    exception_predicate: ExceptionPredicate = None

    def __post_init__(self) -> None:
        _check_positive(self, "max_attempts", "backoff_time_millis")

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self.backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


@dataclass(frozen=True)
class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """Pauses that grow by a factor up to a limit; a function of the attempt, kept nowhere."""

    max_attempts: int
    initial_delay: int
    max_retry_delay: int
    multiplier: float
    result_predicate: ResultPredicate = None
    exception_predicate: ExceptionPredicate = None

    def __post_init__(self) -> None:
        _check_positive(self, "max_attempts", "initial_delay", "max_retry_delay", "multiplier")

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = float(self.initial_delay)
        for _ in range(current_attempts - 1):
            delay = min(delay * self.multiplier, self.max_retry_delay)
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether there are no results."""
    return not result


def has_exception_predicate(error: Exception | None) -> bool:
    """Whether there is an exception."""
    return error is not None


def exception_type_predicate(
    error: Exception, expected_error_type: type[Exception] | tuple[type[Exception], ...]
) -> bool:
    """Whether an exception is of a type; bind the type with `functools.partial`."""
    return isinstance(error, expected_error_type)


def _check_positive(strategy: AsyncRetryStrategy, *names: str) -> None:
    for name in names:
        value = getattr(strategy, name)
        if value <= 0:
            raise ProgramError(
                f"{type(strategy).__name__}: {name} is {value}; it must be greater than 0."
            )


class AsyncFunction(Function, Generic[IN, OUT]):
    """Any number of records out for each one in, after waiting for them."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results for one record."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results for a record whose call took too long; raises unless overridden."""
        raise TimeoutError(f"the asynchronous call took too long for the record {shorten(value)}")


@dataclass(frozen=True)
class AsyncWaitSpec(OperatorSpec):
    """`AsyncDataStream`."""

    function: AsyncFunction
    timeout_ms: int  # Limit for one record with all its attempts; 0 is no limit.
    capacity: int = 100  # How many calls run at once.
    retry: AsyncRetryStrategy = NO_RETRY_STRATEGY  # When a call is tried again.

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


class _FailedAt(Exception):
    """Which record's call failed; the cause is the user's exception."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class AsyncWaitLogic(FunctionLogic):
    """Runs the calls of a batch and waits for all of them; outputs keep the order of records."""

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

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A thread that an interruption left behind closes nothing.
        weakref.finalize(self, self._loop.close)
        # So that open() may make clients that look for the loop they will run on.
        asyncio.set_event_loop(self._loop)
        super().open()

    def close(self) -> None:
        super().close()
        self._loop.close()
        asyncio.set_event_loop(None)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        values = batch.values
        if not values:
            return
        try:
            results = self._loop.run_until_complete(self._call_all(values))
        except _FailedAt as failed:
            cause = failed.__cause__
            assert isinstance(cause, Exception)
            record = shorten(values[failed.index])
            raise function_error(cause, self.context, record) from cause
        outputs = list(chain.from_iterable(results))
        timestamps = batch.timestamps
        if timestamps is not None:
            ends: list[int] = []
            total = 0
            for result in results:
                total += len(result)
                ends.append(total)
            timestamps = spread(timestamps, ends, total)
        self.output.emit(Batch(outputs, timestamps))

    async def _call_all(self, values: list[Any]) -> list[list[Any]]:
        results: list[list[Any]] = [[]] * len(values)
        waiting = iter(enumerate(values))
        snapshot = self.context.snapshot

        async def work() -> None:
            for index, value in waiting:
                try:
                    result = self._checked(await self._call_in_time(value))
                    results[index] = list(map(snapshot, result))
                except Exception as error:
                    raise _FailedAt(index) from error

        workers = [asyncio.ensure_future(work()) for _ in range(min(self.at_once, len(values)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return results

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
