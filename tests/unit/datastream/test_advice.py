"""What the errors of refused names advise works as they say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.common import BulkWriterFactory, Row, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import BulkFormat, FileSink, FileSource, StreamFormat

if TYPE_CHECKING:
    from pathlib import Path

Env = StreamExecutionEnvironment


def written_and_read(env: Env, folder: Path, writer: Any, source_builder: Any) -> list[Any]:
    people = env.from_collection([Row(name="Ada", year=1815), Row(name="Alan", year=1912)])
    people.sink_to(FileSink.for_bulk_format(str(folder), writer).build())
    env.execute()
    with env.from_source(
        source_builder.build(), WatermarkStrategy.no_watermarks(), "read again"
    ).execute_and_collect() as records:
        return sorted((record["name"], int(record["year"])) for record in records)


PEOPLE = [("Ada", 1815), ("Alan", 1912)]


def test_csv(env: Env, tmp_path: Path) -> None:
    source = FileSource.for_record_stream_format(StreamFormat.csv_format(), str(tmp_path))
    writer = BulkWriterFactory.csv(["name", "year"], header=True)
    assert written_and_read(env, tmp_path, writer, source) == PEOPLE


def test_json(env: Env, tmp_path: Path) -> None:
    source = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(tmp_path))
    assert written_and_read(env, tmp_path, BulkWriterFactory.json(), source) == PEOPLE


def test_parquet(env: Env, tmp_path: Path) -> None:
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(tmp_path))
    assert written_and_read(env, tmp_path, BulkWriterFactory.parquet(), source) == PEOPLE


def test_json_in_a_map(env: Env) -> None:
    texts = env.from_collection(['{"name": "Ada"}'], Types.STRING())
    with texts.map(json.loads).map(json.dumps).execute_and_collect() as records:
        assert list(records) == ['{"name": "Ada"}']
