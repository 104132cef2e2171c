"""Programs in the shape of PyFlink's documentation; the texts are ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

from . import program

if TYPE_CHECKING:
    from collections.abc import Iterable


@program(spark=True)
def word_count(env):
    """Flat map, map to pairs, key by word, reduce."""

    def split(line: str) -> Iterable[str]:
        yield from line.split()

    ds = env.from_collection(["to be or not", "to be"], type_info=Types.STRING())
    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
    )
    return ds, [("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)]


@program()
def json_fields(env):
    def show(data: Any) -> Any:
        info = json.loads(data.info)
        return data.id, info["city"].upper()

    ds = env.from_collection(
        collection=[(1, '{"city": "Bonn"}'), (2, '{"city": "Ulm"}'), (3, '{"city": "Hof"}')],
        type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()]),
    )
    ds = ds.filter(lambda data: data.id != 2).map(
        show, output_type=Types.TUPLE([Types.INT(), Types.STRING()])
    )
    return ds, [(1, "BONN"), (3, "HOF")]


class CountWindowAverage(FlatMapFunction):
    """The average of every two values of a key, kept in value state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("average", Types.PICKLED_BYTE_ARRAY())
        self.sum = runtime_context.get_state(descriptor)

    def flat_map(self, value: Any) -> Iterable[Any]:
        current = self.sum.value() or (0, 0)
        current = (current[0] + 1, current[1] + value[1])
        if current[0] < 2:
            self.sum.update(current)
            return
        self.sum.clear()
        yield value[0], current[1] // current[0]


@program(spark=True)
def count_window_average(env):
    ds = env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)])
    return ds.key_by(lambda row: row[0]).flat_map(CountWindowAverage()), [(1, 4), (1, 5)]


