"""Runs programs lowered and plain, over Parquet and CSV files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.connectors import source as source_contract
from penstock.connectors.files import parquet_format
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.aggregates import (
    count,
    window_row,
)
from penstock.datastream.connectors.file_system import BulkFormat, FileSource, StreamFormat
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.job import engine
from penstock.launch import local
from penstock.runtime import job_state, source_logic
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
                key = report.stage_id, report.subtask, uid
                late[key] = late.get(key, 0) + found

    def noted(graph: Any) -> Any:
        lowered = lower(graph)
        remarks.update(lowered.remarks)
        return lowered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "execute_async", lambda graph, conf, *_: execute(graph, conf, listen))
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


def make_reads_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets watermarks rise behind every fourth record, also inside what is read at once."""
    for module in (source_contract, source_logic, parquet_format, job_state):
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
