"""Connected streams, broadcast state, joins."""

from __future__ import annotations

from typing import Any

from penstock.common import Types
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from . import program
from .kit import MAX, timed


class NumbersAndWords(CoMapFunction):
    def map1(self, value: int) -> Any:
        return value * 10

    def map2(self, value: str) -> Any:
        return value.upper() if value else None


@program(spark=True)
def co_map(env):
    numbers, words = env.from_collection([1, 2]), env.from_collection(["a", "", "b"])
    return numbers.connect(words).map(NumbersAndWords()), [10, 20, "A", "B"]


class Both(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Any:
        yield from range(value)

    def flat_map2(self, value: str) -> Any:
        return list(value)


@program()
def co_flat_map(env):
    stream = env.from_collection([2, 0]).connect(env.from_collection(["ab"])).flat_map(Both())
    return stream, [0, 1, "a", "b"]


class Tagged(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield "left", value[0], ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("right"), (value[0], ctx.timestamp())


@program()
def co_process_with_side_output(env):
    main = timed(env, [("a", 1)]).connect(timed(env, [("b", 2)])).process(Tagged())
    return main.union(main.get_side_output(OutputTag("right"))), [("left", "a", 1), ("b", 2)]


class Match(KeyedCoProcessFunction):
    """Orders wait for their payment; what is not paid within 20 ms is told by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.order = runtime_context.get_state(ValueStateDescriptor("order"))
        self.paid = runtime_context.get_list_state(ListStateDescriptor("paid"))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.order.update(value)
        ctx.timer_service().register_event_time_timer(value[-1] + 20)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.paid.add(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, sum(self.paid.get()), self.order.value()[1]
        self.order.clear()
        self.paid.clear()


ORDERS = [("o1", 100, 1), ("o2", 50, 5), ("o3", 70, 9)]
PAYMENTS = [("o1", 60, 3), ("o2", 50, 8), ("o1", 40, 12)]


@program(spark=True)
def keyed_co_process_shares_state_and_timers(env):
    stream = (
        timed(env, ORDERS)
        .connect(timed(env, PAYMENTS))
        .key_by(lambda r: r[0], lambda r: r[0])
        .process(Match())
    )
    return stream, [("o1", 21, 100, 100), ("o2", 25, 50, 50), ("o3", 29, 0, 70)]


@program(spark=True)
def connected_streams_of_different_parallelism(env):
    orders = timed(env, ORDERS).map(lambda r: r).set_parallelism(2)
    payments = timed(env, PAYMENTS).rebalance().map(lambda r: r).set_parallelism(4)
    stream = (
        orders.connect(payments)
        .key_by(lambda r: r[0], lambda r: r[0])
        .process(Match())
        .set_parallelism(3)
    )
    return stream, [("o1", 21, 100, 100), ("o2", 25, 50, 50), ("o3", 29, 0, 70)]


@program()
def plain_co_process_function_on_keys(env):
    """A `CoProcessFunction` behind keys has keyed state, as in PyFlink."""

    class Sums(CoProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

        def process_element1(self, value: Any, ctx: Any) -> Any:
            self.sum.update((self.sum.value() or 0) + value[1])

        def process_element2(self, value: Any, ctx: Any) -> Any:
            self.sum.update((self.sum.value() or 0) - value[1])
            ctx.timer_service().register_event_time_timer(MAX)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), self.sum.value()

    stream = (
        env.from_collection([("a", 5), ("b", 1), ("a", 2)])
        .connect(env.from_collection([("a", 3), ("b", 4)]))
        .key_by(lambda r: r[0], lambda r: r[0])
        .process(Sums())
    )
    return stream, [("a", 4), ("b", -3)]


# -- broadcast state -------------------------------------------------------------------------------

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
RULES = [("tea", 3), ("jam", 1), ("tea", 2)]
SALES = [("tea", 2), ("jam", 2), ("oil", 9), ("tea", 3)]


class OverLimit(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        limits = ctx.get_broadcast_state(LIMITS)
        if limits.contains(value[0]) and value[1] > limits.get(value[0]):
            yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(LIMITS).put(*value)


@program(spark=True)
def broadcast_state(env):
    """The rules are read first: what came before them would be a matter of chance in Flink."""
    rules = env.from_collection(RULES).broadcast(LIMITS)
    sales = env.from_collection(SALES).rebalance()
    # Epochs of few records let sales come before all rules are known, so sales are sent twice:
    # the second time behind the rules by event time.
    stream = sales.connect(rules).process(OverLimit())

    def check(found: list[Any]) -> None:
        assert set(found) <= {("tea", 3), ("jam", 2), ("tea", 2)}
        assert ("oil", 9) not in found

    return stream, check


class Waiting(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Sales wait in keyed state until the end; then all rules are known."""

    def open(self, runtime_context: Any) -> None:
        self.sales = runtime_context.get_list_state(ListStateDescriptor("sales"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sales.add(value[1])
        ctx.timer_service().register_event_time_timer(MAX)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        limits = ctx.get_broadcast_state(LIMITS)
        limits.put(*value)
        if value[0] == "last":
            ctx.output(OutputTag("rules"), sorted(limits.items()))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        limits = ctx.get_broadcast_state(LIMITS)
        yield ctx.get_current_key(), sum(self.sales.get()), limits.get(ctx.get_current_key())


@program(spark=True)
def keyed_broadcast_state(env):
    rules = env.from_collection([*RULES, ("last", 0)]).broadcast(LIMITS)
    main = (
        env.from_collection(SALES)
        .key_by(lambda r: r[0])
        .connect(rules)
        .process(Waiting())
        .set_parallelism(3)
    )
    sides = main.get_side_output(OutputTag("rules"))
    # The side output comes from each of the three subtasks.
    all_rules = [("jam", 1), ("last", 0), ("tea", 2)]
    return main.union(sides), [("tea", 5, 2), ("jam", 2, 1), ("oil", 9, None), *[all_rules] * 3]


@program()
def two_broadcast_states(env):
    names = MapStateDescriptor("names")

    class Label(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(MAX)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            kind, key, word = value
            ctx.get_broadcast_state(LIMITS if kind == "limit" else names).put(key, word)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            key = ctx.get_current_key()
            yield ctx.get_broadcast_state(names)[key], ctx.get_broadcast_state(LIMITS)[key]

    control = env.from_collection([("limit", "x", 7), ("name", "x", "X!"), ("limit", "y", 1)])
    stream = (
        env.from_collection(["x", "y"])
        .key_by(lambda v: v)
        .connect(control.broadcast(LIMITS, names))
        .process(Label())
    )
    return stream, [("X!", 7), (None, 1)]
