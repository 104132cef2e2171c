"""The first rows of a state: what is shown of them, and where reading stops."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from penstock.checkpoint.errors import CheckpointError
from penstock.common import Types
from penstock.core.configuration import Configuration
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.inspection import pages as snapshot_pages
from penstock.inspection.pages import RowsRequest, SnapshotPages, read_rows
from penstock.snapshots import SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path

COUNT = ValueStateDescriptor("count", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
LONG = "é" * 1_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return (
        SavepointWriter.new_savepoint()
        .with_keyed_state("count", COUNT, [(1, "<b>"), (2, LONG)])
        .with_list_state("remember", ListStateDescriptor("values", Types.LONG()), [1, 2, 3])
        .with_broadcast_state("rules", RULES, {"a": 7})
        .write(str(tmp_path_factory.mktemp("savepoints")))
    )


def request(
    path: str, uid: str, state: str | None = None, *, limit: int = 9, most_bytes: int = 1 << 20
) -> RowsRequest:
    return RowsRequest(
        path=path,
        uid=uid,
        state=state,
        limit=limit,
        most_bytes=most_bytes,
        most_seconds=60,
        options={},
    )


def test_rows_are_shortened(path: str) -> None:
    found = read_rows(request(path, "count", "count"))
    assert (found["path"], found["uid"], found["state"]) == (path, "count", "count")
    assert (found["is_truncated"], found["unread_bytes"]) == (False, 0)
    by_key = {row["key"]: row["value"] for row in found["rows"]}
    # 400 characters of its JSON, which has two quotes more than the text.
    assert by_key == {1: "<b>", 2: {"$cut": '"' + LONG[:399], "length": 1_002}}
    assert len(json.dumps(found)) < 10_000


def test_no_more_rows_than_asked_for(path: str) -> None:
    found = read_rows(request(path, "remember", limit=2))
    assert [row["value"] for row in found["rows"]] == [1, 2]
    assert found["is_truncated"] is True
    assert read_rows(request(path, "remember", limit=3))["is_truncated"] is False
    rules = read_rows(request(path, "rules"))["rows"]
    assert rules == [
        {"state": "rules", "kind": "operator-broadcast", "subtask": 0, "map_key": "a", "value": 7}
    ]
    assert read_rows(request(path, "remember", "other"))["rows"] == []


def test_no_more_bytes_are_read_than_bearable(path: str) -> None:
    found = read_rows(request(path, "count", most_bytes=100))
    assert (found["rows"], found["is_truncated"]) == ([], True)
    # The value of key 2 alone has 2,000 bytes, before it is compressed.
    assert found["unread_bytes"] > 100
    enough = 100 + found["unread_bytes"]
    assert read_rows(request(path, "count", most_bytes=enough))["unread_bytes"] == 0


def test_reading_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody writes into it, so a file system that opens it as any file waits for ever.
    os.mkfifo(tmp_path / "_metadata")
    monkeypatch.chdir("/")
    left = tmp_path / "left"
    left.mkdir()
    monkeypatch.setenv("TMPDIR", str(left))
    with pytest.raises(CheckpointError, match="takes more than 1 s"):
        SnapshotPages(Configuration(), 1).first_rows(f"local:/{tmp_path}", "count", None, 1)
    assert not any(left.iterdir())


def test_another_process_reads(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = SnapshotPages(Configuration())
    assert pages.first_rows(path, "rules", "rules", 1) == read_rows(request(path, "rules", "rules"))
    with pytest.raises(CheckpointError, match=r"has no operator with uid 'nobody'; it has 'count'"):
        pages.first_rows(path, "nobody", None, 1)
    with pytest.raises(CheckpointError, match="is not a checkpoint or savepoint"):
        pages.first_rows(str(tmp_path), "count", None, 1)
    assert [each["uid"] for each in pages.list_states(path)["operators"]] == [
        "count", "remember", "rules"
    ]  # fmt: skip
    # A list that is long to read is not read here.
    here = pages.list_states(path)
    monkeypatch.setattr(snapshot_pages, "MOST_METADATA", 0)
    monkeypatch.setattr(snapshot_pages, "list_states", Mock(side_effect=AssertionError))
    assert pages.list_states(path) == here
