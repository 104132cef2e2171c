"""Snapshots by job id; tables; entries of state in every format; verbs without a service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import penstock
from stub_manager import ID_RUNNING, StubManager

from penstock.cli.named import read_snapshot, snapshot_path
from penstock.cli.report import table
from penstock.cli.rest_client import RestClient
from penstock.cli.snapshot_verbs import write_entries
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from pathlib import Path


def record(number: int, *, status: str = "COMPLETED", discarded: bool = False) -> dict[str, Any]:
    return {
        "id": number,
        "status": status,
        "external_path": f"/cp/chk-{number}" if status == "COMPLETED" else "",
        "discarded": discarded,
    }


def nobody() -> RestClient:
    raise AssertionError("a path needs no job manager")


def test_paths_need_no_manager(tmp_path: Path) -> None:
    assert snapshot_path("s3://bucket/savepoint-1", nobody) == "s3://bucket/savepoint-1"
    assert snapshot_path("x/chk-1/_metadata", nobody) == f"{tmp_path}/x/chk-1/_metadata"
    (tmp_path / "abcdef").mkdir()
    assert snapshot_path("abcdef", nobody) == f"{tmp_path}/abcdef", "what is there is a path"


def test_snapshots_of_a_job(manager: StubManager) -> None:
    manager.answers[f"GET /jobs/{ID_RUNNING}/checkpoints"] = [
        (
            200,
            {},
            {
                "latest": {"completed": record(12)},
                "history": [
                    record(13, status="IN_PROGRESS"),
                    record(12),
                    record(11, discarded=True),
                    record(10, status="FAILED"),
                ],
            },
        )
    ]

    def client() -> RestClient:
        return RestClient(f"http://{manager.url}")

    assert snapshot_path(ID_RUNNING[:6], client) == "/cp/chk-12"
    assert snapshot_path(f"{ID_RUNNING}:chk-12", client) == "/cp/chk-12"
    for number, text in (
        (11, "Checkpoint 11 of job .* was deleted by its job"),
        (10, "Checkpoint 10 of job .* is FAILED"),
        (9, "no checkpoint 9 in its history, which holds: 13, 12, 11, 10"),
    ):
        with pytest.raises(PenstockError, match=text):
            snapshot_path(f"{ID_RUNNING}:chk-{number}", client)


def test_a_checkpoint_that_was_replaced_meanwhile_is_looked_up_again(manager: StubManager) -> None:
    def answer(number: int) -> tuple[int, dict[str, str], Any]:
        return 200, {}, {"latest": {"completed": record(number)}, "history": []}

    path = f"GET /jobs/{ID_RUNNING}/checkpoints"
    # The job manager names the old one for a moment longer.
    manager.answers[path] = [answer(1), answer(1), answer(1), answer(2)]
    read: list[str] = []

    def reads(place: str) -> str:
        read.append(place)
        if place == "/cp/chk-1":
            raise PenstockError("gone")
        return place

    def client() -> RestClient:
        return RestClient(f"http://{manager.url}", sleep=lambda _: None)

    assert read_snapshot(ID_RUNNING, client, reads) == "/cp/chk-2"
    assert read == ["/cp/chk-1", "/cp/chk-2"]
    manager.answers[path] = [answer(1)]
    with pytest.raises(PenstockError, match="gone"):
        read_snapshot(ID_RUNNING, client, reads)
    manager.answers[path] = [answer(number) for number in range(10)]
    with pytest.raises(PenstockError, match="replaced faster than they can be read"):
        read_snapshot(ID_RUNNING, client, lambda place: reads("/cp/chk-1"))


def test_other_failures_are_told_at_once(manager: StubManager, tmp_path: Path) -> None:
    (tmp_path / "_metadata").touch()
    there = record(1) | {"external_path": str(tmp_path)}
    manager.answers[f"GET /jobs/{ID_RUNNING}/checkpoints"] = [
        (200, {}, {"latest": {"completed": there}, "history": []})
    ]

    def fails(place: str) -> None:
        raise PenstockError(f"{place} has no such operator")

    with pytest.raises(PenstockError, match="no such operator"):
        read_snapshot(ID_RUNNING, lambda: RestClient(f"http://{manager.url}"), fails)
    assert len(manager.requests) == 1


def test_tables_align_numbers_and_escape() -> None:
    assert table(("NAME", "N"), [("a", 1), ("b\x1b[2J", 1200)]) == (
        "NAME          N\na             1\nb\\x1b[2J  1,200"
    )
    assert table(("NAME", "N"), [("a", None)]) == "NAME  N\na     -"
    assert table(("NAME",), []) == "NAME"


ENTRIES = {
    "path": "/cp/chk-1",
    "uid": "count",
    "is_truncated": False,
    "entries": [
        {"state": "n", "kind": "value", "key": "alice", "namespace": None, "value": 3},
        {"state": "n", "kind": "value", "key": 'b"o,b', "namespace": None, "value": 2**70},
        {"state": "t", "kind": "value", "key": "c", "namespace": None, "value": {"$tuple": [1, 2]}},
    ],
}


def test_entries_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    write_entries(ENTRIES, "table", None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["STATE", "KIND", "KEY", "NAMESPACE", "VALUE"]
    assert lines[1].split() == ["n", "value", "alice", "-", "3"]


def test_entries_as_csv_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import csv

    write_entries(ENTRIES, "csv", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == ["alice", 'b"o,b', "c"]
    assert json.loads(rows[2]["value"]) == {"$tuple": [1, 2]}
    write_entries(ENTRIES, "json", None)
    assert json.loads(capsys.readouterr().out) == ENTRIES


def test_entries_as_parquet(tmp_path: Path) -> None:
    import duckdb

    write_entries(ENTRIES, "parquet", tmp_path / "x.parquet")
    found = duckdb.sql(f"select key, value from '{tmp_path}/x.parquet'").fetchall()
    assert [key for key, _ in found] == ["alice", 'b"o,b', "c"]
    assert [json.loads(value) for _, value in found] == [3, 2**70, {"$tuple": [1, 2]}]
    wide = ENTRIES | {"entries": ENTRIES["entries"][:2]}
    write_entries(wide, "parquet", tmp_path / "z.parquet")
    found = duckdb.sql(f"select value from '{tmp_path}/z.parquet'").fetchall()
    assert [json.loads(value) for (value,) in found] == [3, 2**70], "beyond 64 bits it is text"
    plain = ENTRIES | {"entries": ENTRIES["entries"][:1]}
    write_entries(plain, "parquet", tmp_path / "y.parquet")
    assert duckdb.sql(f"select value + 1 from '{tmp_path}/y.parquet'").fetchall() == [(4,)]


def test_parquet_needs_a_file() -> None:
    ran = penstock("state", "get", "/nowhere", "count", "--format", "parquet")
    assert ran.code == 2
    assert "name a file with -o" in ran.out
