"""What window functions are given and what becomes of their results."""

from __future__ import annotations

import pytest
from window_driver import Driver

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.operators.functions import AggregateFunction, MapFunction, ReduceFunction
from penstock.operators.results import OutputTag
from penstock.operators.windows.assigners import (
    CountTumblingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.contents import AggregateContents, Buffer, ReduceContents
from penstock.operators.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.windows.spec import WindowSpec
from penstock.state.descriptors import ListStateDescriptor, ValueStateDescriptor

MAX = 2**63 - 1


@pytest.fixture(params=[False, True], ids=["batches", "records"])
def general(request):
    return request.param


def run(general, function=None, contents=None, assigner=None, **settings):
    spec = WindowSpec(
        assigner or TumblingEventTimeWindows.of(10),
        contents=contents or Buffer(),
        function=function,
        **settings,
    )
    return Driver(spec, general=general)


def test_window_function(general):
    class Apply(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.end, sum(inputs))]

    driver = run(general, Apply()).records(("a", 1, 1), ("a", 2, 2), ("b", 3, 3)).watermark(9)
    assert driver.out == [(("a", 10, 3), 9), (("b", 10, 3), 9)]


def test_functions_of_all_windows(general):
    class Apply(AllWindowFunction):
        def apply(self, window, inputs):
            yield window.start, sorted(inputs)

    class Process(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, sorted(elements)

    for function in (Apply(), Process()):
        driver = run(general, function, is_all=True)
        driver.records((0, 1, 1), (0, 3, 12), (0, 2, 2)).records((0, 4, 3)).watermark(50)
        assert driver.values == [(0, [1, 2, 4]), (10, [3])]


def test_without_function_the_contents_come_out(general):
    assert run(general).records(("a", 1, 1), ("a", 2, 2)).watermark(9).out == [(1, 9), (2, 9)]
    driver = run(general, contents=ReduceContents(lambda left, right: left - right))
    assert driver.records(("a", 9, 1), ("a", 2, 2), ("a", 3, 3)).watermark(9).values == [4]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_a_function_after_an_aggregate_sees_one_value(general):
    class Show(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, list(elements)

    driver = run(general, Show(), AggregateContents(Mean()))
    driver.records(("a", 1, 1), ("a", 2, 2)).reload().records(("a", 6, 3)).watermark(9)
    assert driver.values == [("a", [3.0])]


def test_none_is_an_accumulator_like_any_other(general):
    class Latest(AggregateFunction):
        def create_accumulator(self):
            return "new"

        def add(self, value, accumulator):
            return value

        def get_result(self, accumulator):
            return ["result", accumulator]

        def merge(self, acc_a, acc_b):
            return acc_b

    driver = run(general, contents=AggregateContents(Latest()))
    driver.records(("a", 1, 1), ("a", None, 2), ("b", None, 2)).reload()
    driver.records(("b", 3, 3)).watermark(9)
    assert driver.values == [["result", None], ["result", 3]]
    driver = run(general, contents=ReduceContents(lambda left, right: (left, right)))
    driver.records(("a", None, 1)).reload().records(("a", 2, 2)).watermark(9)
    assert driver.values == [(None, 2)]


class Contextual(ProcessWindowFunction):
    """Uses everything of the context, and remembers its calls of `clear`."""

    cleared: list = []

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process(self, key, context, elements):
        self.total.update((self.total.value() or 0) + len(elements))
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        seen = context.global_state().get_list_state(ListStateDescriptor("seen"))
        seen.add(context.window().start)
        same = context.global_state().get_state(ValueStateDescriptor("firings"))
        assert same.value() is None
        total = context.global_state().get_state(ValueStateDescriptor("total")).value()
        context.output(OutputTag("times"), context.current_watermark())
        yield OutputTag("clock"), context.current_processing_time()
        yield key, firings.value(), total, list(seen.get())

    def clear(self, context):
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        Contextual.cleared.append((tuple(context.window()), firings.value()))
        firings.clear()


def test_context(general):
    Contextual.cleared = []
    driver = run(general, Contextual(), allowed_lateness_ms=5).now(77)
    driver.records(("a", 1, 1), ("a", 2, 11)).watermark(9).reload()
    driver.records(("a", 3, 3), ("b", 4, 4)).watermark(20)
    assert driver.out == [
        (("a", 1, 1, [0]), 9),
        (("a", 2, 3, [0, 0]), 9),
        (("b", 1, 1, [0]), 9),
        (("a", 1, 4, [0, 0, 10]), 19),
    ]
    assert driver.side("times") == [(9, 9), (9, 9), (9, 9), (20, 19)]
    assert [value for value, _ in driver.side("clock")] == [77] * 4
    assert sorted(Contextual.cleared) == [((0, 10), 1), ((0, 10), 2)]
    driver.watermark(24)
    assert sorted(Contextual.cleared) == [((0, 10), 1), ((0, 10), 2), ((10, 20), 1)]
    # What is left is state of the key, not of its windows.
    assert {entry[0] for entry in driver.left_over()} == {"total", "seen"}


def test_full_count_windows_are_cleared(general):
    Contextual.cleared = []

    class OfCounts(Contextual):
        def clear(self, context):
            Contextual.cleared.append(context.window().id)
            context.window_state().get_state(ValueStateDescriptor("firings")).clear()

        def process(self, key, context, elements):
            context.window_state().get_state(ValueStateDescriptor("firings")).update(1)
            yield list(elements)

    driver = run(general, OfCounts(), assigner=CountTumblingWindowAssigner.of(2))
    driver.records(*[("a", n, None) for n in range(5)])
    assert driver.values == [[0, 1], [2, 3]]
    assert Contextual.cleared == [0, 1]
    assert {repr(entry[3]) for entry in driver.left_over()} == {"None", "CountWindow(id=2)"}


def test_functions_may_keep_and_change_what_they_are_given(general):
    class Greedy(ProcessWindowFunction):
        def process(self, key, context, elements):
            elements.append("mine")
            return elements

    driver = run(general, Greedy(), allowed_lateness_ms=5).records(("a", 1, 1)).watermark(9)
    driver.records(("a", 2, 2))
    assert driver.values == [1, "mine", 1, 2, "mine"]


def test_a_result_of_none_is_no_result(general):
    class Silent(ProcessWindowFunction):
        def process(self, key, context, elements):
            return None

    assert run(general, Silent()).records(("a", 1, 1)).watermark(9).out == []


def test_functions_are_opened_once_and_not_shared(general):
    class Reducer(ReduceFunction):
        opened = 0

        def open(self, runtime_context):
            self.opened += 1

        def close(self):
            self.opened = -1

        def reduce(self, value1, value2):
            return value1 + value2 + self.opened

    mine = Reducer()
    driver = run(general, contents=ReduceContents(mine))
    driver.records(("a", 10, 1), ("a", 10, 2)).watermark(9)
    assert driver.values == [21]
    assert mine.opened == 0
    driver.logic.close()


def test_errors_name_the_record(general):
    driver = run(general, contents=ReduceContents(lambda left, right: left / right))
    with pytest.raises(UserFunctionError) as raised:
        driver.records(("a", 1, 1), ("b", 2, 2), ("a", 0, 3))
    assert raised.value.record == "0"
    assert "ZeroDivisionError" in str(raised.value)
    assert "key: 'a'" in str(raised.value)


def test_errors_name_the_window(general):
    class Fails(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield 1
            raise ValueError("no")

    driver = run(general, Fails()).records(("a", 1, 1))
    with pytest.raises(UserFunctionError, match=r"TimeWindow\(start=0, end=10\) of key 'a'"):
        driver.watermark(9)
    # The epoch is tried again from the last version: what it left behind must be gone.
    driver.state.restore(())
    driver.logic.restore(None)
    assert driver.watermark(10).out == []


def test_errors_of_the_gap_name_the_record():
    from penstock.operators.windows.assigners import EventTimeSessionWindows

    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda value: 10 // value)
    for general in (False, True):
        driver = Driver(WindowSpec(assigner), general=general)
        with pytest.raises(UserFunctionError, match="ZeroDivisionError") as raised:
            driver.records(("a", 1, 1), ("a", 0, 2))
        assert raised.value.record == "0"


def test_wide_and_narrow_batches_fold_alike(general):
    """Batches with many keys and with few take different ways through the contents."""
    driver = run(general, assigner=SlidingEventTimeWindows.of(20, 10), contents=ReduceContents(max))
    wide = [(key, key, 15) for key in range(300)]
    driver.records(*wide, (7, 1000, 15)).records(*[(n % 2, n, 15) for n in range(300)])
    expected = {n: n for n in range(300)} | {7: 1000, 0: 298, 1: 299}
    assert sorted(driver.watermark(19).values) == sorted(expected.values())


def test_processing_time_takes_both_ways_too(general):
    assigner = TumblingProcessingTimeWindows.of(10)
    driver = run(general, assigner=assigner, contents=AggregateContents(Mean()))
    driver.records(*[(key, key, None) for key in range(300)], (5, 15, None)).now(9)
    assert sorted(driver.values) == sorted([*range(5), 10, *range(6, 300)])


def test_specs_are_checked_early():
    window = TumblingEventTimeWindows.of(10)
    for make in (
        lambda: WindowSpec("10 s"),
        lambda: WindowSpec(window, trigger="count"),
        lambda: WindowSpec(window, evictor=3),
        lambda: WindowSpec(window, allowed_lateness_ms=-1),
        lambda: WindowSpec(window, function=lambda key, window, inputs: inputs),
        lambda: WindowSpec(window, function=MapFunction),
        lambda: WindowSpec(window, contents=ReduceContents(3)),
        lambda: WindowSpec(window, contents=AggregateContents(max)),
    ):
        with pytest.raises(ProgramError):
            make()
