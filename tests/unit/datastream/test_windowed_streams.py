"""Windows at the level of nodes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from program_nodes import node_of, spec_of

from penstock.common import Duration, Time, Types
from penstock.core.errors import ProgramError
from penstock.datastream import (
    AggregateFunction,
    AllWindowFunction,
    DataStream,
    KeyedStream,
    OutputTag,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    TriggerResult,
    TumblingEventTimeWindows,
)
from penstock.graph.nodes import KeyGroups
from penstock.operators.convert import ConvertOutputSpec
from penstock.operators.reduce import RollingAggregation
from penstock.operators.windows.aggregates import CountAggregate
from penstock.operators.windows.contents import AggregateContents, Buffer, ReduceContents
from penstock.operators.windows.spec import WindowSpec

MINUTE = TumblingEventTimeWindows.of(Time.minutes(1))


class Longest(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return max(accumulator, len(value))

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return max(acc_a, acc_b)


class Apply(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return []


class ApplyAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return []


class Process(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return []


# ---- windows ----


def test_window_settings_reach_the_spec(keyed: KeyedStream) -> None:
    tag, trigger, evictor, function = (
        OutputTag("late"),
        CountTrigger.of(3),
        CountEvictor.of(2),
        Apply(),
    )
    stream = (
        keyed.window(MINUTE)
        .trigger(trigger)
        .evictor(evictor)
        .allowed_lateness(Time.seconds(5))
        .side_output_late_data(tag)
        .apply(function)
    )
    assert spec_of(stream) == WindowSpec(
        assigner=MINUTE,
        trigger=trigger,
        evictor=evictor,
        allowed_lateness_ms=5_000,
        late_tag=tag,
        contents=Buffer(),
        function=function,
    )
    node = node_of(stream)
    assert node.name == "TumblingEventTimeWindows"
    assert node.description.startswith("Window(TumblingEventTimeWindows(60000")
    assert node.description.endswith("CountTrigger, Apply)")
    assert isinstance(node.inputs[0].partitioning, KeyGroups)
    assert node.is_parallel


@pytest.mark.parametrize("lateness", [5_000, Duration.of_seconds(5), datetime.timedelta(seconds=5)])
def test_lateness_in_every_spelling(keyed: KeyedStream, lateness: Any) -> None:
    stream = keyed.window(MINUTE).allowed_lateness(lateness).apply(Apply())
    assert spec_of(stream).allowed_lateness_ms == 5_000


def test_window_functions(keyed: KeyedStream) -> None:
    def add(first: str, second: str) -> str:
        return first + second

    windows, process, longest = keyed.window(MINUTE), Process(), Longest()
    # A reduction keeps the declared type of its input.
    reduced = spec_of(windows.reduce(add))
    assert reduced == ConvertOutputSpec(
        WindowSpec(MINUTE, contents=ReduceContents(add)), Types.STRING()
    )
    assert spec_of(windows.reduce(add, process)) == WindowSpec(
        MINUTE, contents=ReduceContents(add), function=process
    )
    assert spec_of(windows.aggregate(longest)) == WindowSpec(
        MINUTE, contents=AggregateContents(longest)
    )
    typed = windows.aggregate(longest, process, output_type=Types.INT())
    assert typed.get_type() == Types.INT()
    assert spec_of(typed).inner.function is process
    assert spec_of(windows.process(process)).function is process


def test_plain_functions_of_windows(keyed: KeyedStream, words: DataStream) -> None:
    def of_key(key: Any, window: Any, inputs: Any) -> list[Any]:
        return []

    def of_all(window: Any, inputs: Any) -> list[Any]:
        return []

    assert spec_of(keyed.window(MINUTE).apply(of_key)).function.apply is of_key
    assert spec_of(keyed.window(MINUTE).process(of_key)).function.process is of_key
    assert spec_of(words.window_all(MINUTE).apply(of_all)).function.apply is of_all
    assert spec_of(words.window_all(MINUTE).process(of_all)).function.process is of_all


def test_built_in_aggregations(keyed: KeyedStream) -> None:
    windows = keyed.window(MINUTE)
    for verb in ("sum", "min", "max", "min_by", "max_by"):
        stream = getattr(windows, verb)("n")
        assert spec_of(stream).inner.contents == ReduceContents(RollingAggregation(verb, "n"))
        assert stream.get_type() == Types.STRING()
    counted = windows.count()
    assert isinstance(spec_of(counted).inner.contents.function, CountAggregate)
    assert counted.get_type() == Types.LONG()


def test_count_windows(keyed: KeyedStream) -> None:
    tumbling = spec_of(keyed.count_window(3).apply(Apply())).assigner
    assert (type(tumbling), tumbling.size) == (CountTumblingWindowAssigner, 3)
    sliding = spec_of(keyed.count_window(4, 2).apply(Apply())).assigner
    assert (type(sliding), sliding.size, sliding.slide) == (CountSlidingWindowAssigner, 4, 2)
    with pytest.raises(ProgramError, match="a count window has size 0"):
        keyed.count_window(0)


def test_window_all_runs_in_one_subtask(words: DataStream) -> None:
    stream = words.window_all(MINUTE).apply(ApplyAll())
    node = node_of(stream)
    assert (node.parallelism, node.is_parallel, node.spec.is_all) == (1, False, True)
    partitioning = node.inputs[0].partitioning
    assert isinstance(partitioning, KeyGroups)
    assert partitioning.selector("a") == partitioning.selector("b")
    with pytest.raises(ProgramError, match=r"cannot run in parallel.*key_by"):
        stream.set_parallelism(2)


class FiresWithoutWindow(EventTimeTrigger):
    def on_event_time(self, time, ctx):  # type: ignore[no-untyped-def, override]
        return TriggerResult.FIRE


def test_wrong_windows_are_told_at_once(keyed: KeyedStream, words: DataStream) -> None:
    with pytest.raises(ProgramError, match="takes a WindowAssigner"):
        keyed.window("1 min")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="takes a Trigger"):
        keyed.window(MINUTE).trigger("often")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"cannot be called as on_event_time\(time, window, ctx"):
        keyed.window(MINUTE).trigger(FiresWithoutWindow())
    with pytest.raises(ProgramError, match="must not be negative"):
        keyed.window(MINUTE).allowed_lateness(-1)
    with pytest.raises(ProgramError, match="OutputTag"):
        keyed.window(MINUTE).side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"reduce\(\), aggregate\(\), apply\(\) or process\(\)"):
        keyed.window(MINUTE).key_by(len)
    with pytest.raises(ProgramError, match="ApplyAll was given where a WindowFunction"):
        keyed.window(MINUTE).apply(ApplyAll())
    with pytest.raises(
        ProgramError, match=r"where an AllWindowFunction .* leave the parameter `key`"
    ):
        words.window_all(MINUTE).apply(Apply())
    with pytest.raises(ProgramError, match="make it a ProcessAllWindowFunction"):
        words.window_all(MINUTE).process(Apply())
    with pytest.raises(
        ProgramError, match=r"add `key` .* make it a ProcessWindowFunction, or call"
    ):
        keyed.window(MINUTE).process(ApplyAll())
    with pytest.raises(ProgramError, match="merge"):
        keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(
            GlobalWindows.create().get_default_trigger()
        )
