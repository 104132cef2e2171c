"""Asynchronous calls: overlap, order, epochs, time-outs, retries; gates decide, not sleeps."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.times import MAX_WATERMARK
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
from penstock.testing.harness import OneOperatorHarness


class AsyncHarness(OneOperatorHarness):
    """An operator with calls that are closed with the test."""

    def process_all(self, *values: Any, timestamps: Any = None) -> None:
        """Processes records and waits for all calls."""
        self.process(*values, timestamps=timestamps)
        self.logic.end_input()

    def wait_for(self, count: int) -> None:
        """Runs empty epochs until that many records have left."""
        while len(self.values) < count:
            self.end_of_epoch()
            time.sleep(0)


@pytest.fixture
def harness() -> Iterator[Callable[..., AsyncHarness]]:
    made = []

    def make(
        function: AsyncFunction, timeout_ms: int = 0, *, place: Any = None, **settings: Any
    ) -> AsyncHarness:
        made.append(AsyncHarness(AsyncWaitSpec(function, timeout_ms, **settings), **(place or {})))
        return made[-1]

    yield make
    for each in made:
        each.close()


Make = Callable[..., AsyncHarness]


class Doubled(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        return [value] * value


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


class Counted(AsyncFunction):
    def __init__(self) -> None:
        self.running = 0

    async def async_invoke(self, value: int) -> list[int]:
        self.running += 1
        for _ in range(3):
            await asyncio.sleep(0)
        seen = self.running
        self.running -= 1
        return [seen]


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


# -- across epochs ---------------------------------------------------------------------------


class Gated(AsyncFunction):
    """A call ends when the gate of its record is open."""

    gates: defaultdict[Any, threading.Event] = defaultdict(threading.Event)
    begun: Counter[Any] = Counter()

    async def async_invoke(self, value: Any) -> list[Any]:
        self.begun[value] += 1
        while not self.gates[value].is_set():
            await asyncio.sleep(0)
        return [value]


@pytest.fixture
def gated() -> Gated:
    Gated.gates.clear()
    Gated.begun.clear()
    return Gated()


def open_gates(*values: Any) -> None:
    for value in values:
        Gated.gates[value].set()


def test_an_epoch_ends_while_calls_run(harness: Make, gated: Gated) -> None:
    operator = harness(gated)
    operator.process("a", "b", timestamps=[1, 2])
    operator.snapshot()
    assert operator.values == []
    assert operator.logic.next_processing_timer() is not None
    open_gates("a", "b")
    operator.wait_for(2)
    assert operator.records == [("a", 1), ("b", 2)]
    assert operator.logic.next_processing_timer() is None
    assert Gated.begun == {"a": 1, "b": 1}


def test_ordered_results_wait_for_those_before_them(harness: Make, gated: Gated) -> None:
    operator = harness(gated)
    open_gates("b", "c")
    operator.process("a", "b")
    operator.process("c")
    operator.end_of_epoch()
    assert operator.values == []
    open_gates("a")
    operator.wait_for(3)
    assert operator.values == ["a", "b", "c"]


def test_unordered_results_leave_as_calls_end(harness: Make, gated: Gated) -> None:
    operator = harness(gated, is_ordered=False)
    operator.process("a", "b", "c")
    for number, each in enumerate(("c", "a", "b")):
        open_gates(each)
        operator.wait_for(number + 1)
    assert operator.values == ["c", "a", "b"]


def test_watermarks_wait_for_the_records_before_them(harness: Make, gated: Gated) -> None:
    operator = harness(gated, is_ordered=False)
    operator.process("a", "b", timestamps=[1, 2])
    operator.watermark(5)
    operator.process("c", timestamps=[7])
    operator.watermark(8)
    operator.watermark(9)
    open_gates("b", "c")
    operator.wait_for(1)
    assert operator.records == [("b", 2)]
    open_gates("a")
    operator.wait_for(3)
    # 8 and 9 have no record between them.
    assert operator.output.events == [
        ("record", "b", 2),
        ("record", "a", 1),
        ("watermark", 5),
        ("record", "c", 7),
        ("watermark", 9),
    ]
    assert operator.logic.watermark == 9
    operator.watermark(12)
    assert operator.watermarks == [5, 9, 12]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_the_end_of_input_waits_for_all_calls(
    harness: Make, gated: Gated, is_ordered: bool
) -> None:
    operator = harness(gated, is_ordered=is_ordered)
    operator.process("a", "b")
    threading.Timer(0.01, open_gates, ("b", "a")).start()
    operator.watermark(MAX_WATERMARK)
    assert sorted(operator.values) == ["a", "b"]
    assert operator.output.events[-1] == ("watermark", MAX_WATERMARK)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_full_operator_takes_no_more(harness: Make, gated: Gated, is_ordered: bool) -> None:
    """The third record is begun only when one has left."""
    operator = harness(gated, capacity=2, is_ordered=is_ordered)
    waits = threading.Thread(target=operator.process, args=("a", "b", "c"))
    waits.start()
    while Gated.begun != {"a": 1, "b": 1}:
        time.sleep(0)
    waits.join(0.02)
    assert waits.is_alive()
    open_gates("a")
    waits.join()
    open_gates("b", "c")
    operator.wait_for(3)
    assert operator.values == ["a", "b", "c"]


def test_an_idle_input_is_idle_behind_its_records(harness: Make, gated: Gated) -> None:
    operator = harness(gated)
    operator.process("a")
    operator.logic.advance_input_status(idle=True)
    assert not operator.logic.is_idle_behind(True)
    assert operator.output.events == []
    open_gates("a")
    operator.wait_for(1)
    assert operator.output.events == [("record", "a", None), ("idle", True)]
    assert operator.logic.is_idle_behind(True)


# -- restore -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_ordered", [False, True])
def test_calls_in_flight_begin_again_after_a_restore(
    harness: Make, gated: Gated, is_ordered: bool
) -> None:
    operator = harness(gated, is_ordered=is_ordered)
    open_gates("a")
    operator.process("a", "b", "c", timestamps=[1, 2, 3])
    operator.wait_for(1)
    operator.watermark(5)
    state = operator.snapshot()
    # The epoch that follows fails: what it did is undone, in this worker or in another one.
    operator.process("d", timestamps=[6])
    operator.restore(state)
    fresh = harness(gated, is_ordered=is_ordered)
    fresh.restore(state)
    open_gates("b", "c", "d")
    for each in (operator, fresh):
        each.take()
        each.wait_for(2)
        each.end_of_epoch()
        records, watermark = each.output.events[:2], each.output.events[2:]
        assert sorted(records) == [("record", "b", 2), ("record", "c", 3)]
        assert watermark == [("watermark", 5)]
        each.snapshot()
    assert Gated.begun["a"] == 1


def test_what_a_function_changes_is_called_again_as_it_was(harness: Make) -> None:
    class Changes(AsyncFunction):
        async def async_invoke(self, value: dict[str, int]) -> list[Any]:
            value["n"] += 1
            while not Gated.gates["changes"].is_set():
                await asyncio.sleep(0)
            return [value["n"]]

    operator = harness(Changes())
    operator.process({"n": 1})
    state = operator.snapshot()
    Gated.gates["changes"].set()
    operator.restore(state)
    operator.wait_for(1)
    assert operator.values == [2]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_rescaling_deals_the_calls_in_flight(
    harness: Make, gated: Gated, before: int, after: int
) -> None:
    """Each record is with one new subtask; the watermark is that of the slowest old one."""
    saved, numbers = [], itertools.count()
    for subtask in range(before):
        operator = harness(gated, place={"subtask": subtask, "parallelism": before})
        operator.process(*itertools.islice(numbers, 4), timestamps=[1, 2, 3, 4])
        operator.watermark(10 + subtask)
        operator.logic.end_of_epoch()
        own = operator.logic.snapshot()
        saved.append((own, operator.context.operator_state.snapshot()))
    open_gates(*range(4 * before))
    found = []
    for subtask in range(after):
        operator = harness(gated, place={"subtask": subtask, "parallelism": after})
        states = [state for _, state in saved]
        operator.context.operator_state.restore(states, subtask, after)
        operator.logic.restore_rescaled([own for own, _ in saved])
        operator.logic.end_input()
        operator.end_of_epoch()
        found += operator.values
        assert operator.watermarks == [10]
    assert sorted(found) == list(range(4 * before))


def test_a_capacity_holds_for_restored_calls_too(harness: Make) -> None:
    operator = harness(Counted(), capacity=2)
    states = [{"calls in flight": ("split", [(number, 0) for number in range(10)])}]
    operator.context.operator_state.restore(states, 0, 1)
    operator.logic.restore((None, 0))
    operator.logic.end_input()
    assert len(operator.values) == 10
    assert max(operator.values) == 2


def test_an_operator_without_calls_writes_nothing(harness: Make) -> None:
    operator = harness(Doubled())
    operator.process_all(1)
    written = []

    def write(name: str, *_: Any) -> Any:
        written.append(name)
        return object()

    for _ in range(3):
        operator.logic.snapshot()
        operator.context.operator_state.commit(write)
    assert written == ["calls in flight"]


# -- failures ----------------------------------------------------------------------------------


def test_a_failed_call_fails_the_next_epoch(harness: Make) -> None:
    class Fails(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            return [1 // value]

    operator = harness(Fails())
    operator.process(0)
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        operator.wait_for(1)


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_no_exception_is_lost(harness: Make, raised: type[BaseException]) -> None:
    class Leaves(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            raise raised

    with pytest.raises(UserFunctionError, match=f"raised {raised.__name__}"):
        harness(Leaves()).process_all(1)


def test_close_cancels_and_then_closes_the_function(harness: Make) -> None:
    seen: list[str] = []

    class Asks(AsyncFunction):
        def open(self, runtime_context: Any) -> None:
            self.loop = asyncio.get_event_loop()

        async def async_invoke(self, value: int) -> list[int]:
            assert asyncio.get_running_loop() is self.loop
            seen.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("cancelled")
            return []

        def close(self) -> None:
            self.loop.run_until_complete(asyncio.sleep(0))
            seen.append("closed")

    operator = harness(Asks())
    operator.process(1)
    while not seen:
        time.sleep(0)
    operator.close()
    assert seen == ["begun", "cancelled", "closed"]
