"""Snapshots read as data show what the job counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recovery_kit import same
from restore_kit import KEYS, Tap, Visible, build, run_to

from penstock.checkpoint.errors import CheckpointError
from penstock.inspection.reader import open_snapshot

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("threshold", ["20 kb", "0"])
def test_keyed_state(tmp_path: Path, backend: str, threshold: str) -> None:
    Visible.rows.clear()
    Tap.limit = 0
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.data-inline-threshold": threshold,
    }
    client = build(tmp_path, 3, options).execute_async()
    run_to(client, 100)
    path = client.stop_with_savepoint(False).result(200)
    client.get_job_execution_result().result(200)
    with open_snapshot(path, unpickle=True) as snapshot:
        uids = [record.uid for record in snapshot.operators()]
        assert uids == ["numbers", "remember", "count", "sink"]
        assert snapshot.state_names("count") == [("count", "value")]
        assert snapshot.state_names("remember") == [("values", "operator-list")]
        rows = [*snapshot.keyed_state("count")]
        same(
            [(row.key, row.value) for row in rows],
            [(key, len(range(key, 100, KEYS))) for key in range(KEYS)],
        )
        assert {row.namespace for row in rows} == {None}
        with pytest.raises(CheckpointError, match="'count'"):
            snapshot.operator("tally")
