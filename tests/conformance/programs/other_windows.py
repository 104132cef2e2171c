"""Count and global windows, windows of the clock, triggers, evictors, assigners of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Time
from penstock.datastream.functions import ProcessWindowFunction, WindowFunction
from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)

from . import program
from .event_windows import Show
from .kit import scheduled, timed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NUMBERS = [("a", n) for n in range(1, 8)] + [("b", 10), ("b", 20), ("b", 30)]


class Values(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, [value for _, value, *_ in inputs]


# -- counts ----------------------------------------------------------------------------------------


@program(spark=True)
def count_windows(env):
    """Windows that are not full at the end give nothing."""
    stream = env.from_collection(NUMBERS).key_by(lambda r: r[0]).count_window(3).apply(Values())
    return stream, [("a", [1, 2, 3]), ("a", [4, 5, 6]), ("b", [10, 20, 30])]


@program()
def sliding_count_windows(env):
    stream = env.from_collection(NUMBERS).key_by(lambda r: r[0]).count_window(3, 2).apply(Values())
    return stream, [("a", [1, 2, 3]), ("a", [3, 4, 5]), ("a", [5, 6, 7]), ("b", [10, 20, 30])]


@program()
def count_windows_with_built_in_functions(env):
    stream = env.from_collection(NUMBERS).key_by(lambda r: r[0]).count_window(3).sum(1)
    return stream, [("a", 6), ("a", 15), ("b", 60)]


@program()
def ids_of_count_windows(env):
    class Ids(ProcessWindowFunction[Any, Any, Any, CountWindow]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield key, context.window().id

    stream = env.from_collection(NUMBERS).key_by(lambda r: r[0]).count_window(3).process(Ids())
    return stream, [("a", 0), ("a", 1), ("b", 0)]


@program()
def global_windows_fire_by_trigger_only(env):
    numbers = env.from_collection(NUMBERS).key_by(lambda r: r[0])
    never = numbers.window(GlobalWindows.create()).apply(Values())
    kept = numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).apply(Values())
    purged = (
        numbers.window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .apply(Values())
    )
    return never.union(kept.map(lambda r: ("kept", *r)), purged), [
        ("kept", "a", [1, 2, 3]),
        ("kept", "a", [1, 2, 3, 4, 5, 6]),
        ("kept", "b", [10, 20, 30]),
        ("a", [1, 2, 3]),
        ("a", [4, 5, 6]),
        ("b", [10, 20, 30]),
    ]


# -- triggers --------------------------------------------------------------------------------------


def one_window(env: Any, trigger: Any) -> Any:
    records = [("k", 1, 2), ("k", 2, 11), ("k", 3, 12), ("k", 4, 38), ("k", 5, 39), ("k", 6, 70)]
    return (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(50))
        .trigger(trigger)
        .process(Show())
    )


@program()
def continuous_event_time_trigger(env):
    """Fires every 10 while the window lives, and at its end."""
    # Watermarks behind the records: 1, 10, 11, 37, 38, 69. Fire times 10, 20, 30, 40 and 49; the
    # first firing registers the next from where it was, so 20 and 30 both fire behind record 4.
    return one_window(env, ContinuousEventTimeTrigger.of(10)), [
        ("k", 0, 50, [1, 2]),
        ("k", 0, 50, [1, 2, 3, 4]),
        ("k", 0, 50, [1, 2, 3, 4]),
        ("k", 0, 50, [1, 2, 3, 4, 5]),
        ("k", 0, 50, [1, 2, 3, 4, 5]),
        # 70 registers 80, 90 and 99: the end of the input fires all.
        ("k", 50, 100, [6]),
        ("k", 50, 100, [6]),
        ("k", 50, 100, [6]),
    ]


@program()
def count_trigger_in_time_windows(env):
    """Without a time trigger the end of a window gives nothing."""
    return one_window(env, CountTrigger.of(2)), [("k", 0, 50, [1, 2]), ("k", 0, 50, [1, 2, 3, 4])]


@program()
def purging_event_time_trigger(env):
    """What fired is gone: a late record fires alone."""
    records = [("k", 1, 3), ("k", 2, 12), ("k", 3, 5), ("k", 4, 6)]
    stream = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .trigger(PurgingTrigger.of(EventTimeTrigger.create()))
        .allowed_lateness(50)
        .process(Show())
    )
    return stream, [("k", 0, 10, [1]), ("k", 0, 10, [3]), ("k", 0, 10, [4]), ("k", 10, 20, [2])]


@program()
def delta_trigger(env):
    """Fires when a record is more than 5 above the one that fired last."""
    records = [("k", 1), ("k", 4), ("k", 6), ("k", 7), ("k", 12), ("k", 13)]
    stream = (
        env.from_collection(records)
        .key_by(lambda r: r[0])
        .window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(DeltaTrigger.of(5, lambda old, new: new[1] - old[1])))
        .apply(Values())
    )
    # 1 is the mark; 7 is 6 above it and the new mark; 13 is 6 above 7.
    return stream, [("k", [1, 4, 6, 7]), ("k", [12, 13])]


class EarlyAndOnTime(Trigger[Any, TimeWindow]):
    """A trigger of the user's: every second record, and the end of the window."""

    count = ReducingStateDescriptor("count", lambda x, y: x + y)

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Any
    ) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        count = ctx.get_partitioned_state(self.count)
        count.add(1)
        if count.get() < 2:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.count)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        ctx.get_partitioned_state(self.count).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@program(spark=True)
