"""What a failing program says, and that nothing of a failed epoch is seen.

The texts are the same in this process and on Spark, except where functions must be pickled.
"""

from __future__ import annotations

import math
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from programs.ways import Way

import penstock
from penstock.common import Types, WatermarkStrategy
from penstock.core.errors import (
    JobExecutionError,
    PenstockError,
    ProgramError,
    StateError,
    UserFunctionError,
)
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
OURS = f"{Path(penstock.__file__).parent}/"  # A clone's folder is called penstock too.


def inverse(x: Any) -> Any:
    return helper(x)


def helper(x: Any) -> Any:
    return 1 / (x - 3)


class FailsToOpen(MapFunction):
    def open(self, runtime_context: Any) -> None:
        helper(3)

    def map(self, value: Any) -> Any:
        return value


class FailingTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        helper(ctx.get_current_key())


class AsksForKeyedState(MapFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: Any) -> Any:
        return value


class AddsNone(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.values = runtime_context.get_list_state(ListStateDescriptor("values"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.values.add(None)


class SetsTimerWithoutKey(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(5)


class KeepsALock(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.held.update(threading.Lock())


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def unprintable(value: Any) -> Any:
    raise Unprintable


def recursive(value: Any) -> Any:
    return recursive(value)


def event_time(stream: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v: v)
    return stream.assign_timestamps_and_watermarks(strategy)


FRAMES = [
    r"Traceback \(most recent call last\):",
    r'  File ".*test_error_texts.py", line \d+, in inverse',
    r'  File ".*test_error_texts.py", line \d+, in helper',
    r"ZeroDivisionError: division by zero",
]

USER_ERRORS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "map": (
        lambda s: s.map(inverse).name("divide").uid("div"),
        [
            *FRAMES,
            r"in operator 'divide' \(uid 'div'\), subtask 1 of 1",
            r"  record: 3",
            r"  epoch: 1",
        ],
    ),
    "second operator of a chain": (
        lambda s: s.map(lambda x: x + 1).map(lambda x: x - 1).filter(inverse).uid("f"),
        [*FRAMES, r"in operator 'Filter' \(uid 'f'\), subtask 1 of 1", r"  record: 3"],
    ),
    "generator": (
        lambda s: s.flat_map(lambda x: (inverse(x) for _ in range(2))).uid("g"),
        [*FRAMES, r"in operator 'FlatMap' \(uid 'g'\), subtask 1 of 1", r"  record: 3"],
    ),
    "key selector": (
        lambda s: s.key_by(inverse).sum(),
        [
            *FRAMES,
            r"in the key selector before operator 'Sum'",
            r"  record: 3",
            r"  task: 'Source: Collection Source', subtask 1 of 1",
            r"  epoch: 1",
        ],
    ),
    "key selector of a window": (
        lambda s: event_time(s).key_by(inverse).window(TumblingEventTimeWindows.of(10)).sum(),
        [*FRAMES, r"in the key selector before operator 'TumblingEventTimeWindows'"],
    ),
    "partitioner": (
        lambda s: (
            s.partition_custom(lambda key, n: int(0 * inverse(key)), lambda x: x).map(str).uid("m")
        ),
        [
            FRAMES[0],
            r'  File ".*test_error_texts.py", line \d+, in <lambda>',
            *FRAMES[1:],
            r"in the partitioner before operator 'Map'",
            r"  record: 3",
        ],
    ),
    "reduce": (
        lambda s: s.key_by(lambda x: "k").reduce(lambda x, y: inverse(y)).uid("r"),
        [*FRAMES, r"in operator 'Reduce' \(uid 'r'\), subtask 1 of 1", r"  record: 3"],
    ),
    "open": (
        lambda s: s.map(FailsToOpen()).uid("o"),
        [
            r'  File ".*test_error_texts.py", line \d+, in open',
            r"in operator 'Map' \(uid 'o'\), subtask 1 of 1",
            r"  during: open\(\)",
        ],
    ),
    "timer": (
        lambda s: s.key_by(lambda x: x).process(FailingTimer()).uid("t"),
        [
            r'  File ".*test_error_texts.py", line \d+, in on_timer',
            r"in operator 'KeyedProcess' \(uid 't'\), subtask 1 of 1",
            r"  during: on_timer for EVENT_TIME 3, key 3",
        ],
    ),
    "window function": (
        lambda s: (
            event_time(s)
            .key_by(lambda x: x)
            .window(TumblingEventTimeWindows.of(10))
            .process(lambda key, context, values: [inverse(key)])
            .uid("w")
        ),
        [
            *FRAMES,
            r"in operator 'TumblingEventTimeWindows' \(uid 'w'\), subtask 1 of 1",
            r"  during: TimeWindow\(start=0, end=10\) of key 3",
        ],
    ),
    "timestamp assigner": (
        lambda s: s.assign_timestamps_and_watermarks(
            WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda x: int(inverse(x)))
        ),
        [*FRAMES, r"in operator 'Timestamps/Watermarks'", r"  record: 3", r"  task: 'Source: .*"],
    ),
    "a built-in function": (
        lambda s: s.map(lambda x: f"n{x}").map(int),
        [r"ValueError: invalid literal for int\(\) with base 10: 'n1'", r"  record: 'n1'"],
    ),
    "not iterable": (
        lambda s: s.flat_map(lambda x: x),
        [r"TypeError: 'int' object is not iterable", r"  hint: yield the results, or .*"],
    ),
    "an exception without text": (
        lambda s: s.map(unprintable),
        [r".*Unprintable: <exception str\(\) failed>", r"  record: 1"],
    ),
    "endless recursion": (
        lambda s: s.map(recursive),
        [r"RecursionError: maximum recursion depth exceeded", r"  record: 1"],
    ),
    "declared type": (
        lambda s: s.map(str, Types.INT()).uid("m"),
        [r"the output of operator 'Map' \(uid 'm'\) is not of its output_type: declared INT, .*"],
    ),
}


def text_of(error: PenstockError, lines: list[str]) -> None:
    """Checks that the lines are there, in this order, and that no frame of Penstock is."""
    text = str(error)
    assert re.search(r"[\s\S]*".join(f"(?m:^{line}$)" for line in lines), text), text
    assert OURS not in text


def on(master: str) -> StreamExecutionEnvironment:
    return Way("hashmap", 1, None, True).environment(master)


@pytest.fixture(scope="module")
def spark_session() -> Iterator[None]:
    from pyspark.sql import SparkSession

    yield
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


@pytest.mark.parametrize("name", USER_ERRORS)
def test_errors_of_functions(name: str) -> None:
    build, lines = USER_ERRORS[name]
    with pytest.raises(UserFunctionError) as caught:
        list(build(on("in-process").from_collection([1, 2, 3, 4])).execute_and_collect())
    text_of(caught.value, lines)


@pytest.mark.spark
@pytest.mark.parametrize("name", USER_ERRORS)
def test_errors_of_functions_on_spark(name: str, spark_session: None) -> None:
    build, lines = USER_ERRORS[name]
    with pytest.raises(UserFunctionError) as caught:
        list(build(on("local[2]").from_collection([1, 2, 3, 4])).execute_and_collect())
    text_of(caught.value, lines)


def test_what_the_error_object_knows() -> None:
    env = Way("hashmap", 1, 2, True).environment()
    with pytest.raises(UserFunctionError) as caught:
        list(env.from_collection([1, 2, 3]).map(inverse).uid("div").execute_and_collect())
    error = caught.value
    assert (error.operator_name, error.uid, error.subtask) == ("Map", "div", 0)
    assert (error.epoch, error.record) == (2, "3")
    assert error.cause_type == "ZeroDivisionError"


def test_long_records_and_texts_are_cut() -> None:
    with pytest.raises(UserFunctionError) as caught:
        list(
            on("in-process")
            .from_collection(["x" * 1_000_000])
            .map(lambda text: text.missing)
            .execute_and_collect()
        )
    assert len(str(caught.value)) < 2_000


# -- what is wrong with data -----------------------------------------------------------------------

DATA_ERRORS: dict[str, tuple[type[PenstockError], Callable[[Any], Any], str]] = {
    "NaN as key": (
        ProgramError,
        lambda s: s.key_by(lambda x: math.nan).sum(),
        r"returned NaN, which is not equal to itself[\s\S]*record: 1",
    ),
    "a list as key": (
        ProgramError,
        lambda s: s.key_by(lambda x: [x]).sum(),
        r"returned list \[1\], which is not hashable, for record 1",
    ),
    "an object as key": (
        ProgramError,
        lambda s: s.key_by(lambda x: object()).sum(),
        r"a key of type object has no stable hash[\s\S]*record: 1",
    ),
    "a huge key": (
        ProgramError,
        lambda s: s.key_by(lambda x: "k" * (17 << 20)).sum(),
        r"a key has 17,825,793 bytes; the limit is 16,777,216[\s\S]*record: 1",
    ),
    "no event time": (
        ProgramError,
        lambda s: s.key_by(lambda x: x).window(TumblingEventTimeWindows.of(10)).count(),
        r"record 1 has no timestamp. Call assign_timestamps_and_watermarks",
    ),
    "a timestamp that is no number": (
        ProgramError,
        lambda s: s.assign_timestamps_and_watermarks(
            WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda x: "noon")
        ),
        r"returned str 'noon' for record 1; a timestamp is an int in milliseconds",
    ),
    "a partition that does not exist": (
        ProgramError,
        lambda s: s.partition_custom(lambda k, n: 9, lambda x: x).map(str).set_parallelism(2),
        r"the partitioner of 'Map' returned 9 for record 1; it must return an int from 0 to 1",
    ),
    "keyed state without key": (
        UserFunctionError,
        lambda s: s.map(AsksForKeyedState()),
        r"asked for keyed state 'count', but its input is not keyed. Call key_by first",
    ),
    "None in a list": (
        UserFunctionError,
        lambda s: s.key_by(lambda x: x).process(AddsNone()),
        r"list state 'values' was given the element None",
    ),
    "a timer without key": (
        UserFunctionError,
        lambda s: s.process(SetsTimerWithoutKey()),
        r"timers belong to keys, but its input is not keyed",
    ),
    "a field that is not there": (
        UserFunctionError,
        lambda s: s.map(lambda x: (x, x)).key_by(lambda x: 0).sum(2),
        r"sum\(2\) finds no such field in a record of type tuple; its fields are 0, 1",
    ),
    "a process exit": (
        JobExecutionError,
        lambda s: s.map(lambda x: exit(3)),
        r"SystemExit: 3",
    ),
}


@pytest.mark.parametrize("name", DATA_ERRORS)
def test_errors_of_data(name: str) -> None:
    kind, build, text = DATA_ERRORS[name]
    with pytest.raises(kind) as caught:
        list(build(on("in-process").from_collection([1, 2])).execute_and_collect())
    assert re.search(text, str(caught.value)), str(caught.value)
    assert re.search(r"epoch:? 1", str(caught.value))


def test_what_cannot_be_sent_or_stored() -> None:
    """Locks: as a record between operators, as a result, as state."""
    stream = on("in-process").from_collection([1])
    with pytest.raises(ProgramError, match=r"record <unlocked .*cannot be sent to the next op"):
        list(
            stream.map(lambda x: threading.Lock())
            .rebalance()
            .map(str)
            .set_parallelism(2)
            .execute_and_collect()
        )
    with pytest.raises(ProgramError, match=r"execute_and_collect\(\) cannot be sent to the prog"):
        list(stream.map(lambda x: threading.Lock()).execute_and_collect())
    with pytest.raises(StateError, match=r"holds a value that cannot be pickled.*lock"):
        list(stream.key_by(lambda x: x).process(KeepsALock()).uid("p").execute_and_collect())


LOCK = threading.Lock()


def locked(value: Any) -> Any:
    with LOCK:
        return value


@pytest.mark.spark
def test_functions_that_cannot_travel(spark_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script: what is defined there travels by value."""
    monkeypatch.setattr(locked, "__module__", "__main__")
    stream = on("local[2]").from_collection([1])
    with pytest.raises(ProgramError, match=r"function of operator 'guard' cannot be sent to Spark"):
        list(stream.map(locked).name("guard").execute_and_collect())
    with pytest.raises(ProgramError, match=r"key selector or partitioner before operator 'Sum'"):
        list(stream.key_by(locked).sum().execute_and_collect())


# -- what is wrong with the program ----------------------------------------------------------------


def twice_the_same_uid(stream: Any) -> Any:
    return stream.map(str).uid("a").map(str).uid("a")


PROGRAM_ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a uid twice": (twice_the_same_uid, r"uid 'a' is already that of operator 'Map'"),
    "forward to another parallelism": (
        lambda s: s.forward().map(str).set_parallelism(2).execute_and_collect(),
        r"forward\(\) from 'Source: .*' \(parallelism 1\) to 'Map' \(parallelism 2\) needs equal",
    ),
    "no function": (lambda s: s.map(3), r"int 3 was given where a MapFunction or a callable"),
    "a class": (lambda s: s.map(FailsToOpen), r"(?i)are the brackets missing"),
    "the wrong kind of function": (
        lambda s: s.process(FailingTimer()),
        r"FailingTimer is a KeyedProcessFunction, but the stream has no key",
    ),
    "rebalance of keys": (
        lambda s: s.key_by(lambda x: x).rebalance(),
        r"rebalance\(\) cannot be called on a KeyedStream",
    ),
    "a stream of another environment": (
        lambda s: s.union(on("in-process").from_collection([1])),
        r"another StreamExecutionEnvironment",
    ),
    "side output of a side output": (
        lambda s: s.get_side_output(OutputTag("a")).get_side_output(OutputTag("b")),
        r"was called on a side output",
    ),
    "no type": (lambda s: s.map(str, output_type="INT"), r"output_type"),
    "parallelism 0": (lambda s: s.map(str).set_parallelism(0), r"at least 1"),
    "no sink": (lambda s: s.sink_to(FileSink), r"are the brackets missing"),
    "lateness that is no time": (
        lambda s: (
            s.key_by(lambda x: x).window(TumblingEventTimeWindows.of(10)).allowed_lateness("soon")
        ),
        r"soon",
    ),
}


@pytest.mark.parametrize("name", PROGRAM_ERRORS)
def test_errors_of_programs(name: str) -> None:
    """They come from the line that is wrong, before anything runs."""
    build, text = PROGRAM_ERRORS[name]
    with pytest.raises(PenstockError, match=text):
        build(on("in-process").from_collection([1]))
