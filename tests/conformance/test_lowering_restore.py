"""A savepoint of a lowered job restores in a plain one, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import environment
from restore_kit import Visible, wait_for

from penstock.common import Time, WatermarkStrategy
from penstock.datastream.aggregates import all_of, avg_of, count, sum_of, window_row
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.window import SlidingEventTimeWindows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.job_client import JobClient

CSV = StreamFormat.csv_format(
    header=False, columns=["ts", "channel", "n"], types={"ts": int, "n": int}
)
WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_column("ts")
WINDOWS = SlidingEventTimeWindows.of(Time.milliseconds(40), Time.milliseconds(20))


def start(folder: Path, *, lowers: bool, **options: str) -> JobClient:
    given = {"penstock.lowering.enabled": str(lowers).lower()}
    given |= {key.replace("__", "."): value for key, value in options.items()}
    env = environment(folder, 1, given)
    source = (
        FileSource.for_record_stream_format(CSV, str(folder / "in"))
        .monitor_continuously(10)
        .build()
    )
    (
        env.from_source(source, WATERMARKS, "events")
        .uid("events")
        .key_by("channel")
        .window(WINDOWS)
        .aggregate(all_of(n=count(), total=sum_of("n"), mean=avg_of("n")), window_row("channel"))
        .uid("windows")
        .map(list)
        .uid("lists")
        .add_sink(Visible("out"))
        .uid("sink")
    )
    return env.execute_async()


def put(folder: Path, name: str, lines: list[tuple[Any, ...]]) -> None:
    (folder / name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    (folder / "in").mkdir(exist_ok=True)
    (folder / name).rename(folder / "in" / name)


@pytest.mark.parametrize("first", [True, False])
def test_savepoints_cross(tmp_path: Path, first: bool) -> None:
    Visible.rows.clear()
    put(tmp_path, "1.csv", [(5, "a", 1), (25, "a", 2), (26, "b", 4), (55, "a", 8)])
    client = start(tmp_path, lowers=first)
    # The watermark is 44, so that of the open windows [0, 40) has fired.
    wait_for(lambda: len(Visible.all()) == 3, "the windows that end by 40")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()

    put(tmp_path, "2.csv", [(30, "a", 16), (58, "b", 32), (200, "a", 64)])
    client = start(tmp_path, lowers=not first, **{"execution__state-recovery__path": path})
    wait_for(lambda: len(Visible.all()) == 7, "the other windows")
    client.cancel().result()
    assert sorted(Visible.all()) == [
        ("a", -20, 20, 1, 1, 1.0),
        ("a", 0, 40, 2, 3, 1.5),
        # 30 came behind the watermark of 44, but its window was open.
        ("a", 20, 60, 3, 26, 26 / 3),
        ("a", 40, 80, 1, 8, 8.0),
        ("b", 0, 40, 1, 4, 4.0),
        ("b", 20, 60, 2, 36, 18.0),
        ("b", 40, 80, 1, 32, 32.0),
    ]
