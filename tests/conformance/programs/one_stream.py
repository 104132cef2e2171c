"""Records one at a time: map to project, unions, partitions, parallelism, side outputs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.common import Row, Types
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
)

from . import program
from .kit import ShowTime, timed

NUMBERS = list(range(1, 13))


@program(spark=True)
def map_flat_map_filter(env):
    stream = (
        env.from_collection(NUMBERS)
        .map(lambda x: x * x)
        .filter(lambda x: x % 2 == 0)
        .flat_map(lambda x: [x, -x])
    )
    return stream, [4, -4, 16, -16, 36, -36, 64, -64, 100, -100, 144, -144]


class Plus(MapFunction):
    def __init__(self, number: int) -> None:
        self.number = number

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()

    def map(self, value: int) -> Any:
        return value + self.number, self.name


class Repeat(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        for _ in range(value[0] - 10):
            yield value


class NotThree(FilterFunction):
    def filter(self, value: Any) -> bool:
        return value[0] != 13


@program()
def function_objects(env):
    stream = (
        env.from_collection([1, 2, 3])
        .map(Plus(10))
        .name("adder")
        .flat_map(Repeat())
        .filter(NotThree())
    )
    return stream, [(11, "adder"), (12, "adder"), (12, "adder")]


@program()
def flat_map_may_give_nothing(env):
    def words(line: str) -> Any:
        if line:
            return line.split()

    stream = env.from_collection(["a b", "", "c"]).flat_map(words)
    return stream, ["a", "b", "c"]


@program(ordered=True)
def generator_functions_keep_order(env):
    def count_up(limit: int) -> Any:
        yield from range(limit)

    stream = env.from_collection([3, 1, 2]).flat_map(count_up).set_parallelism(1)
    return stream, [0, 1, 2, 0, 0, 1]


@program()
def process_sees_event_time(env):
    return timed(env, [("a", 5), ("b", 3)]).process(ShowTime()), [(5, ("a", 5)), (3, ("b", 3))]


@program()
def process_without_event_time(env):
    stream = env.from_collection(["x"]).process(lambda value, ctx: [(value, ctx.timestamp())])
    return stream, [("x", None)]


@program()
def rows_and_types(env):
    rows = env.from_collection(
        [(1, "one"), (2, "two")], Types.ROW_NAMED(["id", "word"], [Types.INT(), Types.STRING()])
    )
    stream = rows.map(
        lambda row: Row(number=row.id, upper=row["word"].upper(), first=row[1][0]),
    )
    return stream, [
        Row(number=1, upper="ONE", first="o"),
        Row(number=2, upper="TWO", first="t"),
    ]


@program()
def declared_rows_are_made_of_tuples(env):
    stream = (
        env.from_collection([1, 2])
        .map(lambda x: (x, str(x)), Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()]))
        .map(lambda row: row.s * row.n)
    )
    return stream, ["1", "22"]


@program(spark=True)
def project_keeps_fields(env):
    stream = env.from_collection(
        [(1, "a", 2.5), (2, "b", 3.5)], Types.TUPLE([Types.INT(), Types.STRING(), Types.FLOAT()])
    ).project(2, 0)
    return stream, [(2.5, 1), (3.5, 2)]


@program(spark=True)
def union_of_three(env):
    first, second = env.from_collection([1, 2]), env.from_collection([2, 3])
    third = env.from_collection([4]).map(lambda x: x + 0)
    return first.union(second, third).map(lambda x: x * 10), [10, 20, 20, 30, 40]


@program()
def union_with_itself(env):
    stream = env.from_collection([1, 2])
    return stream.union(stream), [1, 1, 2, 2]


BIG, ODD = OutputTag("big"), OutputTag("odd", Types.INT())


class Sort(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Any:
        if value > 5:
            ctx.output(BIG, value)
        if value % 2:
            yield ODD, value
        yield "seen", value


@program(spark=True)
def side_outputs(env):
    main = env.from_collection([2, 5, 8, 9]).process(Sort())
    big = main.get_side_output(BIG).map(lambda x: ("big", x))
    odd = main.get_side_output(ODD).map(lambda x: ("odd", x))
    return main.union(big, odd), [
        ("seen", 2),
        ("seen", 5),
        ("seen", 8),
        ("seen", 9),
        ("big", 8),
        ("big", 9),
        ("odd", 5),
        ("odd", 9),
    ]


@program()
def side_outputs_carry_event_time(env):
    tag = OutputTag("late")

    class ToSide(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.output(tag, value[0])

    main = timed(env, [("a", 7), ("b", 4)]).process(ToSide())
    return main.get_side_output(tag).process(ShowTime()), [(7, "a"), (4, "b")]


@program()
def side_output_nobody_reads(env):
    return env.from_collection([7, 2]).process(Sort()), [("seen", 7), ("seen", 2)]


# -- where records go ------------------------------------------------------------------------------


class Where(MapFunction):
    """Adds the subtask that mapped the record."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        return value, self.subtask, self.subtasks


