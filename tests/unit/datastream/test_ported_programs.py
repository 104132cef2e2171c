"""Programs as they are written for PyFlink, with `penstock` in their imports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.datastream.async_retry_predicates import has_exception_predicate
from penstock.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable

Env = StreamExecutionEnvironment


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def test_word_count(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    env.set_parallelism(1)
    ds = env.from_collection(["to be or not", "to be"], Types.STRING())

    def split(line: str) -> Iterable[str]:
        yield from line.split()

    ds = (
        ds.flat_map(split)
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    ds.print()
    env.execute()
    assert capsys.readouterr().out.split() == [
        *("(to,1)", "(be,1)", "(or,1)", "(not,1)", "(to,2)", "(be,2)")
    ]


def test_state_access(env: Env) -> None:
    class Averages(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = ValueStateDescriptor("sums", Types.PICKLED_BYTE_ARRAY())
            self.sums = runtime_context.get_state(descriptor)

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            count, total = self.sums.value() or (0, 0)
            count, total = count + 1, total + value[1]
            if count < 2:
                self.sums.update((count, total))
            else:
                self.sums.clear()
                yield value[0], total / count

    pairs = [(1, 3), (1, 5), (2, 7), (1, 7), (2, 1), (1, 1)]
    ds = env.from_collection(pairs, Types.TUPLE([Types.INT(), Types.INT()]))
    assert collected(ds.key_by(lambda row: row[0]).process(Averages())) == [
        (1, 4.0),
        (2, 4.0),
        (1, 4.0),
    ]


def test_event_time_timer(env: Env) -> None:
    class Idle(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
            yield f"saw {value[0]} at {ctx.timestamp()}"

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield f"timer of {ctx.get_current_key()} at {timestamp}"

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    ds = env.from_collection([("a", 1_000), ("b", 1_050)])
    ds = ds.assign_timestamps_and_watermarks(strategy).key_by(lambda value: value[0])
    assert collected(ds.process(Idle(), Types.STRING())) == [
        "saw a at 1000",
        "saw b at 1050",
        "timer of a at 1100",
        "timer of b at 1150",
    ]


def test_tumbling_window(env: Env) -> None:
    class CountWindowFunction(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[tuple]
        ) -> Iterable[tuple]:
            yield key, context.window().start, context.window().end, len(list(elements))

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(5)
    ).with_timestamp_assigner(SecondField())
    ds = env.from_collection([("hi", 1), ("hi", 4), ("hi", 3), ("hi", 9), ("hi", 15)])
    ds = (
        ds.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda x: x[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
        .process(CountWindowFunction(), Types.TUPLE([Types.STRING(), *[Types.INT()] * 3]))
    )
    assert collected(ds) == [("hi", 0, 5, 3), ("hi", 5, 10, 1), ("hi", 15, 20, 1)]


def test_session_window_with_aggregate(env: Env) -> None:
    class Average(AggregateFunction):
        def create_accumulator(self) -> tuple[int, int]:
            return 0, 0

        def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
            return accumulator[0] + value[1], accumulator[1] + 1

        def get_result(self, accumulator: tuple[int, int]) -> float:
            return accumulator[0] / accumulator[1]

        def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
            return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    ds = env.from_collection([("a", 1), ("a", 3), ("a", 20)])
    ds = (
        ds.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda value: value[0])
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
        .aggregate(
            Average(), accumulator_type=Types.PICKLED_BYTE_ARRAY(), output_type=Types.DOUBLE()
        )
    )
    assert collected(ds) == [2.0, 20.0]


def test_side_output(env: Env) -> None:
    odd = OutputTag("odd", Types.INT())

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
            yield value
            if value % 2:
                yield odd, value

    main = env.from_collection([1, 2, 3], type_info=Types.INT()).process(Split(), Types.INT())
    assert collected(main.get_side_output(odd)) == [1, 3]
    assert collected(main) == [1, 2, 3]


def test_rows_and_json(env: Env) -> None:
    row_type = Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
    ds = env.from_collection([(1, '{"name": "Flink"}'), (2, '{"name": "hello"}')], row_type)

    def name(data: Row) -> Row:
        return Row(id=data.id, name=json.loads(data.info)["name"])

    rows = collected(
        ds.map(name, Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])).filter(
            lambda row: row["id"] == 2
        )
    )
    assert rows == [Row(id=2, name="hello")]


def test_connect(env: Env) -> None:
    class Both(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            yield "left", value

        def process_element2(self, value: Any, ctx: Any) -> Any:
            yield "right", value

    first, second = env.from_collection([1]), env.from_collection(["a"])
    assert sorted(collected(first.connect(second).process(Both()))) == [("left", 1), ("right", "a")]


def test_broadcast_state(env: Env) -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    class Tell(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value, dict(ctx.get_broadcast_state(rules).items())

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(rules).put(value[0], value[1])
            yield "rule", value

    main, other = env.from_collection([1]), env.from_collection([("a", 5)])
    found = collected(main.connect(other.broadcast(rules)).process(Tell()))
    assert ("rule", ("a", 5)) in found
    assert len(found) == 2


def test_async_io(env: Env) -> None:
    class Look(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            return [value + 1, value + 2]

    ds = AsyncDataStream.ordered_wait(
        env.from_collection([10, 20]), Look(), Time.seconds(5), 2, Types.INT()
    )
    assert collected(ds) == [11, 12, 21, 22]


def test_async_io_with_retries(env: Env) -> None:
    asked: dict[int, int] = {}

    class Shy(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            asked[value] = asked.get(value, 0) + 1
            if asked[value] < 3:
                raise ConnectionError
            return [asked[value]]

    # Pauses of a millisecond or two: what counts is the third attempt.
    strategy = AsyncRetryStrategy.exponential_backoff(3, 1, 2, 2.0, None, has_exception_predicate)
    for wait in (
        AsyncDataStream.unordered_wait_with_retry,
        AsyncDataStream.ordered_wait_with_retry,
    ):
        asked.clear()
        records = env.from_collection([1, 2])
        assert collected(wait(records, Shy(), Time.minutes(1), strategy, 2, Types.INT())) == [3, 3]


def test_parallel_job_with_function_objects(env: Env) -> None:
    class Times(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.factor = int(runtime_context.get_job_parameter("factor", "1"))

        def map(self, value: int) -> int:
            return value * self.factor

    class Twice(FlatMapFunction):
        def flat_map(self, value: int) -> Iterable[int]:
            yield value
            yield value

    env.set_parallelism(3)
    env.get_config().set_global_job_parameters({"factor": "10"})
    ds = env.from_collection(range(5)).rebalance().map(Times()).flat_map(Twice())
    assert sorted(collected(ds)) == sorted([n * 10 for n in range(5)] * 2)


def test_joins(env: Env) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())

    def timed(records: list[tuple[str, int]]) -> Any:
        return env.from_collection(records).assign_timestamps_and_watermarks(strategy)

    orders, payments = timed([("a", 1), ("b", 2), ("a", 12)]), timed([("a", 3), ("a", 15)])
    window = TumblingEventTimeWindows.of(Time.milliseconds(10))
    joined = (
        orders.join(payments)
        .where(lambda order: order[0])
        .equal_to(lambda payment: payment[0])
        .window(window)
        .apply(lambda order, payment: (order[1], payment[1]))
    )
    assert sorted(collected(joined)) == [(1, 3), (12, 15)]
    grouped = (
        orders.co_group(payments)
        .where(lambda order: order[0])
        .equal_to(lambda payment: payment[0])
        .window(window)
        .apply(lambda left, right: [(len(list(left)), len(list(right)))])
    )
    assert sorted(collected(grouped)) == [(1, 0), (1, 1), (1, 1)]
    within = (
        orders.key_by(lambda order: order[0])
        .interval_join(payments.key_by(lambda payment: payment[0]))
        .between(Time.milliseconds(0), Time.milliseconds(5))
        .process(lambda left, right, ctx: [(left[1], right[1])])
    )
    assert sorted(collected(within)) == [(1, 3), (12, 15)]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("where", ["source", "chain"])
def test_no_record_of_a_small_disordered_collection_is_late(
    env: Env, parallelism: int, where: str
) -> None:
    """PyFlink reads a few records within one interval of watermarks, whatever their times."""
    env.set_parallelism(parallelism)
    seconds = [1, 12, 2, 21, 3, 13, 22, 4] * 20
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    events = [("a", second * 1000) for second in seconds]
    ds = env.from_collection(events, Types.TUPLE([Types.STRING(), Types.LONG()]))
    if where == "chain":
        ds = ds.filter(lambda event: True)
    counts = (
        ds.assign_timestamps_and_watermarks(strategy)
        .map(lambda event: (event[0], 1))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    assert collected(counts) == [("a", 80), ("a", 40), ("a", 40)]


def test_an_assigner_of_timestamps_need_not_be_one_of_pyflinks(env: Env) -> None:
    class ByField:
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    ds = env.from_collection([("a", 5), ("b", 7)]).assign_timestamps_and_watermarks(strategy)

    class Times(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield value[0], ctx.timestamp()

    assert collected(ds.process(Times())) == [("a", 5), ("b", 7)]


def test_the_state_below_a_state(env: Env) -> None:
    """Programs ask PyFlink's object for it, though nothing needs it."""

    class Last(FlatMapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = MapStateDescriptor("last", Types.STRING(), Types.INT())
            self.last = runtime_context.get_map_state(descriptor)

        def flat_map(self, value: Any) -> Any:
            before = self.last.get_internal_state().get(value[0])
            self.last.put(*value)
            yield before

    ds = env.from_collection([("a", 5), ("a", 7)]).key_by(lambda pair: pair[0])
    assert collected(ds.flat_map(Last(), output_type=Types.INT())) == [None, 5]
