"""Rows of a bounded DataFrame, which another job writes again and reads on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.source import Boundedness, Budget
from penstock.connectors.spark import SparkSource
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.runtime.job_state import SourceProgress
from penstock.spark.dataframes import BoundedRows


class FakeFrame:
    """A bounded DataFrame of two partitions that can write itself to Parquet."""

    isStreaming = False
    schema = None

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