class SumWithTtl(KeyedProcessFunction):
    def __init__(self) -> None:
        self.state: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        state_descriptor = ValueStateDescriptor("state", Types.FLOAT())
        state_ttl_config = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        state_descriptor.enable_time_to_live(state_ttl_config)
        self.state = runtime_context.get_state(state_descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        current = self.state.value()
        if current is None:
            current = 0
        current += value[1]
        self.state.update(current)
        yield value[0], current


@program()
def state_access(env):
    ds = env.from_collection(
        collection=[("Alice", 1.5), ("Bob", 3.0), ("Alice", 2.25), ("Bob", 0.5)],
        type_info=Types.TUPLE([Types.STRING(), Types.FLOAT()]),
    )
    return ds.key_by(lambda value: value[0]).process(SumWithTtl()), [
        ("Alice", 1.5),
        ("Bob", 3.0),
        ("Alice", 3.75),
        ("Bob", 3.5),
    ]


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


class CountWithTimeout(KeyedProcessFunction):
    """Emits the count of a key one minute after its last record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(
            ValueStateDescriptor("my_state", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        current = self.state.value()
        if current is None:
            current = Row(value[1], 0, 0)
        current[1] += 1
        current[2] = ctx.timestamp()
        self.state.update(current)
        ctx.timer_service().register_event_time_timer(current[2] + 60_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        result = self.state.value()
        if timestamp == result[2] + 60_000:
            yield result[0], result[1]


@program(spark=True)
def event_time_timer(env):
    ds = env.from_collection(
        collection=[(1_000, "x"), (40_000, "y"), (50_000, "x"), (200_000, "y")],
        type_info=Types.TUPLE([Types.LONG(), Types.STRING()]),
    )
    ds = ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    ).set_parallelism(1)
    stream = (
        ds.key_by(lambda value: value[1])
        .process(CountWithTimeout(), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda value: value[0])
        .max(1)
    )

    def check(found: list[Any]) -> None:
        # Whether y's first minute ended before its second record depends on the watermarks.
        assert found.count(("x", 2)) == 1
        assert ("y", 2) in found
        assert set(found) <= {("x", 2), ("y", 1), ("y", 2)}

    return stream, check


class AverageAggregate(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[str, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:  # type: ignore
        return a[0] + b[0], a[1] + b[1]


class MyProcessWindowFunction(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self,
        key: str,
        context: ProcessWindowFunction.Context[TimeWindow],
        averages: Iterable[float],
    ) -> Iterable[str]:
        average = next(iter(averages))
        yield f"{key} {context.window().start} {average}"


PRICES = [("a", 10, 1_000), ("a", 20, 2_000), ("b", 5, 2_500), ("a", 1, 7_000), ("b", 7, 9_000)]


def prices(env: Any) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(5)
    ).with_timestamp_assigner(LastField())
    return (
        env.from_collection(PRICES, Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]))
        .assign_timestamps_and_watermarks(strategy)
        .set_parallelism(1)
        .key_by(lambda v: v[0], key_type=Types.STRING())
    )


class LastField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[2]


@program(spark=True)
def incremental_window_aggregation(env):
    ds = prices(env).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    ds = ds.aggregate(
        AverageAggregate(),
        window_function=MyProcessWindowFunction(),
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        output_type=Types.STRING(),
    )
    return ds, ["a 0 15.0", "b 0 5.0", "a 5000 1.0", "b 5000 7.0"]


class CountWindowProcessFunction(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self,
        key: str,
        context: ProcessWindowFunction.Context[TimeWindow],
        elements: Iterable[tuple],
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


COUNTS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])


@program()
def sliding_windows(env):
    ds = prices(env).window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(3)))
    return ds.process(CountWindowProcessFunction(), COUNTS), [
        ("a", -3_000, 3_000, 2),
        ("a", 0, 6_000, 2),
        ("a", 3_000, 9_000, 1),
        ("a", 6_000, 12_000, 1),
        ("b", -3_000, 3_000, 1),
        ("b", 0, 6_000, 1),
        ("b", 6_000, 12_000, 1),
        ("b", 9_000, 15_000, 1),
    ]


@program()
def session_windows(env):
    ds = prices(env).window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    return ds.process(CountWindowProcessFunction(), COUNTS), [
        ("a", 1_000, 12_000, 3),
        ("b", 2_500, 7_500, 1),
        ("b", 9_000, 14_000, 1),
    ]


@program(spark=True)
def side_output(env):
    output_tag = OutputTag("side-output", Types.STRING())

    class MyProcessFunction(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
            yield value
            yield output_tag, "sideout-" + str(value)

    main_data_stream = env.from_collection([1, 2]).process(
        MyProcessFunction(), output_type=Types.INT()
    )
    side = main_data_stream.get_side_output(output_tag)
    return main_data_stream.map(str).union(side), ["1", "2", "sideout-1", "sideout-2"]


class ShapeRules(BroadcastProcessFunction[Row, Row, str]):
    """The pattern of broadcast state: rules in a map, items matched against them."""

    def __init__(self, rules: MapStateDescriptor) -> None:
        self.rules = rules

    def process_element(
        self, value: Row, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[str]:
        for name, color in ctx.get_broadcast_state(self.rules).items():
            if value.color == color:
                yield f"{name}: {value.shape}"

    def process_broadcast_element(self, value: Row, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(self.rules).put(value.name, value.color)


@program()
def broadcast_state_pattern(env):
    """All rules are known before the first item when both are read in one epoch."""
    rules = MapStateDescriptor("RulesBroadcastState", Types.STRING(), Types.STRING())
    rule_stream = env.from_collection(
        [("warm", "red"), ("cold", "blue")],
        Types.ROW_NAMED(["name", "color"], [Types.STRING(), Types.STRING()]),
    )
    items = env.from_collection(
        [("red", "circle"), ("green", "square"), ("blue", "line")],
        Types.ROW_NAMED(["color", "shape"], [Types.STRING(), Types.STRING()]),
    )
    stream = items.connect(rule_stream.broadcast(rules)).process(
        ShapeRules(rules), output_type=Types.STRING()
    )

    small_epochs = env._configuration.to_dict().get("penstock.epoch.max-records")

    def check(found: list[Any]) -> None:
        assert set(found) <= {"warm: circle", "cold: line"}
        if small_epochs is None:
            assert sorted(found) == ["cold: line", "warm: circle"]

    return stream, check


class Enrich(KeyedCoProcessFunction):
    """Rides wait for the fare of the same ride, and the other way round."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.ride = runtime_context.get_state(ValueStateDescriptor("ride", Types.STRING()))
        self.fares = runtime_context.get_list_state(ListStateDescriptor("fares", Types.INT()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.ride.update(value[1])
        for fare in self.fares:
            yield value[1], fare
        self.fares.clear()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        if self.ride.value() is None:
            self.fares.add(value[1])
        else:
            yield self.ride.value(), value[1]


@program(spark=True)
def rides_and_fares(env):
    rides = env.from_collection([(1, "to the sea"), (2, "home"), (3, "away")])
    fares = env.from_collection([(2, 12), (1, 40), (4, 7), (2, 3)])
    stream = rides.connect(fares).key_by(lambda r: r[0], lambda f: f[0]).process(Enrich())
    return stream, [("to the sea", 40), ("home", 12), ("home", 3)]
