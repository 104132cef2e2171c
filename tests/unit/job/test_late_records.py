"""Every operator that drops late records says how many of how many, and how to see them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from penstock.datastream.aggregates import count
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.functions import ProcessJoinFunction
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.runtime.job_metrics import LateNotices, LateRecords

TIMES = (5, 100, 6, 101, 7)
"""Read one by one; behind 100, the windows of 6 and 7 are gone."""


def environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    for key, value in settings.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(1)


def timed(env: StreamExecutionEnvironment, times: tuple[int, ...] = TIMES) -> DataStream:
    """A watermark follows each record."""

    class Each(WatermarkGenerator):
        def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
            output.emit_watermark(event_timestamp - 1)

        def on_periodic_emit(self, output: Any) -> None:
            pass

    strategy = WatermarkStrategy.for_generator(Each).with_timestamp_assigner(lambda time: time)
    stream = env.from_collection(list(times))
    return stream.assign_timestamps_and_watermarks(strategy)


def key(time: int) -> str:
    return "k"


class Pairs(ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: Any) -> Any:
        yield left, right


def tumbling(env: StreamExecutionEnvironment) -> DataStream:
    windows = timed(env).key_by(key).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.aggregate(count())


def sliding(env: StreamExecutionEnvironment) -> DataStream:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    return timed(env).key_by(key).window(assigner).aggregate(count())


def sessions(env: StreamExecutionEnvironment) -> DataStream:
    windows = timed(env).key_by(key).window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
    return windows.process(lambda key, context, times: [len(list(times))])


def all_records(env: StreamExecutionEnvironment) -> DataStream:
    windows = timed(env).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.reduce(lambda a, b: a + b)


def join(env: StreamExecutionEnvironment) -> DataStream:
    stream = timed(env)
    windows = stream.join(stream).where(key).equal_to(key)
    return windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).apply(
        lambda left, right: (left, right)
    )


def co_group(env: StreamExecutionEnvironment) -> DataStream:
    stream = timed(env)
    windows = stream.co_group(stream).where(key).equal_to(key)
    return windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).apply(
        lambda lefts, rights: [(list(lefts), list(rights))]
    )


def interval_join(env: StreamExecutionEnvironment) -> DataStream:
    stream = timed(env).key_by(key)
    bounds = stream.interval_join(stream).between(Time.milliseconds(-1), Time.milliseconds(1))
    return bounds.process(Pairs())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (tumbling, "dropped 2 of 5 records"),
        (sliding, "dropped 2 of 5 records"),
        (sessions, "dropped 2 of 5 records"),
        (all_records, "dropped 2 of 5 records"),
        # The first stream is read before the second, which alone holds the watermark back.
        (join, "dropped 2 of 10 records"),
        (co_group, "dropped 2 of 10 records"),
        (interval_join, "dropped 2 of 10 records"),
    ],
)
def test_who_drops_late_records_says_so_once(
    program: Callable[[Any], DataStream], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    # All of it is one epoch.
    env = environment(penstock__epoch__max_records="100")
    program(env).print()
    with caplog.at_level(logging.WARNING, "penstock"):
        result = env.execute()
    (line,) = [each.getMessage() for each in caplog.records if "as late" in each.getMessage()]
    assert said in line
    assert "side_output_late_data" in line
    assert "for_bounded_out_of_orderness" in line
    assert list(result.late_records.values()) == [int(said.split()[1])]
    assert "dropped 2 records as late" in str(result)


def test_lowered_windows_count_records_not_partials(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Two files one after the other; the second lies in a window that is over by then.

    Without a bound of its own the job's first read would be both, and nothing late.
    """
    columns = StreamFormat.csv_format(columns=["k", "t"], header=False, types={"t": int})
    for name, start, rows in (("a", 50_000, 300), ("b", 0, 200)):
        lines = "".join(f"k,{start + row % 10}\n" for row in range(rows))
        (tmp_path / name).write_text(lines)
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    source = FileSource.for_record_stream_format(columns, *paths)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
    env = environment(penstock__epoch__max_records="1000")
    stream = env.from_source(source.build(), strategy, "files")
    windows = stream.key_by("k").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    windows.aggregate(count()).print()
    with caplog.at_level(logging.INFO, "penstock"):
        result = env.execute()
    messages = [each.getMessage() for each in caplog.records]
    assert [each for each in messages if "lowered to columns" in each]
    assert [each for each in messages if "dropped 200 of 500 records" in each]
    assert list(result.late_records.values()) == [200]


def test_a_side_output_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    env = environment()
    windows = timed(env).key_by(key).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.side_output_late_data(OutputTag("late")).aggregate(count()).print()
    with caplog.at_level(logging.WARNING, "penstock"):
        assert env.execute().late_records == {}
    assert not [each for each in caplog.records if "as late" in each.getMessage()]


def test_notices_become_rare() -> None:
    """At the first, at ten times as many, and at the end if that was not said yet."""
    notices = LateNotices()

    def said(dropped: int, *, at_end: bool = False) -> list[int]:
        found = {"w": LateRecords("w", dropped, 2 * dropped)}
        return [late.dropped for late in notices.due(found, at_end=at_end)]

    assert [said(count) for count in (3, 4, 29, 30, 31, 299, 300)] == [
        *([3], [], [], [30], []),
        *([], [300]),
    ]
    assert said(300, at_end=True) == []
    assert said(301, at_end=True) == [301]
