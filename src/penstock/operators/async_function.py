"""Functions that wait for something, many records at once: what users write and set.

`operators.async_wait` runs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic

from penstock.core.errors import ProgramError, shorten
from penstock.core.type_variables import IN, OUT
from penstock.operators.functions import Function

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
