"""The Delta sink on a real table: once for each checkpoint, whatever is repeated."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from penstock.common import Configuration, Row
from penstock.connectors.lake import sinks
from penstock.connectors.sink import CommitContext, WriterContext
from penstock.core.errors import EnvironmentError_, InputError, ProgramError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = arrow.schema([("word", arrow.string()), ("count", arrow.int64())])
NAME = "a" * 32 + "/out"


class Lake:
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")
        self.sink = DeltaSink(self.path, SCHEMA)
        self.area = FileArea(folder / "area", 0)

    def pending(self, rows: list[Any], epoch: int, subtask: int = 0, process: int = 1) -> list[Any]:
        at = f"at-{process}-{epoch}"
        attempt = (process, 0)
        writer = self.sink.create_writer(
            WriterContext("a" * 32, "out", subtask, 2, epoch, at, 0, "", attempt, self.area)
        )
        writer.write(rows, None, 0)
        return writer.prepare_commit()

    def commit(self, committables: list[Any]) -> None:
        context = CommitContext("a" * 32, "out", 9, 9, False, 0, area=self.area)
        self.sink.create_committer().commit(committables, context)

    def rows(self) -> list[Any]:
        found = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        return sorted((row["word"], row["count"]) for row in found)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_checkpoint_is_one_commit_and_is_never_repeated(lake: Lake) -> None:
    first = lake.pending([Row("a", 1)], 1) + lake.pending([("b", 2)], 1, subtask=1)
    second = lake.pending([{"word": "c", "count": 3}], 2)
    for owed in (first, first, [*first, *second], second, first):
        lake.commit(owed)
    assert lake.rows() == [("a", 1), ("b", 2), ("c", 3)]
    # The table was created, and two checkpoints had something new.
    assert DeltaTable(lake.path).version() == 2
    # A later process of the job goes on with small numbers of epochs.
    lake.commit(lake.pending([Row("d", 4)], 1, process=2))
    assert len(lake.rows()) == 4


def test_two_processes_append_the_same_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    owed = lake.pending([Row("a", 1)], 1)
    real, other = write_deltalake, []

    def late(table: Any, data: Any, **settings: Any) -> None:
        if not other:
            other.append(1)
            lake.commit(owed)  # The other process comes between the look and the commit.
        real(table, data, **settings)

    monkeypatch.setattr("deltalake.write_deltalake", late)
    lake.commit(owed)
    assert lake.rows() == [("a", 1)]
    table = DeltaTable(lake.path)
    assert [table.transaction_version(name) for name in (NAME, f"{NAME}#process")] == [1, 1]


@pytest.mark.parametrize("point", ["before", "after"])
def test_killed_around_a_commit_to_a_table(tmp_path: Path, point: str) -> None:
    lake = Lake(tmp_path)
    owed = lake.pending([Row("a", 1)], 1)
    killed = multiprocessing.get_context("spawn").Process(
        target=_commit_and_die, args=(tmp_path, pickle.dumps(owed), point)
    )
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    lake.commit(owed)
    assert lake.rows() == [("a", 1)]


def _commit_and_die(folder: Path, owed: bytes, point: str) -> None:
    span: Any = sinks._DELTA_COMMIT

    class Deadly:
        def __enter__(self) -> None:
            if point == "before":
                os._exit(9)

        def __exit__(self, *_: object) -> None:
            os._exit(9)

    assert span is not None
    sinks._DELTA_COMMIT = Deadly()  # type: ignore[assignment,misc]
    Lake(folder).commit(pickle.loads(owed))


def test_a_job_appends(tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(50)
    sink = DeltaSink(str(tmp_path / "t"), SCHEMA, partition_by=["word"])
    env.from_collection([(f"w{n % 3}", n) for n in range(300)]).sink_to(sink)
    env.execute()
    table = DeltaTable(str(tmp_path / "t"))
    found = table.to_pyarrow_table(columns=["word", "count"]).to_pylist()
    assert sorted((row["count"], row["word"]) for row in found) == [
        (n, f"w{n % 3}") for n in range(300)
    ]
    assert table.metadata().partition_columns == ["word"]


def test_refusals_name_the_table(lake: Lake) -> None:
    other = arrow.table({"x": [1]})
    write_deltalake(lake.path, other)
    with pytest.raises(InputError, match=r"table .*table has no column 'word'"):
        lake.commit(lake.pending([Row("a", 1)], 1))
    with pytest.raises(ProgramError, match=r"takes a pyarrow.Schema, not 'word'"):
        DeltaSink(lake.path, "word")
    with pytest.raises(ProgramError, match=r"partitioned by \['day'\], but its columns"):
        DeltaSink(lake.path, SCHEMA, partition_by=["day"])


def test_a_table_that_others_append_to(lake: Lake) -> None:
    lake.commit(lake.pending([Row("a", 1)], 1))
    mark = CommitProperties(app_transactions=[Transaction("other", 7)])
    write_deltalake(
        lake.path, arrow.table([["z"], [0]], schema=SCHEMA), mode="append", commit_properties=mark
    )
    lake.commit(lake.pending([Row("b", 2)], 2))
    assert lake.rows() == [("a", 1), ("b", 2), ("z", 0)]


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(EnvironmentError_, match=r"^Delta tables need the package deltalake"):
        DeltaSink("/lake/words", SCHEMA)
