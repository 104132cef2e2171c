"""Lake tables on disks as sources, written by the packages of their formats."""

from __future__ import annotations

import contextlib
import datetime
import pickle
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from lake_tables import SCHEMA, Lake, environment, rows_of, settings, table_of
from pyiceberg.catalog import load_catalog
from pyiceberg.types import StringType

from penstock.common import Row, WatermarkStrategy
from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.connectors.source import Source


class Reading:
    """Discovers and reads as the driver and a worker do, three rows at a time."""

    def __init__(self, source: Source) -> None:
        self.source = pickle.loads(pickle.dumps(source))
        self.state: Any = None
        self.now_ms = 0

    def rows(self) -> list[Any]:
        self.now_ms += 10_000
        found = self.source.discover(self.state, self.now_ms)
        self.state = found.state
        values: list[Any] = []
        with contextlib.closing(self.source.create_reader()) as reader:
            for split in found.splits:
                position, is_done = split.start, False
                while not is_done:
                    result = reader.read(split, position, Budget(3, 1 << 30, 0))
                    with contextlib.closing(self.source.create_reader()) as other:
                        again = other.read(split, position, Budget(3, 1 << 30, 0))
                    assert (again.values, again.position) == (result.values, result.position)
                    values += result.values
                    position, is_done = result.position, result.finished
        return sorted(values)


def appending_to_delta(folder: Path) -> tuple[Callable[[list[int]], None], Callable[..., Source]]:
    def append(numbers: list[int]) -> None:
        rows = arrow.table([[f"w{n % 2}" for n in numbers], numbers], schema=SCHEMA)
        write_deltalake(str(folder / "t"), rows, mode="append", partition_by=["word"])

    return append, lambda **more: DeltaSource(str(folder / "t"), "tuple", **more)


def appending_to_iceberg(folder: Path) -> tuple[Callable[[list[int]], None], Callable[..., Source]]:
    catalog = load_catalog("penstock", **settings(folder))
    catalog.create_namespace("shop")
    catalog.create_table("shop.words", SCHEMA)

    def append(numbers: list[int]) -> None:
        rows = [[f"w{n % 2}" for n in numbers], numbers]
        table_of(folder).append(arrow.table(rows, schema=SCHEMA))

    return append, lambda **more: IcebergSource(settings(folder), "shop.words", "tuple", **more)


KINDS = {"Delta": appending_to_delta, "Iceberg": appending_to_iceberg}


