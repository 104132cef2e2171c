"""Every program that can be lowered gives the same either way: results and late records.

The data have what columns and records might see differently: nulls, NaN, signs, numbers beyond 64
bits, records that are late on one channel only. Reads and epochs are small, so that watermarks fall
between the records of what is read as columns at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Configuration, Row, Time, WatermarkStrategy
from penstock.connectors import source as source_contract
from penstock.connectors.files import parquet_format
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
from penstock.datastream.connectors.file_system import BulkFormat, FileSource, StreamFormat
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.launch import engine, local
from penstock.runtime import source_logic
from penstock.runtime.lowering import lower

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ["ts", "channel", "behavior", "n", "x", "word"]
Record = tuple[int, str, str, int | None, float | None, str | None]

WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(50)),
    "tumbling-offset": TumblingEventTimeWindows.of(Time.milliseconds(50), Time.milliseconds(13)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20)),
    "sliding-odd": SlidingEventTimeWindows.of(
        Time.milliseconds(50), Time.milliseconds(30), Time.milliseconds(7)
    ),
}
AGGREGATES: dict[str, Callable[[], Any]] = {
    "count": count,
    "sum": lambda: sum_of("n"),
    "sum-of-floats": lambda: sum_of("x"),
    "min": lambda: min_of("n"),
    "max-of-floats": lambda: max_of("x"),
    "max-of-text": lambda: max_of("word"),
    "avg": lambda: avg_of("n"),
    "all": lambda: all_of(
        records=count(), n=sum_of("n"), least=min_of("x"), word=min_of("word"), mean=avg_of("x")
    ),
}

records = st.tuples(
    st.integers(-300, 300),
    st.sampled_from("ab"),
    st.sampled_from(["click", "open", "größe"]),
    st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**62, -(2**63), 2**63 - 1])),
    st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.1, -0.0, float("nan"), 1e300])),
    st.one_of(st.none(), st.sampled_from(["", "a", "ä", "\U0001f600", "z"])),
)
parts = st.lists(st.lists(records, max_size=40), min_size=1, max_size=3)


@dataclass
class Outcome:
    """What a job gave."""

    rows: list[str]
    late: int
    remarks: dict[str, str]


def run(build: Callable[[StreamExecutionEnvironment], Any], **configured: str) -> Outcome:
    """Runs a program in this process."""
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    for key, value in configured.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = build(environment)
    late: dict[tuple[int, int, str], int] = {}
    remarks: dict[str, str] = {}
    execute = local.execute_async

    def listen(summary: Any) -> None:
        for report in summary.reports:
            for uid, metrics in report.metrics.items():
                found = metrics.user.get("numLateRecordsDropped", 0)
                late[report.stage_id, report.subtask, uid] = found

    def noted(graph: Any) -> Any:
        lowered = lower(graph)
        remarks.update(lowered.remarks)
        return lowered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "execute_async", lambda graph, conf: execute(graph, conf, listen))
        patch.setattr(engine, "lower", noted)
        rows = sorted(map(repr, stream.execute_and_collect()))
    return Outcome(rows, sum(late.values()), remarks)


def both(build: Callable[[StreamExecutionEnvironment], Any], **configured: str) -> Outcome:
    """Runs a program both ways, checks that it was lowered, and that nobody can tell."""
    lowered = run(build, **configured)
    plain = run(build, penstock__lowering__enabled="false", **configured)
    assert list(lowered.remarks.values()) == [""]
    assert plain.remarks == {}
    assert lowered.rows == plain.rows
    assert lowered.late == plain.late
    return lowered


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (source_contract, source_logic, parquet_format):
        monkeypatch.setattr(module, "READ_RECORDS", 4)


def parquet(folder: Path, lists: list[list[Record]], form: str = "row") -> Any:
    types = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.float64(), pa.string()]
    for number, part in enumerate(lists):
        columns = list(zip(*part, strict=True)) or [()] * len(NAMES)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        table = pa.table(arrays, NAMES)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=11)
    return FileSource.for_bulk_file_format(
        BulkFormat.parquet_format(records=form), str(folder)
    ).build()


def text(folder: Path, content: str, name: str = "0.csv", **options: Any) -> Any:
    (folder / name).write_text(content, newline="")
    given = {"header": False, "columns": ["ts", "channel", "n"], "types": {"ts": int, "n": int}}
    return FileSource.for_record_stream_format(
        StreamFormat.csv_format(**given | options), str(folder)
    ).build()


def bounded(bound_ms: int = 20) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(bound_ms).with_timestamp_column("ts")


def counting(source: Any, window: str = "tumbling", parallelism: int = 1) -> Any:
    def build(env: StreamExecutionEnvironment) -> Any:
        env.set_parallelism(parallelism)
        stream = env.from_source(source, bounded(), "events").key_by("channel")
        return stream.window(WINDOWS[window]).aggregate(count(), window_row("channel"))

    return build


numbers = itertools.count()

# A subtask whose epoch failed is dropped with its file open.
dropped_readers = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=12, deadline=None)
@given(lists=parts, parallelism=st.integers(1, 2), epoch=st.sampled_from([3, 30, 500]))
def test_lowered_is_equal(
    tmp_path_factory: pytest.TempPathFactory,
    aggregate: str,
    window: str,
    lists: list[list[Record]],
    parallelism: int,
    epoch: int,
) -> None:
    folder = tmp_path_factory.mktemp(f"data{next(numbers)}")
    source = parquet(folder, lists)

    def build(env: StreamExecutionEnvironment) -> Any:
        env.set_parallelism(parallelism)
        stream = env.from_source(source, bounded(), "events").key_by("channel", "behavior")
        windowed = stream.window(WINDOWS[window])
        return windowed.aggregate(AGGREGATES[aggregate](), window_row("channel", "behavior"))

    both(build, penstock__epoch__max_records=str(epoch))


@settings(max_examples=25, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.tuples(st.integers(-300, 300), st.sampled_from("abc"), st.integers(-9, 9)),
            st.sampled_from(
                [
                    ("007", '"q"', " 5 "),
                    ("+12", "a", "1_0"),
                    ("-0", "x", "0\r"),
                    ("99", "ä", str(2**70)),
                    ("12", '"two\nlines"', "3"),
                    (),
                ]
            ),
        ),
        max_size=40,
    ),
    ends=st.booleans(),
)
def test_lowered_csv_is_equal(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[Any, ...]], ends: bool
) -> None:
    folder = tmp_path_factory.mktemp(f"text{next(numbers)}")
    content = "\n".join(",".join(map(str, line)) for line in lines) + ("\n" if ends else "")
    source = text(folder, content)

    def build(env: StreamExecutionEnvironment) -> Any:
        stream = env.from_source(source, bounded(), "events").key_by("channel")
        return stream.window(WINDOWS["tumbling"]).aggregate(sum_of("n"), window_row("channel"))

    both(build, penstock__epoch__max_records="13")


# -- worked by hand -------------------------------------------------------------------------------


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


@dropped_readers
def test_keys_that_are_none_fail_either_way(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2], "channel": ["a", None]})
    pq.write_table(table, tmp_path / "0.parquet")
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(tmp_path)).build()
    for lowering in ("true", "false"):
        with pytest.raises(Exception, match="returned None"):
            run(counting(source), penstock__lowering__enabled=lowering)


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


def test_plan_says_what_is_lowered(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(text(tmp_path, "5,a,1\n"), bounded(), "events").key_by("channel")
    stream.window(WINDOWS["tumbling"]).count().print()
    assert '"columns": "lowered"' in env.get_execution_plan()
    stream.window(WINDOWS["tumbling"]).count().print()
    stream.map(lambda row: row).print()
    assert '"columns": "not lowered: other operators read the same' in env.get_execution_plan()