def trigger_of_the_user(env):
    # [0, 50): 1 and 2, then 3 and 4, then 5 at the end of the window.
    return one_window(env, EarlyAndOnTime()), [
        ("k", 0, 50, [1, 2]),
        ("k", 0, 50, [3, 4]),
        ("k", 0, 50, [5]),
        ("k", 50, 100, [6]),
    ]


@program()
def trigger_of_the_user_in_sessions(env):
    """The bridge merges two sessions with one record each: their counts add up and fire."""
    records = [("k", 1, 0), ("k", 2, 20), ("k", 3, 10)]
    stream = (
        timed(env, records, bound_ms=50)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(12))
        .trigger(EarlyAndOnTime())
        .process(Show())
        .map(lambda r: (*r[:3], sorted(r[3])))
    )
    return stream, [("k", 0, 32, [1, 2, 3])]


# -- evictors --------------------------------------------------------------------------------------


def evicted(env: Any, evictor: Any) -> Any:
    records = [("k", 1, 1), ("k", 9, 4), ("k", 3, 5), ("k", 8, 8)]
    return (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .evictor(evictor)
    )


@program()
def count_evictor(env):
    return evicted(env, CountEvictor.of(2)).process(Show()), [("k", 0, 10, [3, 8])]


@program()
def time_evictor(env):
    """Keeps what is less than 4 before the newest, at 8."""
    return evicted(env, TimeEvictor.of(Time.milliseconds(4))).process(Show()), [
        ("k", 0, 10, [3, 8])
    ]


@program()
def delta_evictor(env):
    """Keeps what differs from the last record, 8, by less than 2."""
    evictor = DeltaEvictor.of(2, lambda record, last: abs(record[1] - last[1]))
    return evicted(env, evictor).process(Show()), [("k", 0, 10, [9, 8])]


@program()
def evictor_before_reduce_and_aggregate(env):
    reduced = evicted(env, CountEvictor.of(3)).reduce(lambda x, y: (x[0], x[1] + y[1], 0))
    return reduced.union(evicted(env, CountEvictor.of(1)).count()), [("k", 20, 0), 1]


class Odd(Evictor):
    """An evictor of the user's: drops odd values after the function saw them."""

    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        elements[:] = [element for element in elements if element.value[1] % 2 == 0]


@program()
def evictor_of_the_user(env):
    stream = (
        env.from_collection(NUMBERS)
        .key_by(lambda r: r[0])
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(3))
        .evictor(Odd())
        .apply(Values())
    )
    # What the evictor leaves stays for the next firing.
    return stream, [("a", [1, 2, 3]), ("a", [2, 4, 5, 6]), ("b", [10, 20, 30])]


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

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger.create()

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
