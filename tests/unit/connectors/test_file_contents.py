"""Compressed files, Parquet, and files of other storages."""

from __future__ import annotations

import datetime
import gzip
import os
import sys
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.source import (
    FileSource,
)
from penstock.connectors.source import Budget
from penstock.core.errors import (
    ConfigurationError,
    JobExecutionError,
    ProgramError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pathlib import Path

from file_source_reading import PLENTY, lines, text, write

# -- compression ----------------------------------------------------------------------------------


def test_gzip_members_and_positions(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n") + gzip.compress(b"3\n4"))
    source = text(tmp_path).set_cut_bytes(1).build()
    discovery = source.discover(None, 0)
    assert len(discovery.splits) == 1
    with closing(source.create_reader()) as reader:
        split = discovery.splits[0]
        # Forwards, backwards and again: positions are those of the text inside.
        for position, expected in (
            (4, ["3", "4"]),
            (0, ["1", "2", "3", "4"]),
            (2, ["2", "3", "4"]),
        ):
            result = reader.read(split, position, PLENTY)
            assert (result.values, result.position, result.finished) == (expected, 7, True)


def test_a_position_behind_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n"))
    source = text(tmp_path).build()
    split = source.discover(None, 0).splits[0]
    with (
        closing(source.create_reader()) as reader,
        pytest.raises(JobExecutionError, match="position 50 is behind the end of the file, at 2"),
    ):
        reader.read(split, 50, PLENTY)


def test_unknown_compression(tmp_path: Path) -> None:
    write(tmp_path, "a.zst")
    with pytest.raises(UnsupportedError, match=r"Use \.gz, \.bz2 or \.xz"):
        text(tmp_path).build().discover(None, 0)


# -- Parquet --------------------------------------------------------------------------------------


def parquet_source(path: Path, cut_bytes: int = 1, **options: Any) -> FileSource:
    bulk = BulkFormat.parquet_format(**options)
    return FileSource.for_bulk_file_format(bulk, str(path)).set_cut_bytes(cut_bytes).build()


def test_parquet_row_groups(tmp_path: Path) -> None:
    table = arrow.table({"n": list(range(10)), "s": [f"s{n}" for n in range(10)]})
    parquet.write_table(table, tmp_path / "t", row_group_size=4)
    source = parquet_source(tmp_path, columns=["s", "n"], records="tuple")
    discovery = source.discover(None, 0)
    assert [split.data["groups"] for split in discovery.splits] == [(0,), (1,), (2,)]
    assert lines(source, discovery, Budget(3, 1, 0)) == [(f"s{n}", n) for n in range(10)]
    joined = parquet_source(tmp_path, 1 << 20, records="row")
    discovery = joined.discover(None, 0)
    assert [split.data["groups"] for split in discovery.splits] == [(0, 1, 2)]
    rows = lines(joined, discovery)
    assert [row.as_dict() for row in rows] == [{"n": n, "s": f"s{n}"} for n in range(10)]


@pytest.mark.parametrize("fields", [None, ("n",)], ids=["records", "columns"])
def test_a_large_row_group_is_decoded_piece_by_piece(
    tmp_path: Path, fields: tuple[str, ...] | None
) -> None:
    """Some writers make one of each file; every reading subtask would hold all of it."""
    count, width = 80_000, 500
    table = arrow.table({"text": [f"{n:0{width}}" for n in range(count)], "n": list(range(count))})
    parquet.write_table(table, tmp_path / "t", row_group_size=count, use_dictionary=False)
    del table
    source: Any = parquet_source(tmp_path, columns=["n", "text"], records="tuple")
    if fields is not None:
        source = source.with_columns((0,))
    (split,) = source.discover(None, 0).splits
    held = arrow.total_allocated_bytes()
    random = Random(5)
    with closing(source.create_reader()) as reader:
        position, backwards = 0, 3
        while position < count:
            if backwards and position > count / 2:
                # An epoch that failed is read again.
                position, backwards = random.randrange(position), backwards - 1
            budget = Budget(random.randint(1, 5_000), 2 << 20, 0)
            result = reader.read(split, position, budget)
            assert 0 < result.count <= budget.max_records
            rows = result.values if result.columns is None else list(result.columns.values)
            expected = range(position, position + result.count)
            assert rows == [(n, f"{n:0{width}}") for n in expected]
            position = result.position
            assert position == expected.stop
            assert result.finished == (position == count)
            del result, rows
            # Of the 40 MB of the row group.
            assert arrow.total_allocated_bytes() - held < 16 << 20


def test_timestamps_as_spark_writes_them_are_datetimes(tmp_path: Path) -> None:
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 5, datetime.UTC)
    table = arrow.table({"at": [moment]})
    parquet.write_table(table, tmp_path / "t", use_deprecated_int96_timestamps=True)
    source = parquet_source(tmp_path, records="tuple")
    ((found,),) = lines(source, source.discover(None, 0))
    assert (type(found), found) == (datetime.datetime, moment.replace(tzinfo=None))


def test_parquet_errors(tmp_path: Path) -> None:
    write(tmp_path, "no.parquet")
    with pytest.raises(JobExecutionError, match=r"no\.parquet cannot be read as Parquet"):
        parquet_source(tmp_path).discover(None, 0)
    parquet.write_table(arrow.table({"n": [1]}), tmp_path / "no.parquet")
    with pytest.raises(JobExecutionError, match="no column 'm'; it has n"):
        parquet_source(tmp_path, columns=["m"]).discover(None, 0)
    with pytest.raises(ProgramError, match="choose 'dict', 'tuple' or 'row'"):
        BulkFormat.parquet_format(records="list")


@pytest.mark.parametrize("wrong", [BulkFormat.parquet_format(), "text", None])
def test_formats_are_checked(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ProgramError, match="is no StreamFormat"):
        FileSource.for_record_stream_format(wrong, str(tmp_path))
    with pytest.raises(ProgramError, match="is no BulkFormat"):
        FileSource.for_bulk_file_format(StreamFormat.text_line_format(), str(tmp_path))  # type: ignore[arg-type]


def test_charsets_are_checked() -> None:
    with pytest.raises(ProgramError, match="'UTF-9' is not known"):
        StreamFormat.text_line_format("UTF-9")


# -- other storages -------------------------------------------------------------------------------


def test_remote_files() -> None:
    remote = fsspec.filesystem("memory")
    place = f"/contents-{os.getpid()}"
    for name, data in (("in/a", "1\n2\n"), ("in/_tmp/b", "no\n"), ("in/deep/c", "3\n")):
        remote.pipe(f"{place}/{name}", data.encode())
    source = text(f"memory:/{place}/in").set_cut_bytes(2).build()
    discovery = source.discover(None, 0)
    assert lines(source, discovery) == ["1", "2", "3"]
    flat = text(f"memory:/{place}/in").set_recursive(False).build()
    assert lines(flat, flat.discover(None, 0)) == ["1", "2"]
    for pattern, expected in {
        "in/*": ["1", "2", "3"],
        "in/d*p/?": ["3"],
        "**/c": ["3"],
        "in/[b-z]": [],
    }.items():
        found = text(f"memory:/{place}/{pattern}").build()
        assert lines(found, found.discover(None, 0)) == expected
    remote.pipe(f"{place}/in/a", b"9\n2\n3\n")
    with pytest.raises(JobExecutionError, match="/in/a changed"):
        lines(source, discovery)
    nowhere = text(f"memory:/{place}/out")
    with pytest.raises(JobExecutionError, match="does not exist"):
        nowhere.build().discover(None, 0)
    assert nowhere.monitor_continuously(1).build().discover(None, 0).splits == ()


def test_a_scheme_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match="needs the package fsspec"):
        text("ftp://host/in")


def test_an_unknown_part_of_a_dialect_is_refused() -> None:
    with pytest.raises(ProgramError, match="got quote=; of the dialect there are delimiter, quo"):
        StreamFormat.csv_format(quote="'")
