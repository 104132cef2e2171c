"""Reads of large records have bounded bytes, whatever the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from pyarrow import parquet
from source_rows import SOURCES, lines_of

from penstock.connectors.custom import PythonSource
from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.generator import CollectionSource, DataGeneratorSource
from penstock.connectors.source import Budget, MeteredReader, ReadResult, Source, Split
from penstock.core.times import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KILOBYTE = 1 << 10
COUNT = 200
BODIES = [f"{number:04}" * 256 for number in range(COUNT)]
"""Texts of a kilobyte; a thousandth of what counts as large, so that the test is quick."""


def large(index: int) -> str:
    return BODIES[index]


class Bodies(PythonSource):
    """The texts, in one split."""

    bounded = True

    def splits(self) -> list[str]:
        return ["all"]

    def end_offset(self, split: str) -> int:
        return COUNT

    def read(self, split: str, start: int, end: int) -> Iterator[Any]:
        yield from BODIES[start:end]


def text(folder: Path) -> Source:
    path = folder / "bodies.txt"
    path.write_text("\n".join(BODIES))
    return lines_of(path, 1 << 40)


def csv(folder: Path) -> Source:
    path = folder / "bodies.csv"
    path.write_text("\n".join(f"{number},{body}" for number, body in enumerate(BODIES)))
    builder = FileSource.for_record_stream_format(
        StreamFormat.csv_format(header=False, records="tuple"), str(path)
    )
    return builder.build()


def json_lines(folder: Path) -> Source:
    path = folder / "bodies.json"
    path.write_text("\n".join(json.dumps({"body": body}) for body in BODIES))
    builder = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(path))
    return builder.build()


def rows(folder: Path) -> Source:
    path = folder / "bodies.parquet"
    parquet.write_table(arrow.table({"body": BODIES}), path)
    return FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(path)).build()


KINDS: dict[str, Callable[[Path], Source]] = {
    "collection": lambda _: CollectionSource(BODIES),
    "generator": lambda _: DataGeneratorSource(large, COUNT),
    "user's own": lambda _: Bodies(),
    "text": text,
    "csv": csv,
    "json": json_lines,
    "parquet": rows,
}


def reads(source: Source, split: Split, budget: Budget) -> list[ReadResult]:
    """Reads a split to its end, a few records at a time."""
    reader = MeteredReader(source.create_reader())
    position, results = split.start, []
    for _ in range(2 * COUNT):
        results.append(reader.read(split, position, budget))
        position = results[-1].position
        if results[-1].finished:
            break
    assert results[-1].finished
    reader.close()
    assert reader.bytes_read >= sum(result.count for result in results) * KILOBYTE
    return results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("max_bytes", "most"), [(20 * KILOBYTE, 20), (100, 1)])
def test_a_read_holds_what_fits(kind: str, max_bytes: int, most: int, tmp_path: Path) -> None:
    source = KINDS[kind](tmp_path)
    budget = Budget(100_000, max_bytes, 0)
    found = [
        read for split in source.discover(None, 0).splits for read in reads(source, split, budget)
    ]
    counts = [read.count for read in found]
    assert sum(counts) == COUNT
    assert most // 2 <= max(counts) <= most


@pytest.mark.parametrize("kind", list(SOURCES))
def test_the_records_stay_the_same(kind: str, tmp_path: Path) -> None:
    source, records = SOURCES[kind](tmp_path)
    found: list[Any] = []
    for split in source.discover(None, 0).splits:
        reader, position, result = MeteredReader(source.create_reader()), split.start, None
        for hour in range(10_000):
            result = reader.read(split, position, Budget(1_000, 2_000, hour * 3_600_000))
            found += result.values
            position = result.position
            if result.finished:
                break
        reader.close()
        assert result is not None
        assert result.finished
    assert sorted(map(repr, found)) == sorted(map(repr, records))


def test_a_large_read_is_one_even_while_the_size_of_records_is_unknown() -> None:
    source = DataGeneratorSource(large, COUNT)
    [split] = source.discover(None, 0).splits
    reader = MeteredReader(source.create_reader())
    result = reader.read(split, split.start, Budget(150, 1 << 30, 0))
    assert result.values == BODIES[:150]


def test_times_and_watermarks_of_small_reads_stay_where_they_were() -> None:
    first = ReadResult(["a", "b"], 2, [10, 20], watermark=15, punctuated=[(1, 5)], has_more=True)
    first.extend(ReadResult(["c"], 3, None, watermark=30, punctuated=[(0, 22)]))
    assert first == ReadResult(
        ["a", "b", "c"],
        3,
        [10, 20, NO_TIMESTAMP],
        watermark=30,
        punctuated=[(1, 5), (2, 15), (2, 22)],
    )


def test_chunks_of_a_collection_are_small_where_its_records_are_large() -> None:
    source = CollectionSource([bytes(1 << 20)] * 40)
    assert len(source.discover(None, 0).splits) >= 5
