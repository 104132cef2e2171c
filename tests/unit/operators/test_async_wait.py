"""Asynchronous calls that continue over epochs: gates decide when they end, not sleeps."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from typing import Any

import pytest
from async_kit import Counted, Doubled, Make

from penstock.core.errors import UserFunctionError
from penstock.core.times import MAX_WATERMARK
from penstock.operators.async_function import AsyncFunction


class Gated(AsyncFunction):
    """A call ends when the gate of its record is open."""

    opened: set[Any] = set()
    begun: Counter[Any] = Counter()

    async def async_invoke(self, value: Any) -> list[Any]:
        self.begun[value] += 1
        while value not in self.opened:
            await asyncio.sleep(0)
        return [value]


@pytest.fixture
def gated() -> Gated:
    Gated.opened.clear()
    Gated.begun.clear()
    return Gated()


def open_gates(*values: Any) -> None:
    Gated.opened.update(values)


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


@pytest.mark.parametrize("is_ordered", [False, True])
def test_an_idle_input_is_idle_after_a_restore_too(
    harness: Make, gated: Gated, is_ordered: bool
) -> None:
    operator = harness(gated, is_ordered=is_ordered)
    operator.process("a")
    operator.logic.advance_input_status(idle=True)
    state = operator.snapshot()
    fresh = harness(gated, is_ordered=is_ordered)
    open_gates("a")
    for each in (operator, fresh):
        each.restore(state)
        each.take()
        each.wait_for(1)
        assert each.output.events == [("record", "a", None), ("idle", True)]


@pytest.mark.parametrize("is_input_idle", [False, True])
def test_after_rescaling_the_new_input_says_whether_it_is_idle(
    harness: Make, gated: Gated, is_input_idle: bool
) -> None:
    """An old subtask was idle; the channels of the new one may be active."""
    operator = harness(gated)
    operator.process("a")
    operator.logic.advance_input_status(idle=True)
    own = operator.logic.snapshot()
    fresh = harness(gated)
    fresh.context.operator_state.restore([operator.context.operator_state.snapshot()], 0, 1)
    fresh.logic.restore_rescaled([own])
    assert not fresh.logic.is_idle_behind(is_input_idle)
    open_gates("a")
    fresh.wait_for(1)
    is_told = [("idle", True)] if is_input_idle else []
    assert fresh.output.events == [("record", "a", None), *is_told]


def test_what_a_function_changes_is_called_again_as_it_was(harness: Make) -> None:
    class Changes(AsyncFunction):
        async def async_invoke(self, value: dict[str, int]) -> list[Any]:
            value["n"] += 1
            while "changes" not in Gated.opened:
                await asyncio.sleep(0)
            return [value["n"]]

    operator = harness(Changes())
    operator.process({"n": 1})
    state = operator.snapshot()
    open_gates("changes")
    operator.restore(state)
    operator.wait_for(1)
    assert operator.values == [2]


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (1, 6)])
def test_rescaling_deals_the_calls_in_flight(
    harness: Make, gated: Gated, before: int, after: int, is_ordered: bool
) -> None:
    """Each record is with one new subtask; the watermark is that of the slowest old one.

    With six subtasks for four records, two have a watermark and no record.
    """
    saved, numbers = [], itertools.count()
    for subtask in range(before):
        operator = harness(
            gated, is_ordered=is_ordered, place={"subtask": subtask, "parallelism": before}
        )
        operator.process(*itertools.islice(numbers, 4), timestamps=[1, 2, 3, 4])
        operator.watermark(10 + subtask)
        operator.logic.end_of_epoch()
        own = operator.logic.snapshot()
        saved.append((own, operator.context.operator_state.snapshot()))
    open_gates(*range(4 * before))
    found = []
    for subtask in range(after):
        operator = harness(
            gated, is_ordered=is_ordered, place={"subtask": subtask, "parallelism": after}
        )
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
    operator.logic.restore((None, 0, False))
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


def test_a_failed_call_fails_an_epoch(harness: Make) -> None:
    class Fails(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            return [1 // value]

    operator = harness(Fails())
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        operator.process(0)
        operator.wait_for(1)


@pytest.mark.parametrize("timeout_ms", [0, 60_000])
@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_no_exception_is_lost(harness: Make, raised: type[BaseException], timeout_ms: int) -> None:
    class Leaves(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            raise raised

    with pytest.raises(UserFunctionError, match=f"raised {raised.__name__}"):
        harness(Leaves(), timeout_ms).process_all(1)


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
