"""Lake tables on disks as sinks: Iceberg's appends and Delta's merges.

Tables are read back with the packages of their formats.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
import pytest
from deltalake import DeltaTable, Field
from lake_tables import SCHEMA, Lake, rows_of, settings, table_of
from pyiceberg.catalog import load_catalog

from penstock.common import Row
from penstock.connectors.lake import rows, sinks
from penstock.core.errors import InputError, ProgramError
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink

if TYPE_CHECKING:
    from pathlib import Path


MARKER = "penstock.commit." + "a" * 32 + "/out"


# -- Iceberg's sink -------------------------------------------------------------------------------


def test_a_checkpoint_is_one_snapshot_and_is_never_repeated(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.pending([Row("a", 1)], 1) + lake.pending([("b", 2)], 1, subtask=1)
    second = lake.pending([{"word": "c", "count": 3}], 2)
    for owed in (first, first, [*first, *second], second, first):
        lake.commit(owed)
    assert rows_of(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]
    assert len(table_of(tmp_path).snapshots()) == 2
    lake.commit(lake.pending([Row("d", 4)], 1, process=2))  # A later process has small epochs.
    assert len(rows_of(tmp_path)) == 4
    summary = table_of(tmp_path).current_snapshot().summary
    assert summary["penstock.checkpoint"] == "9"


def test_others_append_and_snapshots_expire(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.pending([Row("a", 1)], 1)
    lake.commit(first)
    table = table_of(tmp_path)
    old = table.current_snapshot().snapshot_id
    table.append(arrow.table([["z"], [0]], schema=SCHEMA))
    table.maintenance.expire_snapshots().by_id(old).commit()
    assert table_of(tmp_path).snapshot_by_id(old) is None
    lake.commit(first)
    assert rows_of(tmp_path) == [("a", 1), ("z", 0)]


def test_two_processes_append_the_same_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg would repeat the commit that comes second; the same rows would be there twice."""
    lake = Lake(tmp_path)
    lake.commit(lake.pending([Row("0", 0)], 1))
    owed = lake.pending([Row("a", 1)], 2)
    real, others = sinks.batches_of, []

    def late(*arguments: Any) -> Any:
        if not others:
            others.append(1)
            Lake(tmp_path).commit(owed)  # Another process comes between the look and the commit.
        return real(*arguments)

    monkeypatch.setattr(sinks, "batches_of", late)
    lake.commit(owed)
    assert rows_of(tmp_path) == [("0", 0), ("a", 1)]
    assert MARKER in table_of(tmp_path).properties
    assert "commit.retry.num-retries" not in table_of(tmp_path).properties


@pytest.mark.parametrize("point", ["before", "after"])
def test_killed_around_a_commit_of_iceberg(tmp_path: Path, point: str) -> None:
    lake = Lake(tmp_path)
    owed = lake.pending([Row("a", 1)], 1)
    killed = multiprocessing.get_context("spawn").Process(
        target=_commit_and_die, args=(tmp_path, pickle.dumps(owed), point)
    )
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    lake.commit(owed)
    assert rows_of(tmp_path) == [("a", 1)]


