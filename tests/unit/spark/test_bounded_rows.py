"""Rows of a bounded DataFrame, which another job writes again and reads on."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.files.inputs import look_up
from penstock.connectors.source import Boundedness, Budget, Split
from penstock.connectors.spark import SparkSource
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.core.row import Row
from penstock.runtime.job_state import SourceProgress
from penstock.spark.batch_files import row_format
from penstock.spark.dataframes import BoundedRows, check_session


class FakeFrame:
    """A bounded DataFrame of two partitions that can write itself to Parquet."""

    isStreaming = False
    schema = SimpleNamespace(fields=())

    def __init__(self, rows: int, columns: tuple[str, ...] = ("n", "s")) -> None:
        self.write = self
        self.columns = list(columns)
        self.rows = rows

    def parquet(self, path: str) -> None:
        Path(path).mkdir(parents=True)
        (Path(path) / "_SUCCESS").touch()
        half = self.rows // 2
        for number, numbers in enumerate((range(half), range(half, self.rows))):
            table = arrow.table({"n": list(numbers), "s": ["x"] * len(numbers)})
            name = f"part-{number:05d}-{'ba'[number]}c6f.snappy.parquet"
            parquet.write_table(table, Path(path) / name)


def numbers(rows: BoundedRows, progress: SourceProgress, most: int) -> tuple[list[int], Any]:
    """Reads on in each split of one subtask; returns the numbers and the positions."""
    reader = rows.source.create_reader()
    found, positions = [], {}
    for split, position in progress.splits_of(0):
        read = reader.read(split, position, Budget(most, 1 << 20, 0))
        found += [row["n"] for row in read.values]
        positions[split.split_id] = read.position
    reader.close()
    return found, positions


def test_another_job_reads_on(tmp_path: Path) -> None:
    assert not SparkSource(FakeFrame(9)).is_streaming
    rows: Any = BoundedRows(FakeFrame(9), tmp_path / "one", "uid")
    assert rows.source.boundedness is Boundedness.BOUNDED
    discovery = rows.source.discover(None, 0)
    assert discovery.complete
    progress = SourceProgress().discovered(discovery).dealt(1)
    found, positions = numbers(rows, progress, 3)
    assert found == [0, 1, 2, 4, 5, 6]
    progress = progress.read(0, positions, [])

    again = BoundedRows(FakeFrame(9), tmp_path / "two", "uid")
    again.check_restored(progress)
    assert numbers(again, progress, 9)[0] == [3, 7, 8]
    other = BoundedRows(FakeFrame(10), tmp_path / "three", "uid")
    with pytest.raises(UnsupportedError, match="inside the DataFrame of source 'uid', which now h"):
        other.check_restored(progress)
    # What was read to its end may have become something else.
    other.check_restored(SourceProgress(state=discovery.state, complete=True))
    other.check_restored(SourceProgress())


def test_columns_have_different_names(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="two columns named 'n'"):
        BoundedRows(FakeFrame(1, ("n", "n")), tmp_path, "uid")


def test_a_dataframe_of_a_stopped_session_is_refused() -> None:
    def frame(java: Any) -> Any:
        return SimpleNamespace(
            sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))
        )

    running = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    check_session(frame(running), "orders")
    with pytest.raises(ProgramError, match="source 'orders' belongs to a Spark session that is ov"):
        check_session(frame(None), "orders")


def kind(name: str, **parts: Any) -> Any:
    return SimpleNamespace(typeName=lambda: name, **parts)


def test_columns_and_records_agree_on_instants(tmp_path: Path) -> None:
    instant = kind("timestamp")
    fields = {
        "n": kind("long"),
        "at": instant,
        "local": kind("timestamp_ntz"),
        "all": kind("array", elementType=kind("map", keyType=kind("string"), valueType=instant)),
    }
    schema = SimpleNamespace(
        fields=[SimpleNamespace(name=k, dataType=v) for k, v in fields.items()]
    )
    frame: Any = SimpleNamespace(columns=list(fields), schema=schema)
    local = dt.datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001 - as Spark writes both
    at = local.replace(tzinfo=dt.UTC)
    pairs = arrow.list_(arrow.map_(arrow.string(), arrow.timestamp("us")))
    values = {
        "n": [1, 2],
        "at": [local, None],
        "local": [local, None],
        "all": arrow.array([[[("k", local)], None], None], pairs),
    }
    path = tmp_path / "rows.parquet"
    parquet.write_table(arrow.table(values), path)
    form = pickle.loads(pickle.dumps(row_format(frame)))
    data = {"path": str(path), "size": path.stat().st_size, "version": look_up(str(path)).version}
    split = Split("0", {**data, "groups": (0,)})
    budget = Budget(10, 1 << 40, 0)
    by_record = form.create_reader()
    records = by_record.read(split, 0, budget).values
    by_record.close()
    assert records == [
        Row(n=1, at=at, local=local, all=[{"k": at}, None]),
        Row(n=2, at=None, local=None, all=None),
    ]
    by_column = form.with_columns(("at", "local", "n")).create_reader()
    columns = by_column.read(split, 0, budget).columns
    assert columns.arrow.column(0).to_pylist() == [at, None]
    assert columns.arrow.column(1).to_pylist() == [local, None]
    assert columns.values == records
    by_column.close()
