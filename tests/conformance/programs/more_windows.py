"""Assigners of the user's own, and windows of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Time
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)

from . import program
from .event_windows import Show
from .kit import scheduled, timed
from .other_windows import Values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.common.serializer import TypeSerializer

# -- assigners of the user's -----------------------------------------------------------------------


class Letters(Window):
    """A window of the user's: the first letter of a word."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def max_timestamp(self) -> int:
        return ord(self.letter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letters) and other.letter == self.letter

    def __hash__(self) -> int:
        return hash(self.letter)


class ByLetter(WindowAssigner[str, Letters]):
    def assign_windows(self, element: str, timestamp: int, context: Any) -> Collection[Letters]:
        return [Letters(letter) for letter in sorted(set(element))]

    # As Flink's documents show it: an argument without default, and a serializer.
    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


@program()
def assigner_of_the_user(env):
    class Words(ProcessWindowFunction[str, Any, int, Letters]):
        def process(self, key: int, context: Any, elements: Iterable[str]) -> Iterable[Any]:
            yield context.window().letter, sorted(elements)

    stream = (
        timed(env, [("ab", 1), ("bc", 2), ("a", 3)])
        .map(lambda r: r[0])
        .set_parallelism(1)
        .key_by(lambda word: 0)
        .window(ByLetter())
        .process(Words())
    )
    return stream, [("a", ["a", "ab"]), ("b", ["ab", "bc"]), ("c", ["bc"])]


class Nearby(MergingWindowAssigner[Any, TimeWindow]):
    """Sessions by the user's own hand: a gap of 5 that does not merge what only touches."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Collection[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 5)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        groups: list[list[TimeWindow]] = []
        for window in sorted(windows):
            if groups and window.start < max(found.end for found in groups[-1]):
                groups[-1].append(window)
            else:
                groups.append([window])
        for group in groups:
            if len(group) > 1:
                callback.merge(group, TimeWindow(group[0].start, max(w.end for w in group)))

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


@program()
def merging_assigner_of_the_user(env):
    records = [("k", 1, 0), ("k", 2, 4), ("k", 3, 9), ("k", 4, 20)]
    stream = timed(env, records).key_by(lambda r: r[0]).window(Nearby()).process(Show())
    return stream, [("k", 0, 9, [1, 2]), ("k", 9, 14, [3]), ("k", 20, 25, [4])]


# -- windows of the clock --------------------------------------------------------------------------

CLOCK = [
    (1_000, ("k", 1)),
    (1_900, ("k", 2)),
    (2_000, ("k", 3)),
    (2_999, None),
    (4_100, ("j", 4)),
    (4_100, ("k", 5)),
    (5_500, None),
    (5_600, ("k", 6)),
]


@program(clocked=True)
def tumbling_windows_of_the_clock(env):
    stream = (
        scheduled(env, CLOCK)
        .key_by(lambda r: r[0])
        .window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
        .process(Show())
    )
    # The window of record 6 is still open when the input ends, and is dropped with its timer.
    return stream, [
        ("k", 1_000, 2_000, [1, 2]),
        ("k", 2_000, 3_000, [3]),
        ("j", 4_000, 5_000, [4]),
        ("k", 4_000, 5_000, [5]),
    ]


@program(clocked=True)
def sliding_windows_of_the_clock(env):
    stream = (
        scheduled(env, CLOCK)
        .key_by(lambda r: r[0])
        .window(SlidingProcessingTimeWindows.of(2_000, 1_000))
        .process(Show())
        .filter(lambda r: r[0] == "k")
    )
    return stream, [
        ("k", 0, 2_000, [1, 2]),
        ("k", 1_000, 3_000, [1, 2, 3]),
        ("k", 2_000, 4_000, [3]),
        ("k", 3_000, 5_000, [5]),
    ]


@program(clocked=True)
def sessions_of_the_clock(env):
    stream = (
        scheduled(env, CLOCK)
        .key_by(lambda r: r[0])
        .window(ProcessingTimeSessionWindows.with_gap(1_000))
        .process(Show())
    )
    return stream, [
        ("k", 1_000, 3_000, [1, 2, 3]),
        ("j", 4_100, 5_100, [4]),
        ("k", 4_100, 5_100, [5]),
    ]


@program(clocked=True)
def continuous_trigger_of_the_clock(env):
    schedule = [
        (0, ("k", 1)),
        (999, None),
        (1_000, None),
        (1_500, ("k", 2)),
        (2_000, None),
        (3_999, None),
        (4_500, None),
    ]
    stream = (
        scheduled(env, schedule)
        .key_by(lambda r: r[0])
        .window(TumblingProcessingTimeWindows.of(4_000))
        .trigger(ContinuousProcessingTimeTrigger.of(1_000))
        .process(Show())
    )
    # Fires at 1,000, 2,000, and at 3,999 for what was due at 3,000 and for the end.
    return stream, [
        ("k", 0, 4_000, [1]),
        ("k", 0, 4_000, [1, 2]),
        ("k", 0, 4_000, [1, 2]),
        ("k", 0, 4_000, [1, 2]),
    ]


@program(clocked=True)
def global_window_with_a_trigger_of_the_clock(env):
    class EverySecond(Trigger[Any, Any]):
        due = ValueStateDescriptor("due")

        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            due = ctx.get_partitioned_state(self.due)
            if due.value() is None:
                due.update(ctx.get_current_processing_time() + 1_000)
                ctx.register_processing_time_timer(due.value())
            return TriggerResult.CONTINUE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            ctx.get_partitioned_state(self.due).clear()
            return TriggerResult.FIRE_AND_PURGE

        def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

        def clear(self, window: Any, ctx: Any) -> None:
            ctx.get_partitioned_state(self.due).clear()

    stream = (
        scheduled(env, CLOCK)
        .filter(lambda r: r[0] == "k")
        .key_by(lambda r: r[0])
        .window(GlobalWindows.create())
        .trigger(EverySecond())
        .apply(Values())
    )
    assert ProcessingTimeTrigger.create().can_merge()
    return stream, [("k", [1, 2]), ("k", [3]), ("k", [5])]
