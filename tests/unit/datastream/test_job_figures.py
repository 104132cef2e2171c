"""`JobClient.metrics()`: the user's own metrics and what every operator counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Time, WatermarkStrategy
from penstock.datastream.functions import MapFunction
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from penstock.common import JobClient
    from penstock.datastream import StreamExecutionEnvironment


class Measured(MapFunction):
    """Counts even and odd numbers, marks, measures and remembers them."""

    def open(self, context: Any) -> None:
        metrics = context.get_metrics_group()
        self.even = metrics.counter("even")
        self.odd = metrics.add_group("kinds").counter("odd")
        self.marks = metrics.meter("marks")
        self.sizes = metrics.distribution("sizes")
        metrics.gauge("last", lambda: self.last)
        self.last = -1

    def map(self, value: int) -> int:
        (self.odd if value % 2 else self.even).inc()
        self.marks.mark_event(2)
        self.sizes.update(value)
        self.last = value
        return value


def finished(client: JobClient) -> JobClient:
    client.get_job_execution_result().result(200)
    return client


def test_the_users_metrics(env: StreamExecutionEnvironment) -> None:
    env.get_configuration().set_string("penstock.epoch.max-records", "4")
    numbers = env.from_collection(list(range(11)))
    numbers.map(Measured()).uid("measured").set_parallelism(1).print()
    found = finished(env.execute_async()).metrics()["measured"]
    assert found.counters == {"even": 6, "kinds.odd": 5}
    assert found.meters["marks"].count == 22
    assert found.meters["marks"].per_second > 0
    sizes = found.distributions["sizes"]
    assert (sizes.count, sizes.sum, sizes.min, sizes.max, sizes.mean) == (11, 55, 0, 10, 5.0)
    assert found.gauges == {"last": [10]}
    assert (found.records_in, found.records_out, found.parallelism) == (11, 11, 1)


def test_over_subtasks(env: StreamExecutionEnvironment) -> None:
    env.from_collection(list(range(100))).rebalance().map(Measured()).uid("m").set_parallelism(
        4
    ).print()
    found = finished(env.execute_async()).metrics()["m"]
    assert found.counters == {"even": 50, "kinds.odd": 50}
    assert len(found.gauges["last"]) == 4
    assert found.distributions["sizes"].sum == 4950
    assert (found.distributions["sizes"].min, found.distributions["sizes"].max) == (0, 99)


def test_a_distribution_without_values(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).filter(lambda n: False).map(Measured()).uid("m").print()
    sizes = finished(env.execute_async()).metrics()["m"].distributions["sizes"]
    assert (sizes.count, sizes.min, sizes.max, sizes.mean) == (0, None, None, None)


def test_what_is_counted_for_everybody(env: StreamExecutionEnvironment) -> None:
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n: n)
    env.get_configuration().set_string("penstock.epoch.max-records", "1")
    (
        env.from_collection([5, 25, 7, 31])
        .assign_timestamps_and_watermarks(in_order)
        .key_by(lambda n: 0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .reduce(lambda a, b: a + b)
        .uid("windows")
        .print()
    )
    figures = finished(env.execute_async()).metrics()
    windows = figures["windows"]
    # 7 is late; the windows of 5, 25 and 31 fire.
    assert (windows.records_in, windows.records_out, windows.late_dropped) == (4, 3, 1)
    assert windows.fired_timers == 3
    assert windows.watermark is None, "the input has ended"
    assert [each.uid for each in figures.values()] == list(figures)
    assert next(iter(figures)).startswith("source-collection")
