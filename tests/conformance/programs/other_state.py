"""Time to live of keyed state; state of operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from penstock.common import Time, Types
from penstock.datastream.functions import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

from . import program
from .kit import scheduled
from .state_kinds import WORDS, Average

# -- time to live ----------------------------------------------------------------------------------


class Visits(KeyedProcessFunction):
    """Counts visits; a key is forgotten 10 seconds after its last write, or access."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("visits", Types.INT())
        descriptor.enable_time_to_live(self.config)
        self.visits = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = self.visits.value()
        yield ctx.timer_service().current_processing_time(), value, count
        if value == "visit":
            self.visits.update((count or 0) + 1)


VISITS = [
    (0, "visit"),
    (9_999, "look"),
    (10_001, "look"),
    (20_000, "visit"),
    (29_000, "visit"),
    (38_000, "look"),
    (39_001, "look"),
]


@program(clocked=True)
def ttl_counts_from_the_last_write(env):
    config = StateTtlConfig.new_builder(Time.seconds(10)).never_return_expired().build()
    stream = scheduled(env, VISITS).key_by(lambda v: 0).process(Visits(config))
    return stream, [
        (0, "visit", None),
        (9_999, "look", 1),
        (10_001, "look", None),
        (20_000, "visit", None),
        (29_000, "visit", 1),
        (38_000, "look", 2),
        (39_001, "look", None),
    ]


@program(clocked=True)
def ttl_counts_from_the_last_read(env):
    config = (
        StateTtlConfig.new_builder(timedelta(seconds=10)).update_ttl_on_read_and_write().build()
    )
    stream = scheduled(env, VISITS).key_by(lambda v: 0).process(Visits(config))
    return stream, [
        (0, "visit", None),
        (9_999, "look", 1),
        (10_001, "look", 1),
        (20_000, "visit", 1),
        (29_000, "visit", 2),
        (38_000, "look", 3),
        (39_001, "look", 3),
    ]


class Recent(KeyedProcessFunction):
    """Elements of lists and entries of maps live by themselves."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.seconds(10)).build()
        items = ListStateDescriptor("items")
        items.enable_time_to_live(config)
        entries = MapStateDescriptor("entries")
        entries.enable_time_to_live(config)
        total = ReducingStateDescriptor("total", lambda x, y: x + y)
        total.enable_time_to_live(config)
        average = AggregatingStateDescriptor("average", Average(), None)
        average.enable_time_to_live(config)
        self.items = runtime_context.get_list_state(items)
        self.entries = runtime_context.get_map_state(entries)
        self.total = runtime_context.get_reducing_state(total)
        self.average = runtime_context.get_aggregating_state(average)

    def process_element(self, value: int, ctx: Any) -> Any:
        self.items.add(value)
        self.entries.put(value, -value)
        self.total.add(value)
        self.average.add(value)
        yield (
            list(self.items.get()),
            sorted(self.entries.items()),
            self.total.get(),
            self.average.get(),
        )


@program(clocked=True)
def ttl_of_elements_and_entries(env):
    schedule = [(0, 1), (6_000, 2), (9_000, 1), (12_000, 3), (19_500, 4), (60_000, 5)]
    stream = scheduled(env, schedule).key_by(lambda v: 0).process(Recent())
    return stream, [
        ([1], [(1, -1)], 1, 1.0),
        ([1, 2], [(1, -1), (2, -2)], 3, 1.5),
        # The entry of 1 is written again, its older element is not.
        ([1, 2, 1], [(1, -1), (2, -2)], 4, 4 / 3),
        ([2, 1, 3], [(1, -1), (2, -2), (3, -3)], 7, 7 / 4),
        ([3, 4], [(3, -3), (4, -4)], 11, 11 / 5),
        ([5], [(5, -5)], 5, 5.0),
    ]


# -- operator state --------------------------------------------------------------------------------


class Buffering(MapFunction, CheckpointedFunction):
    """Counts its records in list state, union state and broadcast state of the operator."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.lists = store.get_list_state(ListStateDescriptor("lists"))
        self.unions = store.get_union_list_state(ListStateDescriptor("unions"))
        self.shared = store.get_broadcast_state(MapStateDescriptor("shared"))
        self.held = list(self.lists.get())
        self.union = sum(self.unions.get())
        self.restored = context.is_restored()

    def snapshot_state(self, context: Any) -> None:
        assert context.get_checkpoint_id() > 0
        self.lists.update(self.held)
        self.unions.update([self.union])
        self.shared.put("records", len(self.held))

    def map(self, value: int) -> Any:
        self.held.append(value)
        self.union += 1
        return value, len(self.held), self.union


@program(spark=True)
def operator_state_survives(env):
    stream = env.from_collection([10, 20, 30, 40, 50, 60, 70]).map(Buffering()).set_parallelism(1)
    return stream, [(10 * n, n, n) for n in range(1, 8)]


class KeyedAndOperatorState(KeyedProcessFunction, CheckpointedFunction):
    """Keyed state from `initialize_state` beside operator state."""

    def initialize_state(self, context: Any) -> None:
        self.sums = context.get_keyed_state_store().get_state(ValueStateDescriptor("sums"))
        self.count = context.get_operator_state_store().get_list_state(ListStateDescriptor("count"))
        self.records = sum(self.count.get())

    def snapshot_state(self, context: Any) -> None:
        self.count.update([self.records])

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.records += 1
        self.sums.update((self.sums.value() or 0) + value[1])
        yield value[0], self.sums.value(), self.records


@program()
def keyed_and_operator_state(env):
    stream = (
        env.from_collection(WORDS).key_by(lambda r: r[0]).process(KeyedAndOperatorState())
    ).set_parallelism(1)
    return stream, [("a", 4, 1), ("b", 1, 2), ("a", 6, 3), ("a", 15, 4), ("b", 4, 5), ("a", 16, 6)]