def expected(*numbers: int) -> list[Any]:
    return sorted((f"w{n % 2}", n) for n in numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_read_and_followed(tmp_path: Path, kind: str) -> None:
    append, source = KINDS[kind](tmp_path)
    append(list(range(10)))
    append([10, 11])
    once, following = Reading(source()), Reading(source(follow=True))
    assert once.rows() == following.rows() == expected(*range(12))
    append([12, 13])
    append([14])
    assert once.rows() == []
    assert following.rows() == expected(12, 13, 14)
    assert following.rows() == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_were_deleted(tmp_path: Path, kind: str) -> None:
    append, source = KINDS[kind](tmp_path)
    append([1, 2, 3])
    following, skipping = (
        Reading(source(follow=True, **more)) for more in ({}, {"skip_changes": True})
    )
    assert following.rows() == skipping.rows() == expected(1, 2, 3)
    if kind == "Delta":
        DeltaTable(str(tmp_path / "t")).delete("count = 2")
    else:
        table_of(tmp_path).delete("count = 2")
    append([4])
    with pytest.raises(InputError, match=r"version \d+ of the .* has changed or deleted rows"):
        following.rows()
    assert skipping.rows() == expected(4)
    assert Reading(source()).rows() == expected(1, 3, 4)


def test_joining_small_files_changes_nothing(tmp_path: Path) -> None:
    append, source = appending_to_delta(tmp_path)
    append([1, 2])
    following = Reading(source(follow=True))
    following.rows()
    append([3, 4])
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    append([5])
    assert following.rows() == expected(3, 4, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_is_followed_without_a_list_of_all_files(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, source = KINDS[kind](tmp_path)
    append([1, 2])
    following = Reading(source(follow=True))
    assert following.rows() == expected(1, 2)
    monkeypatch.delattr(DeltaTable, "to_pyarrow_dataset")
    monkeypatch.delattr("pyiceberg.table.DataScan.plan_files")
    append([3, 4])
    append([5])
    assert following.rows() == expected(3, 4, 5)
    opened = []
    monkeypatch.setattr(DeltaTable, "__init__", lambda *_, **__: opened.append(1))
    assert following.rows() == []
    assert not opened, "nothing new is seen in the log"


def recreated_delta(folder: Path) -> None:
    shutil.rmtree(folder / "t")


def recreated_iceberg(folder: Path) -> None:
    catalog = load_catalog("penstock", **settings(folder))
    catalog.drop_table("shop.words")
    catalog.create_table("shop.words", SCHEMA)


@pytest.mark.parametrize("versions", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_created_again(tmp_path: Path, kind: str, versions: int) -> None:
    """Its versions have the same numbers: what is in the first ones was never read."""
    append, source = KINDS[kind](tmp_path)
    append([1])
    append([2])
    following = Reading(source(follow=True))
    assert following.rows() == expected(1, 2)
    (recreated_delta if kind == "Delta" else recreated_iceberg)(tmp_path)
    for number in range(versions):
        append([10 + number])
    following.source = source(follow=True)  # The job was away meanwhile.
    with pytest.raises(InputError, match=r"table .* is another table than before"):
        following.rows()


def test_rows_that_delete_files_hide(tmp_path: Path) -> None:
    """Merge on read: an update adds a file of rows, and a file that deletes some in another one."""
    append, source = appending_to_iceberg(tmp_path)
    append([1])
    following = Reading(source(follow=True))
    assert following.rows() == expected(1)
    append([2])
    table = table_of(tmp_path)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as change:
        [task, *_] = table.scan().plan_files()
        change.append_data_file(task.file)
    with pytest.raises(InputError, match=r"has changed or deleted rows \(overwrite\)"):
        following.rows()


PARTITIONS = {
    "a 'text' é/=%\"": arrow.string(),
    "day": arrow.date32(),
    "at": arrow.timestamp("us", tz="UTC"),
    "local": arrow.timestamp("us"),
    "flag": arrow.bool_(),
    "cents": arrow.decimal128(10, 2),
    "small": arrow.int16(),
}


def test_partitions_of_a_version_that_is_followed(tmp_path: Path) -> None:
    """A log has the values of partitions as text; the first version is read by deltalake."""
    columns = arrow.schema([*PARTITIONS.items(), ("n", arrow.int64())])
    noon = datetime.datetime.fromisoformat("2026-01-02T12:00:00.000005")
    values = ["a/b =%é'", noon.date(), noon.replace(tzinfo=datetime.UTC), noon, True]
    values += [Decimal("1.50"), -3]
    row = dict(zip(columns.names, [*values, 1], strict=True))
    empty = {**dict.fromkeys(columns.names), "n": 2}

    def append() -> None:
        rows = arrow.Table.from_pylist([row, empty], schema=columns)
        partitions = list(PARTITIONS)
        write_deltalake(tmp_path / "t é", rows, mode="append", partition_by=partitions)

    append()
    source = DeltaSource(str(tmp_path / "t é"), follow=True, records=repr)
    following = Reading(source)
    first = following.rows()
    append()
    assert following.rows() == first
    assert "Decimal('1.50')" in first[0] + first[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_added_while_a_table_is_followed_and_written(
    tmp_path: Path, kind: str
) -> None:
    append, source = KINDS[kind](tmp_path)
    append([1])
    following = Reading(source(follow=True))
    following.rows()
    if kind == "Delta":
        DeltaTable(str(tmp_path / "t")).alter.add_columns([Field("more", "string")])
        lake = Lake(tmp_path, DeltaSink(str(tmp_path / "t"), SCHEMA))
    else:
        with table_of(tmp_path).update_schema() as update:
            update.add_column("more", StringType())
        lake = Lake(tmp_path)
    lake.commit(lake.pending([Row("w0", 2)], 1))
    assert following.rows() == [("w0", 2, None)]


def test_files_that_were_vacuumed(tmp_path: Path) -> None:
    append, source = appending_to_delta(tmp_path)
    append([2, 4])
    reading = Reading(source())
    found = reading.source.discover(None, 0)
    table = DeltaTable(str(tmp_path / "t"))
    table.delete()
    # What was deleted in this very millisecond stays.
    while not table.vacuum(0, dry_run=False, enforce_retention_duration=False):
        pass
    with pytest.raises(InputError, match=r"(?s)is gone: .*VACUUM"):
        reading.source.create_reader().read(found.splits[0], 0, Budget(3, 1 << 30, 0))
    with pytest.raises(JobExecutionError, match="nowhere cannot be read"):
        Reading(DeltaSource(str(tmp_path / "nowhere"))).rows()


def test_jobs_between_tables(tmp_path: Path) -> None:
    append, _ = appending_to_delta(tmp_path)
    append(list(range(100)))
    env = environment()
    stream = env.from_source(
        DeltaSource(str(tmp_path / "t")), WatermarkStrategy.no_watermarks(), "words"
    )
    sink = IcebergSink(settings(tmp_path), "shop.words", SCHEMA)
    stream.map(lambda row: Row(row.word, 2 * row["count"])).sink_to(sink)
    env.execute()
    assert rows_of(tmp_path) == sorted((f"w{n % 2}", 2 * n) for n in range(100))
