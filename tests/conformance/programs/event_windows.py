"""Windows of event time: assigners, lateness, functions."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.common import Time
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    ProcessWindowFunction,
)
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

from . import program
from .kit import MAX, MIN, timed

if TYPE_CHECKING:
    from collections.abc import Iterable

CLICKS = [("a", 1, 1_000), ("b", 2, 4_000), ("a", 3, 9_999), ("a", 4, 10_000), ("b", 5, 27_000)]


class Show(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """Key, window and records, in the order of their arrival."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, [value for _, value, *_ in elements]


@program(spark=True)
def tumbling(env):
    stream = (
        timed(env, CLICKS)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(Show())
    )
    return stream, [
        ("a", 0, 10_000, [1, 3]),
        ("a", 10_000, 20_000, [4]),
        ("b", 0, 10_000, [2]),
        ("b", 20_000, 30_000, [5]),
    ]


@program()
def tumbling_with_offset(env):
    """Windows begin at 2, 12, 22 seconds; the first at -8."""
    stream = (
        timed(env, CLICKS)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10), Time.seconds(2)))
        .process(Show())
    )
    return stream, [
        ("a", -8_000, 2_000, [1]),
        ("a", 2_000, 12_000, [3, 4]),
        ("b", 2_000, 12_000, [2]),
        ("b", 22_000, 32_000, [5]),
    ]


@program(spark=True)
def sliding(env):
    records = [("a", 1, 1_000), ("a", 2, 6_000), ("a", 3, 12_000)]
    stream = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
        .process(Show())
    )
    return stream, [
        ("a", -5_000, 5_000, [1]),
        ("a", 0, 10_000, [1, 2]),
        ("a", 5_000, 15_000, [2, 3]),
        ("a", 10_000, 20_000, [3]),
    ]


@program()
def sliding_with_gaps(env):
    """The slide is longer than the size: a record between windows is in none, and not late."""
    late = OutputTag("late")
    windows = (
        timed(env, [("a", n, n * 1_000) for n in range(10)])
        .key_by(lambda r: r[0])
        .window(SlidingEventTimeWindows.of(2_000, 5_000, 1_000))
        .side_output_late_data(late)
        .process(Show())
    )
    return windows.union(windows.get_side_output(late)), [
        ("a", 1_000, 3_000, [1, 2]),
        ("a", 6_000, 8_000, [6, 7]),
    ]


@program()
def before_1970_and_extreme_times(env):
    """Windows tile the whole range of times; sums of times stop at its ends."""
    records = [("a", 1, MIN + 1), ("a", 2, -1), ("a", 3, 0), ("a", 4, MAX - 1)]
    stream = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .process(Show())
    )

    def check(found: list[Any]) -> None:
        assert ("a", -10, 0, [2]) in found
        assert ("a", 0, 10, [3]) in found
        assert sorted(values for *_, values in found) == [[1], [2], [3], [4]]
        for _, start, end, _ in found:
            assert MIN <= start < end <= MAX

    return stream, check


def session_model(records: list[Any], gap: int) -> list[Any]:
    """Sessions of each key over all records: sort by time, split where the gap is exceeded."""
    by_key = defaultdict(list)
    for key, value, time in records:
        by_key[key].append((time, value))
    sessions = []
    for key, items in by_key.items():
        items.sort()
        start, end, values = items[0][0], items[0][0] + gap, [items[0][1]]
        for time, value in items[1:]:
            # Windows that touch are one session.
            if time <= end:
                end = max(end, time + gap)
                values.append(value)
            else:
                sessions.append((key, start, end, sorted(values)))
                start, end, values = time, time + gap, [value]
        sessions.append((key, start, end, sorted(values)))
    return sessions


@program(spark=True)
def sessions(env):
    records = [
        ("a", 1, 1_000),
        ("a", 2, 5_000),
        ("b", 3, 6_000),
        ("a", 4, 10_000),
        ("a", 5, 15_001),
    ]
    stream = (
        timed(env, records, bound_ms=20_000)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
        .process(Show())
    )
    # 5,000 + 5,000 touches 10,000, so a's first three are one session; 15,001 is 1 ms too late.
    return stream, [
        ("a", 1_000, 15_000, [1, 2, 4]),
        ("a", 15_001, 20_001, [5]),
        ("b", 6_000, 11_000, [3]),
    ]


