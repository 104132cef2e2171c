"""Lowered programs against numbers worked by hand; errors; what is not lowered, and why."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lowering_kit import (
    WINDOWS,
    Record,
    both,
    bounded,
    counting,
    make_reads_small,
    parquet,
    run,
    text,
)

from penstock.common import Row, Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.aggregates import (
    all_of,
    avg_of,
    count,
    max_of,
    min_of,
    sum_of,
    window_row,
)
from penstock.datastream.connectors.file_system import BulkFormat, FileSource
from penstock.datastream.window import SlidingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A subtask whose epoch failed is dropped with its file open.
dropped_readers = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    make_reads_small(monkeypatch)


def test_counts_and_late_records_by_hand(tmp_path: Path) -> None:
    # Reads of 4: the watermark is 119 behind the first four records, so that 10 is late (its
    # window ended at 50) and 110 is not (its window ends at 150).
    content = "5,a,1\n-3,a,1\n60,b,1\n140,a,1\n10,a,1\n110,a,1\n60,b,1\n200,b,1\n"
    outcome = both(counting(text(tmp_path, content)))
    assert outcome.late == 2
    assert outcome.rows == sorted(
        repr(Row(channel=channel, window_start=start, window_end=start + 50, value=value))
        for channel, start, value in [
            ("a", -50, 1),
            ("a", 0, 1),
            ("b", 50, 1),
            ("a", 100, 2),
            ("b", 200, 1),
        ]
    )


def test_aggregates_by_hand(tmp_path: Path) -> None:
    part: list[Record] = [
        (1, "a", "open", 5, 0.5, "b"),
        (2, "a", "open", None, None, None),
        (3, "a", "open", -7, 1.5, "a"),
        (4, "b", "open", None, None, None),
    ]
    source = parquet(tmp_path, [part])

    def build(env: StreamExecutionEnvironment) -> Any:
        total = all_of(
            count=count(), total=sum_of("n"), low=min_of("n"), high=max_of("word"), mean=avg_of("x")
        )
        stream = env.from_source(source, bounded(), "events").key_by("channel")
        return stream.window(WINDOWS["tumbling"]).aggregate(total)

    assert both(build).rows == sorted(
        map(
            repr,
            [
                Row(count=3, total=-2, low=-7, high="b", mean=1.0),
                Row(count=1, total=None, low=None, high=None, mean=None),
            ],
        )
    )


def test_floats_of_sliding_windows_are_added_in_their_order(tmp_path: Path) -> None:
    # In order of arrival 1e16 - 1e16 + 1 is 1; 20-ms pane by pane it would be 0.
    part: list[Record] = [
        (25, "a", "open", None, 1e16, None),
        (5, "a", "open", None, -1e16, None),
        (26, "a", "open", None, 1.0, None),
    ]
    source = parquet(tmp_path, [part])

    def build(env: StreamExecutionEnvironment) -> Any:
        stream = env.from_source(source, bounded(1000), "events").key_by("channel")
        return stream.window(WINDOWS["sliding"]).aggregate(sum_of("x"), window_row("channel"))

    sums = {row.split("window_start=")[1].split(",")[0]: row for row in both(build).rows}
    assert set(sums) == {"-40", "-20", "0", "20"}
    assert sums["0"].endswith("value=1.0)")
    assert sums["20"].endswith("value=1e+16)")


def test_datetimes_are_timestamps(tmp_path: Path) -> None:
    for unit in ("s", "ms", "us", "ns"):
        stamps = pa.array([-1_500, 0, 49_000], pa.int64()).cast(pa.timestamp("ms"))
        table = pa.table({"ts": stamps.cast(pa.timestamp(unit), safe=False), "channel": ["a"] * 3})
        (tmp_path / unit).mkdir()
        pq.write_table(table, tmp_path / unit / "0.parquet")
        source = FileSource.for_bulk_file_format(
            BulkFormat.parquet_format(), str(tmp_path / unit)
        ).build()
        outcome = both(counting(source))
        starts = Counter(row.split("window_start=")[1].split(",")[0] for row in outcome.rows)
        # -1500 ms is -2 s or -1 s in whole seconds, as Arrow casts.
        assert set(starts) == {"-1000" if unit == "s" else "-1500", "0", "49000"}


def test_timestamps_assigned_behind_the_source(tmp_path: Path) -> None:
    source = text(tmp_path, "5,a,1\n60,a,1\n140,a,1\n190,a,1\n10,a,1\n")

    def build(env: StreamExecutionEnvironment) -> Any:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
        stream = stream.assign_timestamps_and_watermarks(bounded())
        return stream.key_by("channel").window(WINDOWS["tumbling"]).count()

    outcome = both(build)
    assert outcome.late == 1
    assert outcome.rows == ["1", "1", "1", "1"]


def test_positions_of_tuples(tmp_path: Path) -> None:
    source = text(tmp_path, "5,a,1\n60,b,2\n", records="tuple")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(0)

    def build(env: StreamExecutionEnvironment) -> Any:
        stream = env.from_source(source, strategy, "events").key_by(1)
        return stream.window(WINDOWS["tumbling"]).aggregate(sum_of(2), window_row("channel"))

    assert len(both(build).rows) == 2


@dropped_readers
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("5,a,1\n0x1F,a,1\n", "invalid literal for int"),
        ("5,a,1\n6,a\n", "2 fields instead of 3"),
        (",a,1\n", "invalid literal for int"),
    ],
)
def test_bad_lines_fail_either_way(tmp_path: Path, content: str, message: str) -> None:
    build = counting(text(tmp_path, content))
    for lowering in ("true", "false"):
        with pytest.raises(Exception, match=message):
            run(build, penstock__lowering__enabled=lowering)


def test_none_is_a_key_either_way(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2, 3], "channel": ["a", None, None]})
    pq.write_table(table, tmp_path / "0.parquet")
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(tmp_path)).build()
    assert both(counting(source)).rows == sorted(
        repr(Row(channel=channel, window_start=0, window_end=50, value=value))
        for channel, value in [("a", 1), (None, 2)]
    )


@dropped_readers
def test_timestamps_that_are_none_fail_either_way(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, None], "channel": ["a", "b"]})
    pq.write_table(table, tmp_path / "0.parquet")
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(tmp_path)).build()
    for lowering in ("true", "false"):
        with pytest.raises(Exception, match="returned NoneType None"):
            run(counting(source), penstock__lowering__enabled=lowering)


# -- what is not lowered --------------------------------------------------------------------------

NOT_LOWERED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lateness": (
        lambda s: s.key_by("channel").window(WINDOWS["tumbling"]).allowed_lateness(5).count(),
        "it allows lateness",
    ),
    "key": (
        lambda s: s.key_by(lambda r: r["channel"]).window(WINDOWS["tumbling"]).count(),
        "its key is made by a function",
    ),
    "reduce": (
        lambda s: s.key_by("channel").window(WINDOWS["tumbling"]).reduce(lambda a, b: a),
        "what it computes is no built-in aggregate",
    ),
    "gaps": (
        lambda s: (
            s.key_by("channel")
            .window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(20)))
            .count()
        ),
        "its windows have gaps",
    ),
    "map": (
        lambda s: s.map(lambda r: r).key_by("channel").window(WINDOWS["tumbling"]).count(),
        "reads records",
    ),
    "no column": (
        lambda s: s.key_by("channel").window(WINDOWS["tumbling"]).aggregate(sum_of("other")),
        "there is no column 'other'",
    ),
}


@dropped_readers
@pytest.mark.parametrize("case", NOT_LOWERED)
def test_not_lowered(tmp_path: Path, case: str) -> None:
    then, why = NOT_LOWERED[case]
    source = text(tmp_path, "5,a,1\n")
    if case == "no column":
        with pytest.raises(Exception, match="other"):
            run(lambda env: then(env.from_source(source, bounded(), "events")))
        return
    remarks = run(lambda env: then(env.from_source(source, bounded(), "events"))).remarks
    assert [why in remark for remark in remarks.values()] == [True]


def columns_by_operator(env: StreamExecutionEnvironment) -> dict[str, str]:
    nodes = json.loads(env.get_execution_plan())["nodes"]
    return {node["type"]: node.get("columns", "records") for node in nodes}


def test_plan_says_what_is_lowered(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = env.from_source(text(tmp_path, "5,a,1\n"), WatermarkStrategy.no_watermarks(), "events")
    stream = source.assign_timestamps_and_watermarks(bounded()).key_by("channel")
    stream.window(WINDOWS["tumbling"]).count().print()
    assert columns_by_operator(env) == {
        "Source: events": "lowered",
        "Timestamps/Watermarks": "lowered",
        "TumblingEventTimeWindows": "lowered",
        "Sink: Print to Std. Out": "records",
    }
    stream.map(lambda row: row).print()
    assert columns_by_operator(env) == {
        "Source: events": "records",
        "Timestamps/Watermarks": "records",
        "TumblingEventTimeWindows": "not lowered: other operators read the same source",
        "Map": "records",
        "Sink: Print to Std. Out": "records",
    }
