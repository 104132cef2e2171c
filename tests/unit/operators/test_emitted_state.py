"""What a function put into state is what it was at that moment, whatever becomes of the object."""

from __future__ import annotations

import pytest

from penstock.core.row import Row
from penstock.core.types import Types
from penstock.operators.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    KeyedProcessFunction,
    ReduceFunction,
)
from penstock.operators.reduce import ReduceSpec, RollingAggregation
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.testing.harness import OneOperatorHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


def one_key(value):
    return "k"


def number_of(record):
    return record["n"]


class SumInPlace(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(
            ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        total = self.total.value() or {"n": 0}
        total["n"] += value
        self.total.update(total)
        yield total


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_value_that_is_state_and_record(backend):
    harness = OneOperatorHarness(SumInPlace(), key=one_key, backend=backend)
    harness.process(1, 2)
    for value in harness.values:
        value["n"] += 1000  # What a consumer does is nobody else's business.
    harness.process(3)
    assert list(map(number_of, harness.values)) == [1001, 1003, 6]


class AppendInPlace(ReduceFunction):
    def reduce(self, value1, value2):
        value1[1].append(value2[1][0])
        return value1


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_tuple_that_holds_a_list_is_reduced_in_place(backend):
    harness = OneOperatorHarness(
        ReduceSpec(AppendInPlace()), key=lambda pair: pair[0], backend=backend
    )
    harness.process(("a", [1]), ("a", [2]))
    harness.process(("a", [3]))
    assert harness.values == [("a", [1]), ("a", [1, 2]), ("a", [1, 2, 3])]


def test_the_row_of_a_rolling_sum_is_not_the_state():
    harness = OneOperatorHarness(ReduceSpec(RollingAggregation("sum", "n")), key=one_key)
    harness.process(Row(n=1))
    harness.values[0]["n"] = 1000
    harness.process(Row(n=2))
    assert harness.values[1]["n"] == 3


ANY = Types.PICKLED_BYTE_ARRAY()
TTL = StateTtlConfig.new_builder(1000).build()


def described(descriptor, ttl):
    if ttl:
        descriptor.enable_time_to_live(TTL)
    return descriptor


class Collecting(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def first_of(value1, value2):
    return value1


PUTS = {
    "value": (
        lambda context, ttl: context.get_state(described(ValueStateDescriptor("s", ANY), ttl)),
        lambda state, value: state.update(value),
        lambda state: [state.value()],
    ),
    "add": (
        lambda context, ttl: context.get_list_state(described(ListStateDescriptor("s", ANY), ttl)),
        lambda state, value: state.add(value),
        lambda state: list(state.get()),
    ),
    "add_all": (
        lambda context, ttl: context.get_list_state(described(ListStateDescriptor("s", ANY), ttl)),
        lambda state, value: state.add_all([value]),
        lambda state: list(state.get()),
    ),
    "update": (
        lambda context, ttl: context.get_list_state(described(ListStateDescriptor("s", ANY), ttl)),
        lambda state, value: state.update([value]),
        lambda state: list(state.get()),
    ),
    "put": (
        lambda context, ttl: context.get_map_state(
            described(MapStateDescriptor("s", Types.STRING(), ANY), ttl)
        ),
        lambda state, value: state.put("k", value),
        lambda state: list(state.values()),
    ),
    "put_all": (
        lambda context, ttl: context.get_map_state(
            described(MapStateDescriptor("s", Types.STRING(), ANY), ttl)
        ),
        lambda state, value: state.put_all({"k": value}),
        lambda state: list(state.values()),
    ),
    "reducing": (
        lambda context, ttl: context.get_reducing_state(
            described(ReducingStateDescriptor("s", first_of, ANY), ttl)
        ),
        lambda state, value: state.add(value),
        lambda state: [state.get()],
    ),
    "aggregating": (
        lambda context, ttl: context.get_aggregating_state(
            described(AggregatingStateDescriptor("s", Collecting(), ANY), ttl)
        ),
        lambda state, value: state.add(value),
        lambda state: state.get(),
    ),
}


@pytest.mark.parametrize("ttl", [False, True], ids=["", "ttl"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", PUTS)
def test_what_is_put_into_state_and_changed_later(name, backend, ttl):
    obtain, put, read = PUTS[name]

    class Put(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = obtain(runtime_context, ttl)
            self.shared = {"n": 0}

        def process_element(self, value, ctx):
            if value is None:
                yield from read(self.state)
                return
            self.shared["n"] = value
            put(self.state, self.shared)

    harness = OneOperatorHarness(
        Put(), key=lambda value: "a" if value is None else "ab"[value - 1], backend=backend
    )
    harness.process(1, 2)
    harness.process(None)
    assert list(map(number_of, harness.values)) == [1]


class Rules(BroadcastProcessFunction):
    def __init__(self):
        self.shared = {}

    def process_element(self, value, ctx):
        yield from (rule["n"] for _, rule in ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        self.shared["n"] = value
        state = ctx.get_broadcast_state(RULES)
        if value < 3:
            state.put(str(value), self.shared)
        else:
            state.put_all({str(value): self.shared})


def test_broadcast_state():
    harness = OneOperatorHarness(Rules(), broadcast=(RULES,))
    harness.process2(1, 2, 3, 4)
    harness.process("ask")
    assert sorted(harness.values) == [1, 2, 3, 4]
