"""Count and global windows, windows of the clock, triggers, evictors, assigners of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Time
from penstock.datastream.functions import ProcessWindowFunction, WindowFunction
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    PurgingTrigger,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

from . import program
from .event_windows import Show
from .kit import timed

if TYPE_CHECKING:
    from collections.abc import Iterable

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
