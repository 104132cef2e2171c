"""A job that writes to a database dies at each step of a transaction, and otherwise: each row once.

`table_kills.py` draws as many faults as asked for; here are those that touch every step.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from kill_campaign import Fault, Tally, all_points
from table_kills import TableRun
from table_targets import (
    LAKES,
    Database,
    FollowedLake,
    FollowedMariaDb,
    FollowedTable,
    IcebergTarget,
    SearchIndex,
)

if TYPE_CHECKING:
    from pathlib import Path

    from opensearch_server import Server as OpenSearch

FAULTS = [
    Fault("jdbc.rows.before", "kill", 2),
    Fault("jdbc.rows.after", "exit", 2),
    Fault("jdbc.commit.before", "kill", 2),
    Fault("jdbc.commit.after", "kill", 2),
    Fault("jdbc.commit.after", "raise", 2),
    Fault("", "server", 2),
    Fault("", "zombie", 1),
]


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_killed_at_each_step_of_a_transaction(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    of_databases = {point for point in all_points() if point.startswith("jdbc.")}
    assert of_databases == {fault.point for fault in FAULTS if fault.point}
    tally = Tally()
    run = TableRun(
        tmp_path, Database(tmp_path, request.getfixturevalue(kind)), random.Random(1), tally
    )
    try:
        for fault in FAULTS:
            run.suffer(fault)
        run.finish()
    finally:
        run.close()
    assert tally.kills == len(FAULTS)
    assert not tally.missed


@pytest.mark.parametrize("name", ["jdbc", "iceberg"])
def test_a_build_that_ignores_its_markers_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABLE_KILL_BREAK", "1")
    target = IcebergTarget(tmp_path) if name == "iceberg" else Database(tmp_path, None)
    run = TableRun(tmp_path, target, random.Random(2), Tally())
    try:
        run.suffer(Fault(f"{name}.commit.after", "kill", 2))
        with pytest.raises(AssertionError, match="doubled"):
            run.finish()
    finally:
        run.close()


@pytest.mark.parametrize(
    ("name", "source"),
    [("delta", "iceberg"), ("merge", "delta"), ("iceberg", None)],
    ids=["delta", "merge", "iceberg"],
)
def test_killed_while_lake_tables_are_written_and_followed(
    name: str, source: str | None, tmp_path: Path
) -> None:
    numbers = None if source is None else FollowedLake(tmp_path, source)
    target = LAKES[name](tmp_path)
    run = TableRun(tmp_path, target, random.Random(5), Tally(), numbers)
    try:
        for fault in (
            Fault(f"{target.points[0]}commit.before", "kill", 2),
            Fault(f"{target.points[0]}commit.after", "kill", 2),
            Fault(f"{target.points[0]}commit.after", "raise", 2),
            Fault("", "zombie", 1),
        ):
            run.suffer(fault)
        run.finish()
    finally:
        run.close()


def test_killed_while_documents_are_written(search: OpenSearch, tmp_path: Path) -> None:
    run = TableRun(tmp_path, SearchIndex(search), random.Random(3), Tally())
    try:
        for fault in (
            Fault("sink.prepare.before", "kill", 3),
            Fault("sink.prepare.after", "kill", 3),
            Fault("", "server", 2),
        ):
            run.suffer(fault)
        run.finish()
    finally:
        run.close()


@pytest.mark.parametrize(
    ("kind", "followed"), [("postgres", FollowedTable), ("mariadb", FollowedMariaDb)]
)
def test_killed_while_a_table_is_followed(
    kind: str, followed: type[FollowedTable], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Rows come from transactions that commit in another order than their numbers were given."""
    server = request.getfixturevalue(kind)
    target, numbers = Database(tmp_path, server), followed(server)
    run = TableRun(tmp_path, target, random.Random(4), Tally(), numbers)
    try:
        for fault in (
            Fault("epoch.fold.before", "kill", 3),
            Fault("jdbc.commit.after", "kill", 2),
            Fault("", "server", 1),
            Fault("", "zombie", 1),
        ):
            run.suffer(fault)
        run.finish()
    finally:
        run.close()
