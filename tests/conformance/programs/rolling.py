"""Keys: rolling reductions, aggregations, several keyed operators in a row, odd keys."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from itertools import accumulate
from typing import Any

from penstock.common import Row, Types
from penstock.datastream.functions import KeySelector, ReduceFunction

from . import program

SALES = [("a", 3), ("b", 5), ("a", 4), ("a", -1), ("b", 1), ("c", 7), ("a", 6)]


@program(spark=True)
def reduce_gives_every_step(env):
    stream = (
        env.from_collection(SALES).key_by(lambda r: r[0]).reduce(lambda x, y: (x[0], x[1] + y[1]))
    )
    # a: 3, 7, 6, 12; b: 5, 6; c: 7.
    return stream, [("a", 3), ("a", 7), ("a", 6), ("a", 12), ("b", 5), ("b", 6), ("c", 7)]


class Longest(ReduceFunction):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


@program()
def reduce_function_object(env):
    stream = env.from_collection(["aa", "b", "cccc", "dd"]).key_by(lambda w: 0).reduce(Longest())
    return stream, ["aa", "aa", "cccc", "cccc"]


@program()
def sum_by_position(env):
    stream = env.from_collection(SALES).key_by(lambda r: r[0]).sum(1)
    return stream, [("a", 3), ("a", 7), ("a", 6), ("a", 12), ("b", 5), ("b", 6), ("c", 7)]


ROWS = Types.ROW_NAMED(["shop", "amount", "day"], [Types.STRING(), Types.INT(), Types.INT()])
DAYS = [("a", 3, 1), ("a", 1, 2), ("a", 2, 3), ("b", 9, 4), ("a", 1, 5), ("b", 9, 6), ("b", 8, 7)]


@program(spark=True)
def min_keeps_other_fields_of_the_first(env):
    stream = env.from_collection(DAYS, ROWS).key_by(lambda r: r.shop).min("amount")
    return stream.map(tuple), [
        ("a", 3, 1),
        ("a", 1, 1),
        ("a", 1, 1),
        ("a", 1, 1),
        ("b", 9, 4),
        ("b", 9, 4),
        ("b", 8, 4),
    ]


@program()
def max_keeps_other_fields_of_the_first(env):
    stream = env.from_collection(DAYS).key_by(lambda r: r[0]).max(1)
    return stream, [
        ("a", 3, 1),
        ("a", 3, 1),
        ("a", 3, 1),
        ("a", 3, 1),
        ("b", 9, 4),
        ("b", 9, 4),
        ("b", 9, 4),
    ]


@program()
def min_by_keeps_the_record(env):
    """A tie keeps the first."""
    stream = env.from_collection(DAYS).key_by(lambda r: r[0]).min_by(1)
    return stream, [
        ("a", 3, 1),
        ("a", 1, 2),
        ("a", 1, 2),
        ("a", 1, 2),
        ("b", 9, 4),
        ("b", 9, 4),
        ("b", 8, 7),
    ]


@program()
def max_by_keeps_the_record(env):
    stream = env.from_collection(DAYS, ROWS).key_by(lambda r: r["shop"]).max_by("amount")
    return stream.map(tuple), [
        ("a", 3, 1),
        ("a", 3, 1),
        ("a", 3, 1),
        ("a", 3, 1),
        ("b", 9, 4),
        ("b", 9, 4),
        ("b", 9, 4),
    ]


class Shop(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


@program()
def key_selector_object_and_tuple_keys(env):
    stream = (
        env.from_collection(DAYS)
        .key_by(Shop(), key_type=Types.STRING())
        .map(lambda r: r)
        .key_by(lambda r: (r[0], r[1]))
        .reduce(lambda x, y: (x[0], x[1], x[2] + y[2]))
    )

    def check(records: list[Any]) -> None:
        last = {}
        for shop, amount, days in records:
            last[shop, amount] = max(days, last.get((shop, amount), 0))
        assert len(records) == 7
        assert last == {("a", 3): 1, ("a", 1): 7, ("a", 2): 3, ("b", 9): 10, ("b", 8): 7}

    return stream, check


@program()
def key_by_field_name_and_position(env):
    by_name = env.from_collection(DAYS, ROWS).key_by("shop").sum("amount").map(lambda r: r.amount)
    by_position = env.from_collection(DAYS).key_by(0).sum(1).map(lambda r: -r[1])
    sums = [3, 4, 6, 9, 7, 18, 26]
    return by_name.union(by_position), sums + [-total for total in sums]


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Size(Enum):
    SMALL = 1
    LARGE = 2


@program()
def equal_keys_are_one_key(env):
    """1, 1.0 and True are equal in Python, as are 0.0 and -0.0."""
    stream = env.from_collection([1, 1.0, True, 0.0, -0.0]).key_by(lambda v: v)
    return stream.reduce(lambda x, y: x + y).filter(lambda v: v in (0, 3)), [3.0, 0.0, 0.0]


@program(spark=True)
def keys_of_all_kinds(env):
    keys = [
        "",
        "a",
        "ä",
        0,
        -1,
        2**40,
        2**80,
        1.5,
        True,
        b"",
        b"x",
        (),
        (1, "a", None),
        ((1, 2), 3),
        Row(1, "a"),
        Row(n=1),
        frozenset({1, 2}),
        "x" * 70_000,
        Point(1, 2),
        datetime(2024, 2, 29, tzinfo=UTC),
        Decimal("1.75"),
        Size.LARGE,
    ]
    records = [(key, 1) for key in keys for _ in range(3)]
    random.Random(7).shuffle(records)
    stream = (
        env.from_collection(records)
        .key_by(lambda r: r[0])
        .reduce(lambda x, y: (x[0], x[1] + y[1]))
        .filter(lambda r: r[1] == 3)
    )

    def check(found: list[Any]) -> None:
        assert len(found) == len(keys)
        assert all((key, 3) in found for key in keys)

    return stream, check


@program()
def keys_in_disorder(env):
    """Sums of many keys against itertools."""
    numbers = random.Random(3)
    records = [(numbers.randrange(40), numbers.randrange(100)) for _ in range(300)]
    expected = []
    for key in range(40):
        mine = [amount for found, amount in records if found == key]
        expected += [(key, total) for total in accumulate(mine)]
    return env.from_collection(records).key_by(lambda r: r[0]).sum(1), expected


@program(spark=True)
def three_keys_in_a_row(env):
    """Sum by (user, shop), count of such updates by shop, largest count by first letter."""
    records = [("u1", "ax"), ("u2", "ax"), ("u1", "ay"), ("u1", "ax"), ("u3", "bx"), ("u1", "ax")]
    stream = (
        env.from_collection([(*record, 1) for record in records])
        .key_by(lambda r: (r[0], r[1]))
        .sum(2)
        .map(lambda r: (r[1], 1))
        .key_by(lambda r: r[0])
        .sum(1)
        .key_by(lambda r: r[0][0])
        .reduce(lambda x, y: ("most", max(x[1], y[1])) if x[0] else y)
    )

    def check(found: list[Any]) -> None:
        # Four updates of ax and one of ay in some order, one of bx.
        assert len(found) == 6
        assert max(count for _, count in found) == 4

    return stream, check


@program(spark=True)
def keyed_diamond(env):
    """One keyed stream, two operators of different parallelism, joined again by key."""
    counts = env.from_collection(SALES).key_by(lambda r: r[0]).sum(1)
    up = counts.map(lambda r: (r[0], r[1], 0)).set_parallelism(2)
    down = counts.map(lambda r: (r[0], 0, r[1])).set_parallelism(4)
    stream = (
        up.union(down)
        .key_by(lambda r: r[0])
        .reduce(lambda x, y: (x[0], x[1] + y[1], x[2] + y[2]))
        .set_parallelism(3)
        .filter(lambda r: r[1] == r[2] and r[0] != "a")
    )

    def check(found: list[Any]) -> None:
        # b: sums 5 and 6 on both ways make 11; c: 7.
        assert ("b", 11, 11) in found
        assert ("c", 7, 7) in found

    return stream, check


@program()
def state_in_ordinary_functions_behind_keys(env):
    """Keyed state in map, flat_map and filter."""
    from .state_kinds import Running

    stream = env.from_collection(SALES).key_by(lambda r: r[0]).map(Running())
    return stream, [("a", 3), ("a", 7), ("a", 6), ("a", 12), ("b", 5), ("b", 6), ("c", 7)]


@program()
def union_of_streams_with_keys(env):
    first = env.from_collection(SALES[:3])
    second = env.from_collection(SALES[3:])
    stream = first.union(second).key_by(lambda r: r[0]).sum(1)

    def check(found: list[Any]) -> None:
        assert len(found) == 7
        # The order of the two streams is free; the last sum of a key is not.
        assert {("a", 12), ("b", 6), ("c", 7)} <= set(found)

    return stream, check
