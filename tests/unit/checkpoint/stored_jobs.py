"""Stored savepoints and checkpoints, for the tests of what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint_samples import LocalFiles, ids, job_snapshot, manifest
from commit_driver import LIVE, Driver

from penstock.checkpoint.manifest import ManifestKind
from penstock.checkpoint.savepoints import finish_savepoint, upload_savepoint
from penstock.checkpoint.uploads import InlinePolicy
from penstock.files.local import LocalStorage
from penstock.files.wrappers import RetryingStorage

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.files.contract import Storage
    from penstock.files.urls import Storages

DATA = b"savepoint data " * 100


def once(inner: Storage) -> Storage:
    return RetryingStorage(inner, tries=1, sleep=lambda seconds: None)


def savepoint(
    storages: Storages, target: str, *, prefix: str = "u", kind: str = "savepoint-native"
) -> LoadedSnapshot:
    local = LocalFiles()
    snapshot = job_snapshot(local.handle("a.sst", DATA), local.handle("small", b"tiny"))
    uploaded = upload_savepoint(
        storages,
        target,
        snapshot,
        manifest(17, kind=ManifestKind(kind), parent_id=16),
        local.open_content,
        inline=InlinePolicy(100),
        new_uuid=ids(prefix),
    )
    return finish_savepoint(uploaded)


def job_with_checkpoints(tmp_path: Path) -> Driver:
    driver = Driver(LocalStorage(str(tmp_path / "ckpt")))
    driver.start()
    for number, names in enumerate(LIVE, start=1):
        driver.checkpoint(names, number)
    return driver
