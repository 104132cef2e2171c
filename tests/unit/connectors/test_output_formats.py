"""What is in part files: text, CSV, JSON, Parquet, and joined files of these."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from file_sink_job import at, bulk, hidden, parts, rows, write
from pyarrow import parquet

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.core.errors import JobExecutionError
from penstock.core.row import Row

if TYPE_CHECKING:
    from pathlib import Path


def test_text_of_anything(tmp_path: Path) -> None:
    sink = rows(tmp_path)
    committables = write(sink, ["é", 1, None, (1, "a")], 1)
    sink.create_committer().commit(committables, at(1, final=True))
    assert parts(tmp_path) == {"part-0-000001": "é\n1\nNone\n(1, 'a')\n"}


def test_csv_has_one_header_for_each_part(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.csv(["a", "b"]))
    committables = write(sink, [{"b": 'q"', "a": 1}, (2, "x,y")], 1)
    committables += write(sink, [Row(a=3, b="two\nlines"), [4, None]], 2)
    sink.create_committer().commit(committables, at(2))
    (text,) = parts(tmp_path).values()
    assert list(csv.reader(text.splitlines(keepends=True))) == [
        ["a", "b"],
        ["1", 'q"'],
        ["2", "x,y"],
        ["3", "two\nlines"],
        ["4", ""],
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [({"c": 1}, "a column 'c'; the columns are a, b"), ((1,), "1 fields instead of 2")],
)
def test_csv_errors(tmp_path: Path, value: Any, message: str) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.csv(["a", "b"]))
    with pytest.raises(JobExecutionError, match=message):
        write(sink, [value], 1)


def test_json(tmp_path: Path) -> None:
    class Mine(dict[str, int]):
        """msgspec does not know this one."""

    sink = bulk(tmp_path, BulkWriterFactory.json())
    values = [{"a": [1, None]}, Row(a=1, b=Row(c=2)), (1, "x")]
    committables = write(sink, values, 1) + write(sink, [Mine(a=1)], 2)
    sink.create_committer().commit(committables, at(2))
    (text,) = parts(tmp_path).values()
    assert [json.loads(line) for line in text.splitlines()] == [
        {"a": [1, None]},
        {"a": 1, "b": {"c": 2}},
        [1, "x"],
        {"a": 1},
    ]


def test_parquet_joins_epochs_whose_types_differ(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.parquet())
    committables = write(sink, [{"a": 1, "b": None}], 1) + write(sink, [{"a": 2.5, "c": "x"}], 2)
    sink.create_committer().commit(committables, at(2))
    (path,) = (path for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert parquet.read_table(path).to_pylist() == [
        {"a": 1.0, "b": None, "c": None},
        {"a": 2.5, "b": None, "c": "x"},
    ]
    assert hidden(tmp_path) == []


def test_parquet_that_does_not_fit_together(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.parquet())
    committables = write(sink, [{"a": 1}], 1) + write(sink, [{"a": "x"}], 2)
    with pytest.raises(JobExecutionError, match=r"Give the format a pyarrow\.Schema"):
        sink.create_committer().commit(committables, at(2))


def test_parquet_with_a_schema(tmp_path: Path) -> None:
    schema = arrow.schema([("a", arrow.int16()), ("b", arrow.string())])
    sink = bulk(tmp_path, BulkWriterFactory.parquet(schema))
    sink.create_committer().commit(write(sink, [(1, None)], 1), at(1))
    (path,) = tmp_path.iterdir()
    assert parquet.read_schema(path).equals(schema)
    with pytest.raises(JobExecutionError, match="column 'a' cannot be written as int16"):
        write(sink, [("x", "y")], 2)
