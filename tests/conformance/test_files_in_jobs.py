"""What one job writes to files another one reads, in every format; compressed and watched files."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import collected, environment
from restore_kit import Visible, wait_for

from penstock.common import Encoder, Row, WatermarkStrategy
from penstock.common.serialization import BulkWriterFactory
from penstock.datastream.connectors import FileSink, FileSource
from penstock.datastream.connectors.file_system import (
    BulkFormat,
    StreamFormat,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
TEXTS = [f"line {n} größer" for n in range(300)]
TABLE = [
    {"id": n, "name": f"n,{n}\n" if n % 5 == 0 else f"n{n}", "price": n / 4} for n in range(300)
]


def rows_of(values: list[Any]) -> list[Any]:
    return [value.as_dict() if isinstance(value, Row) else value for value in values]


FORMATS: dict[str, tuple[list[Any], Callable[[str], Any], Callable[[str], Any]]] = {
    "text": (
        TEXTS,
        lambda path: FileSink.for_row_format(path, Encoder.simple_string_encoder()),
        lambda path: FileSource.for_record_stream_format(StreamFormat.text_line_format(), path),
    ),
    "csv": (
        TABLE,
        lambda path: FileSink.for_bulk_format(
            path, BulkWriterFactory.csv(columns=["id", "name", "price"])
        ),
        lambda path: FileSource.for_record_stream_format(
            StreamFormat.csv_format(header=True, types={"id": int, "price": float}), path
        ),
    ),
    "json": (
        TABLE,
        lambda path: FileSink.for_bulk_format(path, BulkWriterFactory.json()),
        lambda path: FileSource.for_record_stream_format(StreamFormat.json_line_format(), path),
    ),
    "parquet": (
        TABLE,
        lambda path: FileSink.for_bulk_format(path, BulkWriterFactory.parquet()),
        lambda path: FileSource.for_bulk_file_format(BulkFormat.parquet_format(), path),
    ),
}


def read(source: Any, parallelism: int, folder: Path) -> list[Any]:
    env = environment(folder, parallelism, {"execution.checkpointing.interval": ""})
    return rows_of(collected(env.from_source(source, NO_WATERMARKS, "files")))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name: str, parallelism: int, tmp_path: Path) -> None:
    """Epochs of fifty records and a checkpoint behind each, so parts of files are joined."""
    values, sink, source = FORMATS[name]
    env = environment(tmp_path, parallelism)
    env.from_collection(values).rebalance().sink_to(sink(str(tmp_path / "out")).build())
    env.execute()
    found = read(source(str(tmp_path / "out")).build(), parallelism, tmp_path)
    key = str if name == "text" else (lambda row: row["id"])
    assert sorted(found, key=key) == sorted(values, key=key)
    # Nothing is left that readers must not see.
    assert not [*(tmp_path / "out").rglob(".*")]


def test_compressed_text(tmp_path: Path) -> None:
    """Some files compressed, some not, one of several members; each is read whole."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(TEXTS[:100]).encode()))
    (folder / "b.txt").write_text("\n".join(TEXTS[100:200]) + "\n")
    members = [gzip.compress(f"{text}\n".encode()) for text in TEXTS[200:]]
    (folder / "c.txt.gz").write_bytes(b"".join(members))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    assert sorted(read(source.build(), 2, tmp_path)) == sorted(TEXTS)


def test_a_watched_directory(tmp_path: Path) -> None:
    """Files that appear are read once, over a restart from a savepoint too."""
    Visible.rows.clear()
    folder = tmp_path / "in"
    folder.mkdir()

    def start(path: str = "") -> Any:
        env = environment(tmp_path, 2, {"execution.state-recovery.path": path})
        lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        source = lines.monitor_continuously(5).build()
        stream = env.from_source(source, NO_WATERMARKS, "lines").uid("lines")
        stream.map(lambda line: (line,)).add_sink(Visible("out")).uid("sink")
        return env.execute_async()

    def put(name: str, lines: list[str]) -> None:
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        (tmp_path / name).rename(folder / name)

    put("1.txt", TEXTS[:120])
    client = start()
    wait_for(lambda: len(Visible.all()) >= 120, "the first file")
    put("2.txt", TEXTS[120:150])
    put("3.txt", TEXTS[150:200])
    wait_for(lambda: len(Visible.all()) >= 200, "files that came later")
    savepoint = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    put("4.txt", TEXTS[200:])
    client = start(savepoint)
    wait_for(lambda: len(Visible.all()) >= 300, "the file that came in between")
    client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    assert sorted(row[0] for row in Visible.all()) == sorted(TEXTS)
