"""Local files are prepared for a checkpoint as soon as the state names them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from checkpoint_samples import JOB

from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.core.times import SystemClock
from penstock.files.errors import StorageError
from penstock.files.local import LocalStorage
from penstock.files.urls import Storages

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60


class Preparing(LocalStorage):
    """Notes what is prepared, in its own time; fails for one name."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.prepared: list[str] = []
        self.may_go_on = threading.Event()
        self.all_there = threading.Event()

    def prepare(self, local: Path) -> None:
        assert self.may_go_on.wait(PATIENCE_S)
        self.prepared.append(local.name)
        if local.name == "last":
            self.all_there.set()
        if local.name == "bad":
            raise StorageError("a broken disk")


@pytest.mark.parametrize("interval_ms", [1_000, None])
def test_what_the_state_names_is_prepared_beside_the_epochs(
    tmp_path: Path, interval_ms: int | None
) -> None:
    storage = Preparing(str(tmp_path / "checkpoints"))
    identity = JobIdentity(JOB, "job", str(tmp_path / "state"))
    settings = CheckpointSettings(
        interval_ms=interval_ms, storage=StorageKind.FILE_SYSTEM, directory=storage.url
    )
    storages = Storages(openers={"file": lambda _: storage}, retrying=lambda inner: inner)
    files = CheckpointFiles(identity, settings, SystemClock(), storages)
    # The epochs go on although the first file takes its time.
    for names in (["a"], ["bad", "b"], [], ["c"]):
        files.prepare(names)
    storage.may_go_on.set()
    if interval_ms is not None:
        for _ in range(PATIENCE_S * 100):
            # Each epoch hands over what has come since the thread was last free.
            files.prepare(["last"])
            if storage.all_there.wait(0.01):
                break
        assert [name for name in storage.prepared if name != "last"] == ["a", "bad", "b", "c"]
    files.close()
    for thread in threading.enumerate():
        if thread.name.startswith("penstock-prepare"):
            thread.join(PATIENCE_S)
    # The last epoch of a job that was cancelled may end after it.
    files.prepare(["late"])
    assert interval_ms is not None or storage.prepared == []
    assert "late" not in storage.prepared