@program(spark=True)
def sessions_against_a_model(env):
    """Disorder within the bound: bridges, merges of several windows."""
    random = Random(5)
    times = sorted(random.randrange(0, 6_000) for _ in range(120))
    records = [
        (random.choice("abc"), number, max(0, time - random.randrange(0, 400)))
        for number, time in enumerate(times)
    ]
    stream = (
        timed(env, records, bound_ms=400)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(60))
        .process(Show())
        .map(lambda r: (*r[:3], sorted(r[3])))
    )
    return stream, session_model(records, 60)


class GapOfRecord(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[1]


@program()
def sessions_with_dynamic_gap(env):
    """The second field is the gap; a later, shorter gap never shrinks a session."""
    records = [("a", 100, 0), ("a", 10, 50), ("a", 30, 100), ("a", 5, 131), ("a", 7, 200)]
    stream = (
        timed(env, records, bound_ms=1_000)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_dynamic_gap(GapOfRecord()))
        .process(Show())
    )
    # [0, 100) and [50, 60) and [100, 130) meet; [131, 136) does not touch 130.
    return stream, [("a", 0, 130, [100, 10, 30]), ("a", 131, 136, [5]), ("a", 200, 207, [7])]


# -- lateness --------------------------------------------------------------------------------------

LATE = OutputTag("late")


def late_records(env: Any, allowed_ms: int) -> Any:
    """Windows of 10 over ordered watermarks (newest - 1), with records that come behind them."""
    records = [("k", 1, 3), ("k", 2, 12), ("k", 3, 5), ("k", 4, 25), ("k", 5, 11), ("k", 6, 4)]
    windows = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .allowed_lateness(allowed_ms)
        .side_output_late_data(LATE)
        .process(Show())
    )
    return windows.union(windows.get_side_output(LATE).map(lambda r: ("late", r)))


@program(spark=True)
def late_records_go_aside(env):
    # Watermarks behind the records: 2, 11, 11, 24, 24, 24. 3 is late for [0, 10), 5 for [10, 20).
    return late_records(env, 0), [
        ("k", 0, 10, [1]),
        ("late", ("k", 3, 5)),
        ("k", 10, 20, [2]),
        ("late", ("k", 5, 11)),
        ("late", ("k", 6, 4)),
        ("k", 20, 30, [4]),
    ]


@program()
def allowed_lateness_fires_again(env):
    # [0, 10) lives while the watermark is below 9 + 6 = 15: 3 fires it again, 6 is too late.
    # [10, 20) lives while it is below 25: 5 fires it again.
    return late_records(env, 6), [
        ("k", 0, 10, [1]),
        ("k", 0, 10, [1, 3]),
        ("k", 10, 20, [2]),
        ("k", 10, 20, [2, 5]),
        ("late", ("k", 6, 4)),
        ("k", 20, 30, [4]),
    ]


@program()
def exactly_on_the_watermark(env):
    """A window is late once the watermark reaches its last instant, not before."""
    records = [("k", 1, 0), ("k", 2, 9), ("k", 3, 0), ("k", 4, 10), ("k", 5, 0)]
    stream = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .process(Show())
    )
    # Behind 2 the watermark is 8, so 3 is in time; behind 4 it is 9, so 5 is late and dropped.
    return stream, [("k", 0, 10, [1, 2, 3]), ("k", 10, 20, [4])]


@program()
def late_for_some_windows_only(env):
    """A record in time for one of its windows is not late."""
    records = [("k", 1, 12), ("k", 2, 21), ("k", 3, 14)]
    windows = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(SlidingEventTimeWindows.of(20, 10))
        .side_output_late_data(LATE)
        .process(Show())
    )
    # Watermark 20 behind record 2 has closed [0, 20); record 3 still belongs to [10, 30).
    return windows.union(windows.get_side_output(LATE)), [
        ("k", 0, 20, [1]),
        ("k", 10, 30, [1, 2, 3]),
        ("k", 20, 40, [2]),
    ]


@program()
def late_sessions(env):
    """A late record that touches a living session joins it; alone it is late."""
    records = [("k", 1, 10), ("k", 2, 30), ("k", 3, 13), ("k", 4, 29)]
    windows = (
        timed(env, records)
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(5))
        .side_output_late_data(LATE)
        .process(Show())
    )
    late = windows.get_side_output(LATE).map(lambda r: ("late", r[1]))
    # Behind 2 the watermark is 29: [10, 15) is gone, so [13, 18) is late; [29, 34) joins [30, 35).
    return windows.union(late), [("k", 10, 15, [1]), ("late", 3), ("k", 29, 35, [2, 4])]
