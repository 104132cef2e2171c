"""Asynchronous calls of one batch: overlap, order, time-outs, retries."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from async_kit import Counted, Doubled, Make

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.async_function import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from penstock.operators.async_wait import AsyncWaitSpec


def test_any_number_of_results_in_the_order_of_records(harness: Make) -> None:
    operator = harness(Doubled())
    operator.process_all(2, 0, 1, 3, timestamps=[10, 20, 30, 40])
    assert operator.values == [2, 2, 1, 3, 3, 3]
    assert [event[2] for event in operator.output.events] == [10, 10, 30, 40, 40, 40]


class Meeting(AsyncFunction):
    """Each call waits until all others of the batch have begun: it hangs unless they overlap."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = self.peak = 0

    async def async_invoke(self, value: int) -> list[int]:
        self.running += 1
        self.peak = max(self.peak, self.running)
        while self.peak < self.size:
            await asyncio.sleep(0)
        self.running -= 1
        return [self.peak]


def test_calls_overlap(harness: Make) -> None:
    operator = harness(Meeting(3), timeout_ms=60_000)
    operator.process_all(1, 2, 3)
    assert operator.values == [3, 3, 3]


def test_capacity_bounds_what_runs_at_once(harness: Make) -> None:
    operator = harness(Counted(), capacity=2)
    operator.process_all(*range(10))
    assert len(operator.values) == 10
    assert max(operator.values) == 2


class Never(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        if value == "hang":
            await asyncio.Event().wait()
        return [value]


class NeverWithAnswer(Never):
    def timeout(self, value: Any) -> list[Any]:
        return [f"{value} took too long"]


def test_timeout(harness: Make) -> None:
    operator = harness(NeverWithAnswer(), timeout_ms=1)
    operator.process_all("a", "hang")
    assert operator.values[1] == "hang took too long"
    failing = harness(Never(), timeout_ms=1)
    with pytest.raises(UserFunctionError, match="took too long for the record 'hang'") as raised:
        failing.process_all("hang")
    assert raised.value.record == "'hang'"


class Flaky(AsyncFunction):
    """Fails `failures` times per record, then returns how often it was called."""

    def __init__(self, failures: int, *, empty: bool = False) -> None:
        self.failures = failures
        self.empty = empty
        self.calls: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        self.calls[value] = self.calls.get(value, 0) + 1
        if self.calls[value] <= self.failures:
            if self.empty:
                return []
            raise ConnectionError(f"no luck with {value}")
        return [(value, self.calls[value])]


def retrying(attempts: int, **predicates: Any) -> AsyncRetryStrategy:
    return AsyncRetryStrategy.fixed_delay(attempts, 1, **predicates)


def test_exceptions_are_tried_again(harness: Make) -> None:
    again = retrying(2, exception_predicate=has_exception_predicate)
    operator = harness(Flaky(2), 60_000, retry=again)
    operator.process_all("a", "b")
    # The first call and two more.
    assert operator.values == [("a", 3), ("b", 3)]


def test_attempts_run_out(harness: Make) -> None:
    again = retrying(1, exception_predicate=has_exception_predicate)
    with pytest.raises(UserFunctionError, match="no luck with a") as raised:
        harness(Flaky(2), 60_000, retry=again).process_all("a")
    assert raised.value.cause_type == "ConnectionError"


def test_only_matching_outcomes_are_tried_again(harness: Make) -> None:
    of_type = functools.partial(exception_type_predicate, expected_error_type=KeyError)
    with pytest.raises(UserFunctionError, match="no luck"):
        harness(Flaky(1), 60_000, retry=retrying(5, exception_predicate=of_type)).process_all("a")
    empty = harness(
        Flaky(1, empty=True), 60_000, retry=retrying(5, result_predicate=empty_result_predicate)
    )
    empty.process_all("a")
    assert empty.values == [("a", 2)]
    without = harness(Flaky(1, empty=True))
    without.process_all("a")
    assert without.values == []


def test_failure_names_its_record(harness: Make) -> None:
    class Fails(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0)
            return [1 // value]

    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as raised:
        harness(Fails()).process_all(1, 2, 0, 3)
    assert raised.value.record == "0"


def test_results_are_lists(harness: Make) -> None:
    class One(AsyncFunction):
        async def async_invoke(self, value: int) -> Any:
            return value

    with pytest.raises(UserFunctionError, match="returned int 1; it must return a list"):
        harness(One()).process_all(1)


def test_pauses_grow() -> None:
    strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 500, 2.0)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3, 4, 5)] == [
        100,
        200,
        400,
        500,
        500,
    ]
    # A strategy is shared by all records: what it says depends on the attempt alone.
    assert strategy.get_backoff_time_millis(2) == 200
    assert [strategy.can_retry(n) for n in (1, 5, 6)] == [True, True, False]
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY
    assert not NO_RETRY_STRATEGY.can_retry(1)


class Synchronous(AsyncFunction):
    def async_invoke(self, value: Any) -> Any:
        return [value]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((Synchronous(), 0), "must be declared with 'async def'"),
        ((lambda value: [value], 0), "AsyncFunction"),
        ((Doubled(), 0, 0), "the capacity is 0"),
        ((Doubled(), 0, 1.5), "the capacity is 1.5"),
        ((Doubled(), 0, 1, retrying(1)), "the timeout is 0 ms"),
        ((Doubled(), 5, 1, None), "the retry strategy is None"),
    ],
)
def test_wrong_settings(arguments: Any, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        AsyncWaitSpec(*arguments)


@pytest.mark.parametrize("attempts", [0, -1])
def test_attempts_are_positive(attempts: int) -> None:
    with pytest.raises(ProgramError, match="max_attempts is"):
        AsyncRetryStrategy.fixed_delay(attempts, 1)
