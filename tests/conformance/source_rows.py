"""Every source, with the records that it must give."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import json
import random
import sqlite3
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as arrow
from pyarrow import orc, parquet

from penstock.connectors.custom import PythonSource, Timestamped, Watermark
from penstock.connectors.demo_events import DemoEvents, DemoEventSource
from penstock.connectors.files.block_formats import AvroFormat, OrcFormat
from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.generator import (
    CollectionSource,
    DataGeneratorSource,
    NumberSequenceSource,
)
from penstock.connectors.jdbc.source import JdbcSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.connectors.source import Source


class Halves(PythonSource):
    """Two splits of numbers with event times and watermarks."""

    bounded = True
    emits_own_watermarks = True

    def splits(self) -> list[str]:
        return ["low", "high"]

    def start_offset(self, split: str) -> int:
        return 0 if split == "low" else 250

    def end_offset(self, split: str) -> int:
        return 250 if split == "low" else 500

    def read(self, split: str, start: int, end: int) -> Iterator[Any]:
        for number in range(start, end):
            yield Timestamped(number, number * 10)
            if number % 7 == 0:
                yield Watermark(number * 10)


TEXT_LINES = ["first", "", "größer", "\N{GREEK SMALL LETTER ALPHA}" * 50, " padded ", "last"] * 40
CSV_ROWS = [(str(n), f'say "{n}"', "two\nlines" if n % 3 else "", f"k,{n}") for n in range(200)]
JSON_VALUES: list[Any] = [{"n": n, "s": "é" * (n % 5)} for n in range(200)] + [[1, None], "x", 1.5]


def text_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.txt"
    path.write_bytes(("\r\n".join(TEXT_LINES[:90]) + "\n" + "\n".join(TEXT_LINES[90:])).encode())
    return lines_of(path, 100), TEXT_LINES


def lines_of(path: Path, cut_bytes: int, charset: str = "UTF-8") -> Source:
    line_format = StreamFormat.text_line_format(charset)
    builder = FileSource.for_record_stream_format(line_format, str(path))
    return builder.set_cut_bytes(cut_bytes).build()


def utf16_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "wide.txt"
    path.write_bytes("\n".join(TEXT_LINES).encode("utf-16"))
    return lines_of(path, 100, "utf-16"), TEXT_LINES


def gzip_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.txt.gz"
    path.write_bytes(gzip.compress(("\n".join(TEXT_LINES) + "\n").encode()))
    return lines_of(path, 10), TEXT_LINES


def bz2_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "lines.bz2"
    path.write_bytes(bz2.compress("\n".join(TEXT_LINES).encode()))
    return lines_of(path, 10), TEXT_LINES


def csv_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d"])
        writer.writerows(CSV_ROWS)
    csv_format = StreamFormat.csv_format(records="tuple")
    builder = FileSource.for_record_stream_format(csv_format, str(path))
    return builder.set_cut_bytes(300).build(), CSV_ROWS


def json_file(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in JSON_VALUES) + "\n")
    builder = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(path))
    return builder.set_cut_bytes(300).build(), JSON_VALUES


def avro_file(folder: Path) -> tuple[Source, list[Any]]:
    rows = [{"n": number, "text": f"é{number}" * (number % 9)} for number in range(800)]
    fields = [{"name": "n", "type": "int"}, {"name": "text", "type": "string"}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with (folder / "t.avro").open("wb") as file:
        fastavro.writer(file, schema, rows, "deflate", sync_interval=700)
    builder = FileSource.for_bulk_file_format(AvroFormat(), str(folder))
    return builder.set_cut_bytes(900).build(), rows


def orc_file(folder: Path) -> tuple[Source, list[Any]]:
    rows = [{"n": number, "text": f"é{number}"} for number in range(800)]
    with orc.ORCWriter(str(folder / "t.orc"), batch_size=64, stripe_size=64) as writer:
        for start in range(0, 800, 160):
            writer.write(arrow.Table.from_pylist(rows[start : start + 160]))
    builder = FileSource.for_bulk_file_format(OrcFormat(), str(folder))
    return builder.set_cut_bytes(300).build(), rows


def parquet_file(folder: Path) -> tuple[Source, list[Any]]:
    rows = [{"n": n, "s": None if n % 5 == 0 else f"v{n}"} for n in range(500)]
    parquet.write_table(arrow.Table.from_pylist(rows), folder / "t.parquet", row_group_size=70)
    builder = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(folder))
    return builder.set_cut_bytes(1).build(), rows


def several_files(folder: Path) -> tuple[Source, list[Any]]:
    expected: list[str] = []
    (folder / "deep").mkdir()
    for name in ("deep/a.txt", "b.txt", "c.txt"):
        lines = [f"{name} {number}" for number in range(20)]
        (folder / name).write_text("\n".join(lines))
        expected += lines
    (folder / "empty.txt").touch()
    return lines_of(folder, 64), expected


def rated(folder: Path) -> tuple[Source, list[Any]]:
    source = DataGeneratorSource(lambda_free_square, 3000, rate_per_second=500, num_splits=3)
    return source, [number * number for number in range(3000)]


def lambda_free_square(index: int) -> int:
    return index * index


def drawn(index: int, source: random.Random) -> tuple[int, int]:
    return index, source.randrange(10**9)


def seeded(folder: Path) -> tuple[Source, list[Any]]:
    values = []
    for block in range(3):
        generator = random.Random(f"5:{block}")
        values += [drawn(index, generator) for index in range(block * 1024, block * 1024 + 1024)]
    return DataGeneratorSource(drawn, 2500, seed=5, num_splits=2), values[:2500]


def demo(folder: Path) -> tuple[Source, list[Any]]:
    lines = [line for block in DemoEvents(seed=3, ids=50).blocks(3000) for line in block]
    return DemoEventSource(3000, seed=3, ids=50, num_splits=2), lines


def sqlite_rows(folder: Path) -> tuple[Source, list[Any]]:
    path = folder / "in.db"
    records = [(7 * number, f"row {number}") for number in range(1000)]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", records)
    builder = JdbcSource.builder().set_db_url(f"jdbc:sqlite:{path}")
    builder.set_sql("SELECT * FROM t").set_split_column("id", 3).set_result_extractor(tuple)
    return builder.build(), records


SOURCES: dict[str, Callable[[Path], tuple[Source, list[Any]]]] = {
    "collection": lambda folder: (CollectionSource(range(1000), 64), list(range(1000))),
    "numbers": lambda folder: (
        NumberSequenceSource(-3, 700).with_parallelism(3),
        list(range(-3, 701)),
    ),
    "generator": rated,
    "seeded generator": seeded,
    "demo events": demo,
    "SQLite": sqlite_rows,
    "own": lambda folder: (Halves(), list(range(500))),
    "text": text_file,
    "text in UTF-16": utf16_file,
    "text, gzip": gzip_file,
    "text, bzip2": bz2_file,
    "text, directory": several_files,
    "CSV": csv_file,
    "JSON lines": json_file,
    "Avro": avro_file,
    "ORC": orc_file,
    "Parquet": parquet_file,
}
