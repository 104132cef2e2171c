"""Keyed state of every kind, its time to live, operator state."""

from __future__ import annotations

from typing import Any

from penstock.common import Types
from penstock.datastream.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

from . import program

WORDS = [("a", 4), ("b", 1), ("a", 2), ("a", 9), ("b", 3), ("a", 1)]


class Running(MapFunction):
    """Running sum by key in a map function."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    def map(self, value: Any) -> Any:
        total = (self.sum.value() or 0) + value[1]
        self.sum.update(total)
        return value[0], total


class FirstOnly(FilterFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def filter(self, value: Any) -> bool:
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


@program(spark=True)
def value_state_in_filter(env):
    stream = env.from_collection(WORDS).key_by(lambda r: r[0]).filter(FirstOnly())
    return stream, [("a", 4), ("b", 1)]


class Previous(FlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def flat_map(self, value: Any) -> Any:
        before = self.last.value()
        if before is not None:
            yield value[0], before, value[1]
        # Every third value forgets.
        self.last.update(None if value[1] == 9 else value[1])


@program()
def value_state_in_flat_map(env):
    stream = env.from_collection(WORDS).key_by(lambda r: r[0]).flat_map(Previous())
    return stream, [("a", 4, 2), ("a", 2, 9), ("b", 1, 3)]


class Median(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.values.add(value[1])
        held = sorted(self.values)
        yield ctx.get_current_key(), held[len(held) // 2], list(self.values.get())
        if len(held) == 3:
            self.values.update(held[:1])
            self.values.add_all([100, 200])
        if len(held) == 4:
            self.values.clear()


@program(spark=True)
def list_state(env):
    numbers = [("a", n) for n in (4, 2, 9, 1, 7)] + [("b", 5)]
    stream = env.from_collection(numbers).key_by(lambda r: r[0]).process(Median())
    return stream, [
        ("a", 4, [4]),
        ("a", 4, [4, 2]),
        ("a", 4, [4, 2, 9]),
        ("a", 100, [2, 100, 200, 1]),
        ("a", 7, [7]),
        ("b", 5, [5]),
    ]


class Basket(KeyedProcessFunction):
    """Goods by customer: +n adds, None removes, 'sum' shows, 'drop' empties."""

    def open(self, runtime_context: Any) -> None:
        self.goods = runtime_context.get_map_state(
            MapStateDescriptor("goods", Types.STRING(), Types.INT())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        customer, what, count = value
        if what == "show":
            goods = self.goods
            yield customer, sorted(goods.items()), sorted(goods.keys()), sorted(goods.values())
        elif what == "drop-small":
            for name, held in self.goods.items():
                if held < 3:
                    self.goods.remove(name)
            yield customer, "empty" if self.goods.is_empty() else sorted(self.goods)
        elif what == "drop":
            self.goods.clear()
        elif count is None:
            self.goods.remove(what)
        elif what in self.goods:
            self.goods[what] += count
        else:
            self.goods.put_all({what: count})


@program(spark=True)
def map_state(env):
    actions = [
        ("x", "tea", 2),
        ("x", "tea", 1),
        ("y", "tea", 7),
        ("x", "jam", 2),
        ("x", "oil", 9),
        ("x", "show", 0),
        ("x", "oil", None),
        ("x", "nil", None),
        ("x", "drop-small", 0),
        ("x", "show", 0),
        ("x", "drop", 0),
        ("x", "drop-small", 0),
        ("y", "show", 0),
    ]
    stream = env.from_collection(actions).key_by(lambda r: r[0]).process(Basket())
    return stream, [
        ("x", [("jam", 2), ("oil", 9), ("tea", 3)], ["jam", "oil", "tea"], [2, 3, 9]),
        ("x", ["tea"]),
        ("x", [("tea", 3)], ["tea"], [3]),
        ("x", "empty"),
        ("y", [("tea", 7)], ["tea"], [7]),
    ]


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: int, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Folds(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.largest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("largest", max, Types.INT())
        )
        self.average = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("average", Average(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] == 1:
            yield value[0], self.largest.get(), self.average.get()
            self.largest.clear()
            self.average.clear()
        self.largest.add(value[1])
        self.average.add(value[1])


@program()
def reducing_and_aggregating_state(env):
    records = [*WORDS, ("a", 1), ("b", 1)]
    stream = env.from_collection(records).key_by(lambda r: r[0]).process(Folds())
    # b: 1 first. a: 4, 2, 9 then 1. a: 1 then 1. b: 1, 3 then 1.
    return stream, [("b", None, None), ("a", 9, 5.0), ("a", 1, 1.0), ("b", 3, 2.0)]


class TwoStates(KeyedProcessFunction):
    """States of one operator do not touch each other, nor do keys."""

    def open(self, runtime_context: Any) -> None:
        self.even = runtime_context.get_state(ValueStateDescriptor("even"))
        self.odd = runtime_context.get_state(ValueStateDescriptor("odd"))
        self.same = runtime_context.get_state(ValueStateDescriptor("even"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        state = self.odd if value[1] % 2 else self.even
        state.update((state.value() or 0) + 1)
        yield value[0], self.even.value(), self.odd.value(), self.same.value()


@program()
def states_are_apart(env):
    stream = env.from_collection(WORDS).key_by(lambda r: r[0]).process(TwoStates())
    return stream, [
        ("a", 1, None, 1),
        ("b", None, 1, None),
        ("a", 2, None, 2),
        ("a", 2, 1, 2),
        ("b", None, 2, None),
        ("a", 2, 2, 2),
    ]


class Mutable(KeyedProcessFunction):
    """A value that is changed in place counts only once it is given back."""

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        held = self.held.value() or {}
        held[value[1]] = held.get(value[1], 0) + 1
        self.held.update(held)
        yield value[0], dict(held)


@program()
def mutable_values(env):
    stream = env.from_collection([("a", 1), ("a", 2), ("a", 1)]).key_by(lambda r: r[0])
    return stream.process(Mutable()), [("a", {1: 1}), ("a", {1: 1, 2: 1}), ("a", {1: 2, 2: 1})]
