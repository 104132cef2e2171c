"""Stored savepoints and checkpoints, for the tests of what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint_samples import LocalFiles, ids, job_snapshot, manifest
from commit_driver import LIVE, Driver

from penstock.checkpoint.manifest import ManifestKind
from penstock.checkpoint.uploads import (
    begin_savepoint,
    read_inline,
    write_savepoint,
)
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
    plan = begin_savepoint(
        storages.at(target),
        snapshot,
        manifest(17, kind=ManifestKind(kind), parent_id=16),
        inline=read_inline(snapshot, 100, local.open_content),
        new_uuid=ids(prefix),
    )
    return write_savepoint(plan, local.open_content)


def job_with_checkpoints(tmp_path: Path) -> Driver:
    driver = Driver(LocalStorage(str(tmp_path / "ckpt")))
    driver.start()
    for number, names in enumerate(LIVE, start=1):
        driver.checkpoint(names, number)
    return driver
