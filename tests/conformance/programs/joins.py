"""Joins: in windows, in intervals, of groups."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

from . import program
from .kit import ShowTime, at_each_record, timed

if TYPE_CHECKING:
    from collections.abc import Iterable

# -- joins -----------------------------------------------------------------------------------------

LEFT = [("a", "l1", 2), ("a", "l2", 5), ("b", "l3", 7), ("a", "l4", 13)]
RIGHT = [("a", "r1", 1), ("c", "r5", 3), ("b", "r2", 4), ("a", "r3", 9), ("a", "r4", 15)]


class Names(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[1] + second[1]


@program(spark=True)
def window_join(env):
    stream = (
        timed(env, LEFT)
        .join(timed(env, RIGHT))
        .where(lambda r: r[0])
        .equal_to(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .apply(Names())
    )
    return stream.process(ShowTime()), [
        (9, "l1r1"),
        (9, "l1r3"),
        (9, "l2r1"),
        (9, "l2r3"),
        (9, "l3r2"),
        (19, "l4r4"),
    ]


@program()
def window_join_with_functions(env):
    class Twice(FlatJoinFunction):
        def join(self, first: Any, second: Any) -> Any:
            if first[0] == "b":
                yield first[1]
                yield second[1]

    def joined() -> Any:
        return (
            timed(env, LEFT)
            .join(timed(env, RIGHT))
            .where(lambda r: r[0])
            .equal_to(lambda r: r[0])
            .window(EventTimeSessionWindows.with_gap(3))
        )

    stream = joined().apply(Twice()).union(joined().apply(lambda x, y: (x[1], y[1])))
    # Sessions of a: [1, 8) with l1 l2 r1, [9, 12) with r3, [13, 18) with l4 r4. Those of b, [4, 7)
    # and [7, 10), touch and are one.
    return stream, ["l3", "r2", ("l1", "r1"), ("l2", "r1"), ("l4", "r4"), ("l3", "r2")]


class Groups(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Any:
        yield sorted(r[1] for r in first), sorted(r[1] for r in second)


@program(spark=True)
def co_group(env):
    stream = (
        timed(env, LEFT)
        .co_group(timed(env, RIGHT))
        .where(lambda r: r[0])
        .equal_to(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(10))
        .apply(Groups())
    )
    return stream, [
        (["l1", "l2"], ["r1", "r3"]),
        (["l3"], ["r2"]),
        ([], ["r5"]),
        (["l4"], ["r4"]),
    ]


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        assert ctx.get_timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left[1], right[1], ctx.get_right_timestamp() - ctx.get_left_timestamp()


def interval_model(lower: int, upper: int, left: list[Any], right: list[Any]) -> list[Any]:
    return [
        (one[1], two[1], two[-1] - one[-1])
        for one in left
        for two in right
        if one[0] == two[0] and lower <= two[-1] - one[-1] <= upper
    ]


@program(spark=True)
def interval_join(env):
    stream = (
        timed(env, LEFT)
        .key_by(lambda r: r[0])
        .interval_join(timed(env, RIGHT).key_by(lambda r: r[0]))
        .between(-3, 4)
        .process(Pairs())
    )
    # r - l: l1 with r1 (-1); l2 with r3 (4); l3 with r2 (-3); l4 with r4 (2). Not l2 with r1 (-4).
    return stream, [("l1", "r1", -1), ("l2", "r3", 4), ("l3", "r2", -3), ("l4", "r4", 2)]


@program()
def interval_join_without_bounds(env):
    stream = (
        timed(env, LEFT)
        .key_by(lambda r: r[0])
        .interval_join(timed(env, RIGHT).key_by(lambda r: r[0]))
        .between(-3, 4)
        .lower_bound_exclusive()
        .upper_bound_exclusive()
        .process(lambda left, right, ctx: [left[1] + right[1]])
    )
    return stream, ["l1r1", "l4r4"]


@program(spark=True)
def interval_join_against_a_model(env):
    random = Random(17)

    def records(name: str) -> list[Any]:
        times = sorted(random.randrange(0, 500) for _ in range(60))
        return [
            (random.choice("ab"), f"{name}{i}", max(0, t - random.randrange(8)))
            for i, t in enumerate(times)
        ]

    left, right = records("l"), records("r")

    def stream(data: list[Any]) -> Any:
        # Disorder within the bound, in one subtask: nothing is late.
        return (
            env.from_collection(data)
            .assign_timestamps_and_watermarks(at_each_record(8))
            .set_parallelism(1)
            .key_by(lambda r: r[0])
        )

    joined = stream(left).interval_join(stream(right)).between(-5, 12).process(Pairs())
    return joined, interval_model(-5, 12, left, right)


@program()
def stream_joined_with_itself(env):
    """A diamond of keys: both sides come from one operator."""
    counts = timed(env, [("a", 1, 1), ("a", 2, 4), ("b", 3, 5)])
    keyed = counts.key_by(lambda r: r[0])
    stream = keyed.interval_join(keyed).between(1, 10).process(lambda x, y, ctx: [(x[1], y[1])])
    return stream, [(1, 2)]