def _commit_and_die(folder: Path, owed: bytes, point: str) -> None:
    class Deadly:
        def __enter__(self) -> None:
            if point == "before":
                os._exit(9)

        def __exit__(self, *_: object) -> None:
            os._exit(9)

    sinks._ICEBERG_COMMIT = Deadly()  # type: ignore[assignment,misc]
    Lake(folder).commit(pickle.loads(owed))


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    catalog = load_catalog("penstock", **settings(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table("shop.words", arrow.schema([("x", arrow.int64())]))
    lake = Lake(tmp_path)
    with pytest.raises(InputError, match=r"table 'shop\.words' was not appended to: .*word"):
        lake.commit(lake.pending([Row("a", 1)], 1))
    for call, text in (
        (lambda: IcebergSink({}, "a.b", SCHEMA), "takes the settings of a catalog"),
        (lambda: IcebergSink({"type": "sql"}, "words", SCHEMA), "takes 'namespace.table'"),
        (lambda: IcebergSink({"type": "sql"}, "a.b", "word"), "takes a pyarrow.Schema"),
    ):
        with pytest.raises(ProgramError, match=text):
            call()


# -- Delta's merges -------------------------------------------------------------------------------


def delta_rows(folder: Path) -> list[Any]:
    found = DeltaTable(str(folder / "t")).to_pyarrow_table().to_pylist()
    return sorted((row["word"], row["count"]) for row in found)


def test_rows_are_merged_by_key_and_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path, DeltaSink(str(tmp_path / "t"), SCHEMA, merge_by=["word"]))
    first = lake.pending([Row("a", 1), Row("b", 1), Row("a", 2)], 1)
    second = lake.pending([Row("b", 5), Row("c", 1)], 2) + lake.pending([Row("b", 6)], 3)
    lake.commit(first)
    assert delta_rows(tmp_path) == [("a", 2), ("b", 1)]
    lake.commit([*first, *second])
    expected = [("a", 2), ("b", 6), ("c", 1)]
    assert delta_rows(tmp_path) == expected
    # Somebody else changes a row meanwhile; what is repeated does not bring the old one back.
    table = DeltaTable(str(tmp_path / "t"))
    table.update(updates={"count": "9"}, predicate="word = 'a'")
    lake.commit([*first, *second])
    assert delta_rows(tmp_path) == [("a", 9), *expected[1:]]
    with pytest.raises(InputError, match=r"has no value in the key \['word'\]"):
        lake.commit(lake.pending([Row(None, 1)], 4))
    with pytest.raises(ProgramError, match=r"merged by \['day'\], but its columns"):
        DeltaSink("t", SCHEMA, merge_by=["day"])


def test_two_processes_merge_the_same_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = DeltaSink(str(tmp_path / "t"), SCHEMA, merge_by=["word"])
    lake = Lake(tmp_path, sink)
    lake.commit(lake.pending([Row("a", 1)], 1))
    owed = lake.pending([Row("a", 2)], 2)
    real, others = sinks.batches_of, []

    def late(*arguments: Any) -> Any:
        if not others:
            others.append(1)
            Lake(tmp_path, sink).commit(owed)
            DeltaTable(sink.table).update(updates={"count": "9"}, predicate="word = 'a'")
        return real(*arguments)

    monkeypatch.setattr(sinks, "batches_of", late)
    lake.commit(owed)
    assert delta_rows(tmp_path) == [("a", 9)]


@pytest.mark.parametrize("merge_by", [(), ("word",)])
def test_columns_that_others_add_to_a_delta_table(
    tmp_path: Path, merge_by: tuple[str, ...]
) -> None:
    lake = Lake(tmp_path, DeltaSink(str(tmp_path / "t"), SCHEMA, merge_by=merge_by))
    lake.commit(lake.pending([Row("a", 1)], 1))
    DeltaTable(str(tmp_path / "t")).alter.add_columns([Field("more", "string")])
    lake.commit(lake.pending([Row("b", 2)], 2))
    assert delta_rows(tmp_path) == [("a", 1), ("b", 2)]
    wider = arrow.schema([*SCHEMA, ("none", arrow.int64())])
    lake.sink = DeltaSink(str(tmp_path / "t"), wider, merge_by=merge_by)
    with pytest.raises(InputError, match=r"has no column 'none'"):
        lake.commit(lake.pending([Row("c", 3, 3)], 3))


def test_keys_have_names_with_quotes(tmp_path: Path) -> None:
    columns = arrow.schema([("a.b 'é\"", arrow.string()), ("Count", arrow.int64())])
    lake = Lake(tmp_path, DeltaSink(str(tmp_path / "t"), columns, merge_by=[columns.names[0]]))
    lake.commit(lake.pending([Row("x", 1), Row("y", 1)], 1))
    lake.commit(lake.pending([Row("x", 2)], 2))
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [("x", 2), ("y", 1)]
    with pytest.raises(ProgramError, match="no names with `"):
        DeltaSink("t", arrow.schema([("a`b", arrow.string())]), merge_by=["a`b"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (arrow.uint32(), "uint32"),
        (arrow.list_(arrow.struct([("at", arrow.timestamp("ns"))])), r"timestamp\[ns\]"),
        (arrow.timestamp("us", tz="Europe/Berlin"), "Europe/Berlin"),
        (arrow.map_(arrow.string(), arrow.duration("s")), "duration"),
        (arrow.float16(), "halffloat"),
    ],
)
def test_types_that_tables_do_not_have(tmp_path: Path, kind: Any, text: str) -> None:
    """They would stop the job at its first checkpoint, and again after each restart."""
    columns = arrow.schema([("n", arrow.int64()), ("x", kind)])
    with pytest.raises(ProgramError, match=rf"DeltaSink.*'x' .*{text}"):
        DeltaSink("t", columns)
    with pytest.raises(ProgramError, match=rf"IcebergSink.*'x' .*{text}"):
        IcebergSink(settings(tmp_path), "a.b", columns)


def test_keys_that_are_not_equal_to_themselves() -> None:
    columns = arrow.schema([("x", arrow.float64()), ("y", arrow.list_(arrow.int64()))])
    for name in columns.names:
        with pytest.raises(ProgramError, match=rf"merged by '{name}'.*(double|list)"):
            DeltaSink("t", columns, merge_by=[name])


@pytest.mark.parametrize("kind", ["Iceberg", "merge"])
def test_much_output_is_written_in_parts(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was behind has much output in one checkpoint; the driver holds a part of it."""
    monkeypatch.setattr(rows.LakeCommitter, "most_bytes", 1)
    sink = None if kind == "Iceberg" else DeltaSink(str(tmp_path / "t"), SCHEMA, merge_by=["word"])
    lake = Lake(tmp_path, sink)
    owed = [each for epoch in (1, 2, 3) for each in lake.pending([Row(f"w{epoch}", 1)], epoch)]
    lake.commit(owed)
    found = rows_of(tmp_path) if sink is None else delta_rows(tmp_path)
    assert found == [("w1", 1), ("w2", 1), ("w3", 1)]
    if sink is None:
        assert len(table_of(tmp_path).snapshots()) == 3
    else:
        assert DeltaTable(str(tmp_path / "t")).version() == 3
    lake.commit(owed)
