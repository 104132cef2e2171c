"""Watermark strategies, generators of the user's, idleness, alignment, the end of input."""

from __future__ import annotations

from typing import Any

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream.connectors import PythonSource
from penstock.datastream.connectors.python import Timestamped, Watermark
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction
from penstock.datastream.window import TumblingEventTimeWindows

from . import program
from .event_windows import Show
from .kit import MAX, MIN, ShowTime, at_each_record, timed


class Seen(ProcessFunction):
    """The watermark before each record."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        assert record_timestamp == MIN
        return value[1]


@program(spark=True)
def bounded_disorder(env):
    """Periodic watermarks come behind reads: before the first one there is none."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(5)
    ).with_timestamp_assigner(EventTime())
    stream = (
        env.from_collection([("a", 10), ("b", 30), ("c", 8)])
        .assign_timestamps_and_watermarks(strategy)
        .process(ShowTime())
    )
    return stream, [(10, ("a", 10)), (30, ("b", 30)), (8, ("c", 8))]


@program()
def watermarks_at_each_record(env):
    stream = timed(env, [("a", 10), ("b", 30), ("c", 8), ("d", 31)], bound_ms=5).process(Seen())
    return stream.set_parallelism(1), [
        (("a", 10), MIN),
        (("b", 30), 4),
        (("c", 8), 24),
        (("d", 31), 24),
    ]


@program()
def monotonous_and_none(env):
    def windows(strategy: WatermarkStrategy) -> Any:
        return (
            env.from_collection([("k", 1, 5), ("k", 2, 15)])
            .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda r, t: r[2]))
            .key_by(lambda r: r[0])
            .window(TumblingEventTimeWindows.of(10))
            .process(Show())
        )

    stream = windows(WatermarkStrategy.for_monotonous_timestamps())
    # Without watermarks the end of the input closes all windows.
    both = [("k", 0, 10, [1]), ("k", 10, 20, [2])]
    return stream.union(windows(WatermarkStrategy.no_watermarks())), both + both


class Punctuated(WatermarkGenerator):
    """Records that say 'tick' carry a watermark."""

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        if event[0] == "tick":
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: Any) -> None:
        pass


@program(spark=True)
def punctuated_watermarks(env):
    records = [("a", 5), ("tick", 4), ("b", 3), ("tick", 2), ("c", 9), ("tick", 9), ("d", 1)]
    stream = (
        env.from_collection(records)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda r: r[1])
        )
        .set_parallelism(1)
        .process(Seen())
        .set_parallelism(1)
    )
    # A watermark below the last one is ignored.
    return stream, [
        (("a", 5), MIN),
        (("tick", 4), MIN),
        (("b", 3), 4),
        (("tick", 2), 4),
        (("c", 9), 4),
        (("tick", 9), 4),
        (("d", 1), 9),
    ]


class Lines(PythonSource):
    """Splits of a source that knows event time and watermarks."""

    bounded = True
    emits_own_watermarks = True

    def __init__(self, splits: dict[str, list[Any]]) -> None:
        self.data = splits

    def splits(self) -> list[str]:
        return list(self.data)

    def end_offset(self, split: str) -> int:
        return len(self.data[split])

    def read(self, split: str, start: int, end: int) -> Any:
        for item in self.data[split][start:end]:
            yield Watermark(item) if isinstance(item, int) else Timestamped(*item)


@program(spark=True)
def source_with_its_own_watermarks(env):
    source = Lines({"only": [(("k", 1), 5), (("k", 2), 9), 12, (("k", 3), 8), (("k", 4), 15)]})
    stream = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        .set_parallelism(1)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .process(Show())
    )
    # 3 comes behind the watermark 12 and is late for [0, 10).
    return stream, [("k", 0, 10, [1, 2]), ("k", 10, 20, [4])]


@program()
def slowest_input_decides(env):
    """A union waits for the slower stream; the end of one no longer holds it back."""
    fast = timed(env, [("fast", 100), ("fast", 200)])
    slow = timed(env, [("slow", 10), ("slow", 300)])

    class TimerAtOwnTime(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield timestamp, ctx.get_current_key()

    stream = fast.union(slow).key_by(lambda r: r[0]).process(TimerAtOwnTime())
    return stream.set_parallelism(1), [(10, "slow"), (100, "fast"), (200, "fast"), (300, "slow")]


class Silent(PythonSource):
    """A split without records that ends only when the other one is read."""

    bounded = True

    def splits(self) -> list[str]:
        return ["empty"]

    def end_offset(self, split: str) -> int:
        return 0

    def read(self, split: str, start: int, end: int) -> Any:
        return []


@program()
def an_empty_source_ends(env):
    empty = env.from_source(Silent(), at_each_record(), "silent")
    stream = empty.union(timed(env, [("k", 1, 3)])).key_by(lambda r: r[0])
    return stream.window(TumblingEventTimeWindows.of(10)).process(Show()), [("k", 0, 10, [1])]


@program(spark=True)
def the_end_fires_everything(env):
    class Watermarks(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(10**15)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield timestamp, ctx.timer_service().current_watermark()

    stream = timed(env, [("a", 1), ("b", 2)]).key_by(lambda r: r[0]).process(Watermarks())
    return stream, [(10**15, MAX), (10**15, MAX)]


@program()
def strategies_are_handed_on(env):
    """An assigner without generator keeps event time; a second one replaces both."""
    stream = (
        timed(env, [("a", 1, 50), ("b", 2, 60)])
        .assign_timestamps_and_watermarks(at_each_record(time=lambda r: r[1]))
        .set_parallelism(1)
        .process(ShowTime())
    )
    return stream, [(1, ("a", 1, 50)), (2, ("b", 2, 60))]


# -- batch mode ------------------------------------------------------------------------------------


@program(spark=True)
def batch_gives_final_results_only(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    records = env.from_collection([("a", 3), ("b", 5), ("a", 4), ("a", 1)])
    keyed = records.key_by(lambda r: r[0])
    stream = (
        keyed.reduce(lambda x, y: (x[0], x[1] + y[1]))
        .union(keyed.max(1).map(lambda r: ("max", *r)))
        .union(keyed.min_by(1).map(lambda r: ("min", *r)))
    )
    return stream, [
        ("a", 8),
        ("b", 5),
        ("max", "a", 4),
        ("max", "b", 5),
        ("min", "a", 1),
        ("min", "b", 5),
    ]


@program()
def batch_has_no_late_records(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = (
        timed(env, [("k", 1, 5), ("k", 2, 100), ("k", 3, 6)])
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .process(Show())
    )
    return stream, [("k", 0, 10, [1, 3]), ("k", 100, 110, [2])]


@program()
def automatic_mode_is_batch_for_bounded_input(env):
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    stream = env.from_collection([("a", 3), ("a", 4)]).key_by(lambda r: r[0]).sum(1)
    return stream, [("a", 7)]
