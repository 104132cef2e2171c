"""What is done with the contents of windows of event time, and windows over everything."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.common import Time
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

from . import program
from .event_windows import CLICKS
from .kit import ShowTime, timed

if TYPE_CHECKING:
    from collections.abc import Iterable

# -- what is done with the contents ----------------------------------------------------------------


def two_windows(env: Any) -> Any:
    records = [("a", 1, 1), ("a", 5, 3), ("b", 7, 4), ("a", 2, 12)]
    return timed(env, records).key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(10))


@program(spark=True)
def reduce_in_windows(env):
    stream = two_windows(env).reduce(lambda x, y: (x[0], x[1] + y[1], y[2]))
    return stream.process(ShowTime()), [
        (9, ("a", 6, 3)),
        (9, ("b", 7, 4)),
        (19, ("a", 2, 12)),
    ]


class OneResult(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        [result] = list(elements)
        yield key, context.window().end, result


@program()
def reduce_and_process(env):
    stream = two_windows(env).reduce(lambda x, y: (x[0], x[1] + y[1], 0), OneResult())
    return stream, [("a", 10, ("a", 6, 0)), ("b", 10, ("b", 7, 4)), ("a", 20, ("a", 2, 12))]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


@program(spark=True)
def aggregate_in_windows(env):
    return two_windows(env).aggregate(Mean()), [3.0, 7.0, 2.0]


@program()
def aggregate_and_process(env):
    stream = two_windows(env).aggregate(Mean(), OneResult())
    return stream, [("a", 10, 3.0), ("b", 10, 7.0), ("a", 20, 2.0)]


@program()
def aggregate_in_sessions(env):
    records = [("a", 1, 0), ("a", 3, 20), ("a", 8, 10), ("a", 100, 50)]
    stream = (
        timed(env, records, bound_ms=100)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(12))
        .aggregate(Mean(), OneResult())
    )
    # 10 bridges 0 and 20: the accumulators of both are merged.
    return stream, [("a", 32, 4.0), ("a", 62, 100.0)]


class Largest(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window.max_timestamp(), max(value for _, value, _ in inputs))]


@program()
def apply_a_window_function(env):
    return two_windows(env).apply(Largest()), [("a", 9, 5), ("b", 9, 7), ("a", 19, 2)]


@program()
def plain_functions_as_window_functions(env):
    def count(key: Any, context: Any, elements: Any) -> Any:
        yield key, len(list(elements))

    return two_windows(env).process(count), [("a", 2), ("b", 1), ("a", 1)]


@program()
def built_in_aggregates_of_windows(env):
    def named(name: str, stream: Any) -> Any:
        return stream.map(lambda r: (name, r))

    stream = named("sum", two_windows(env).sum(1)).union(
        named("min", two_windows(env).min(1)),
        named("max", two_windows(env).max(1)),
        named("min_by", two_windows(env).min_by(1)),
        named("max_by", two_windows(env).max_by(1)),
        named("count", two_windows(env).count()),
    )
    both = [("b", 7, 4), ("a", 2, 12)]
    expected = {
        "sum": [("a", 6, 1), *both],
        "min": [("a", 1, 1), *both],
        "max": [("a", 5, 1), *both],
        "min_by": [("a", 1, 1), *both],
        "max_by": [("a", 5, 3), *both],
        "count": [2, 1, 1],
    }
    return stream, [(name, record) for name, records in expected.items() for record in records]


class StateOfWindows(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """How often a window fired, how many windows its key had; `clear` tells what it clears."""

    fired = ValueStateDescriptor("fired")
    windows = ReducingStateDescriptor("windows", lambda x, y: x + y)

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        fired = context.window_state().get_state(self.fired)
        windows = context.global_state().get_reducing_state(self.windows)
        if fired.value() is None:
            windows.add(1)
        fired.update((fired.value() or 0) + 1)
        yield key, context.window().start, fired.value(), windows.get(), len(list(elements))

    def clear(self, context: Any) -> None:
        assert context.window_state().get_state(self.fired).value() is not None
        context.window_state().get_state(self.fired).clear()


@program(spark=True)
def state_per_window_and_per_key(env):
    records = [("k", 1, 3), ("k", 2, 12), ("k", 3, 5), ("k", 4, 6), ("j", 5, 13), ("k", 6, 40)]
    stream = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .allowed_lateness(15)
        .process(StateOfWindows())
    )
    return stream, [
        ("k", 0, 1, 1, 1),
        ("k", 0, 2, 1, 2),
        ("k", 0, 3, 1, 3),
        ("k", 10, 1, 2, 1),
        ("j", 10, 1, 1, 1),
        ("k", 40, 1, 3, 1),
    ]


# -- windows over everything -----------------------------------------------------------------------


class ShowAll(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, sorted(value for _, value, _ in elements)


@program(spark=True)
def window_all(env):
    stream = timed(env, CLICKS).window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
    return stream.process(ShowAll()), [(0, [1, 2, 3]), (10_000, [4]), (20_000, [5])]


class CountAll(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.end, len(list(inputs))


@program()
def window_all_in_other_ways(env):
    def windows() -> Any:
        return timed(env, CLICKS).window_all(TumblingEventTimeWindows.of(Time.seconds(10)))

    stream = (
        windows()
        .apply(CountAll())
        .union(windows().reduce(lambda x, y: ("", x[1] + y[1], 0)).map(lambda r: r[1]))
        .union(windows().aggregate(Mean()))
    )
    return stream, [(10_000, 3), (20_000, 1), (30_000, 1), 6, 4, 5, 2.0, 4.0, 5.0]


@program(spark=True)
def windows_over_windows(env):
    """Counts by key and 10 ms, summed over keys and 10 ms: results carry the window's time."""
    random = Random(11)
    records = [(random.randrange(9), n, n + random.randrange(5)) for n in range(200)]
    stream = (
        timed(env, records, bound_ms=5)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .count()
        .window_all(TumblingEventTimeWindows.of(10))
        .process(lambda context, counts: [(context.window().start, sum(counts))])
    )
    expected: dict[int, int] = defaultdict(int)
    for _, _, time in records:
        expected[time // 10 * 10] += 1
    return stream, list(expected.items())