def counts_by_subtask(records: list[Any]) -> dict[int, int]:
    assert sorted(value for value, _, _ in records) == NUMBERS
    return dict(Counter(subtask for _, subtask, _ in records))


@program(spark=True)
def rebalance_deals_in_turn(env):
    def check(records: list[Any]) -> None:
        # In turn within an epoch; each epoch begins with another subtask.
        counts = [counts_by_subtask(records).get(subtask, 0) for subtask in range(4)]
        assert max(counts) - min(counts) <= 2

    return env.from_collection(NUMBERS).rebalance().map(Where()).set_parallelism(4), check


@program()
def rescale_deals_within_groups(env):
    """Two senders, four receivers: sender 0 feeds receivers 0 and 1, sender 1 the other two."""

    def check(records: list[Any]) -> None:
        assert sorted(value for (value, _, _), _, _ in records) == NUMBERS
        for (_, sender, _), receiver, subtasks in records:
            assert subtasks == 4
            assert receiver // 2 == sender

    stream = env.from_collection(NUMBERS).rebalance().map(Where()).set_parallelism(2)
    return stream.rescale().map(Where()).set_parallelism(4), check


@program()
def shuffle_loses_nothing(env):
    def check(records: list[Any]) -> None:
        assert set(counts_by_subtask(records)) <= {0, 1, 2, 3}

    return env.from_collection(NUMBERS).shuffle().map(Where()).set_parallelism(4), check


@program()
def global_goes_to_the_first(env):
    def check(records: list[Any]) -> None:
        assert counts_by_subtask(records) == {0: 12}

    return env.from_collection(NUMBERS).global_().map(Where()).set_parallelism(4), check


@program(spark=True)
def broadcast_goes_to_all(env):
    expected = [(n, subtask, 3) for n in NUMBERS for subtask in range(3)]
    return env.from_collection(NUMBERS).broadcast().map(Where()).set_parallelism(3), expected


@program()
def forward_stays(env):
    stream = env.from_collection(NUMBERS).rebalance().map(Where()).set_parallelism(3)
    kept = stream.forward().map(Where()).set_parallelism(3)

    def check(records: list[Any]) -> None:
        assert len(records) == len(NUMBERS)
        assert all(before == after for (_, before, _), after, _ in records)

    return kept, check


class Modulo(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


@program(spark=True)
def partition_custom_decides(env):
    stream = env.from_collection(NUMBERS).partition_custom(Modulo(), lambda x: x + 1)
    return stream.map(Where()).set_parallelism(4), [(n, (n + 1) % 4, 4) for n in NUMBERS]


@program()
def partition_custom_with_a_function(env):
    stream = env.from_collection(NUMBERS).partition_custom(lambda key, n: 0, lambda x: x)
    return stream.map(Where()).set_parallelism(4), [(n, 0, 4) for n in NUMBERS]


@program(spark=True)
def parallelism_of_each_operator(env):
    """1, 4, 2, 3 subtasks in a row, without chains."""
    stream = (
        env.from_collection(NUMBERS)
        .map(lambda x: x + 1)
        .set_parallelism(4)
        .map(lambda x: x * 2)
        .set_parallelism(2)
        .disable_chaining()
        .map(Where())
        .set_parallelism(3)
    )

    def check(records: list[Any]) -> None:
        assert sorted(value for value, _, _ in records) == [2 * (n + 1) for n in NUMBERS]
        assert {subtasks for _, _, subtasks in records} == {3}

    return stream, check


@program(options={"pipeline.operator-chaining.enabled": "false"})
def without_chains(env):
    stream = (
        env.from_collection(NUMBERS).map(lambda x: x + 1).start_new_chain().filter(lambda x: x > 5)
    )
    return stream.map(lambda x: -x), [-n for n in range(6, 14)]


@program()
def a_stream_read_twice(env):
    """A diamond without keys."""
    numbers = env.from_collection(NUMBERS).map(lambda x: x + 1)
    twice, negative = numbers.map(lambda x: 2 * x), numbers.map(lambda x: -x)
    expected = [2 * (n + 1) for n in NUMBERS] + [-(n + 1) for n in NUMBERS]
    return twice.union(negative), expected


@program()
def nothing_at_all(env):
    return env.from_collection([]).map(lambda x: 1 / 0), []


@program()
def values_of_all_kinds(env):
    values = [
        None,
        True,
        0,
        -(2**70),
        1.5,
        "é",
        b"\0",
        (1, (2, None)),
        [1, []],
        {"a": {1}},
        Row(1, 2),
    ]

    def check(records: list[Any]) -> None:
        assert len(records) == len(values)
        assert all(value in records for value in values)

    return env.from_collection(values).map(lambda x: x), check
