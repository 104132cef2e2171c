"""Savepoints hold all they need, can be moved, and leave nothing when they fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from checkpoint_samples import ids
from stored_jobs import DATA, job_with_checkpoints, once, savepoint

from penstock.checkpoint.manifest import JobSnapshot, ManifestKind
from penstock.checkpoint.snapshot_load import (
    download_files,
    load_snapshot,
    stored_files,
)
from penstock.checkpoint.uploads import (
    begin_savepoint,
    read_inline,
    run_upload,
    write_metadata,
)
from penstock.files.errors import StorageError, UnknownOutcomeError
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from penstock.inspection.verify import verify_snapshot
from simulated_disk import Fault, FaultyStorage


@pytest.fixture
def storages() -> Storages:
    return Storages()


def test_a_savepoint_holds_all_it_needs(storages: Storages, tmp_path: Path) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    directory = Path(written.directory)
    assert directory.name.startswith("savepoint-40dcc6-")
    assert len(directory.name) == len("savepoint-40dcc6-") + 12
    files = {path.name for path in directory.iterdir()}
    (data_file,) = files - {"_metadata"}
    assert (directory / data_file).read_bytes() == DATA
    loaded = load_snapshot(storages, written.directory)
    assert loaded.manifest == written.manifest
    assert loaded.manifest.parent_id is None
    assert loaded.manifest.epoch == 7
    assert loaded.manifest.sources == {"numbers": {"position": 7}}
    assert loaded.manifest.properties.new_bytes == len(DATA) + len(b"tiny")


def test_a_savepoint_can_be_moved(storages: Storages, tmp_path: Path) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    shutil.move(written.directory, tmp_path / "elsewhere")
    for given in ("elsewhere", "elsewhere/_metadata"):
        report = verify_snapshot(storages, str(tmp_path / given))
        assert report["is_whole"]
        assert report["checkpoint_id"] == 17
        assert report["files"] == 2
    loaded = load_snapshot(storages, str(tmp_path / "elsewhere"))
    download_files(storages, loaded, tmp_path / "job")
    assert (tmp_path / "job" / "a.sst").read_bytes() == DATA


def test_savepoints_do_not_get_into_each_others_way(storages: Storages, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    # The second one draws the name of the first before it finds a free one.
    first, second = savepoint(storages, target), savepoint(storages, target)
    assert first.directory != second.directory
    assert verify_snapshot(storages, first.directory)["is_whole"]
    assert verify_snapshot(storages, second.directory)["is_whole"]


def test_a_failed_savepoint_leaves_nothing() -> None:
    inner = MemoryStorage()
    counting = FaultyStorage(inner)
    savepoint(Storages(openers={"memory": lambda url: counting}, retrying=once), "memory://main/t")
    total = counting.calls
    assert total >= 4
    failed = 0
    for number in range(1, total + 1):
        inner = MemoryStorage()
        faulty = FaultyStorage(inner, {number: Fault.BEFORE})
        storages = Storages(openers={"memory": lambda url, faulty=faulty: faulty}, retrying=once)
        with pytest.raises(StorageError):
            savepoint(storages, "memory://main/t")
        assert inner.files == {}
        failed += 1
    assert failed == total


def test_a_savepoint_of_unknown_outcome_is_left_alone() -> None:
    inner = MemoryStorage()
    counting = FaultyStorage(inner)
    savepoint(Storages(openers={"memory": lambda url: counting}, retrying=once), "memory://main/t")
    (number,) = [i for i, (_, key) in enumerate(counting.log, 1) if key.endswith("_metadata")]
    inner = MemoryStorage()
    faulty = FaultyStorage(inner, {number: Fault.AFTER})
    storages = Storages(openers={"memory": lambda url: faulty}, retrying=once)
    with pytest.raises(UnknownOutcomeError, match="savepoint-40dcc6-"):
        savepoint(storages, "memory://main/t")
    (metadata,) = [key for key in inner.files if key.endswith("_metadata")]
    assert verify_snapshot(storages, f"memory://main/{metadata}")["is_whole"]


def test_a_checkpoint_becomes_a_savepoint(storages: Storages, tmp_path: Path) -> None:
    """Native, by copying: also what is shared lies in the savepoint's own directory."""
    driver = job_with_checkpoints(tmp_path)
    loaded = driver.loaded[4]
    content = stored_files(storages, loaded)
    snapshot = JobSnapshot.stored(loaded.manifest)
    plan = begin_savepoint(
        storages.at(str(tmp_path / "target")),
        snapshot,
        msgspec.structs.replace(loaded.manifest, kind=ManifestKind.SAVEPOINT_NATIVE),
        inline=read_inline(snapshot, 10, content),
        new_uuid=ids(),
    )
    run_upload(plan, content)
    written = write_metadata(plan, job={"parallelism": {"a": 4}})
    shutil.rmtree(tmp_path / "ckpt")
    assert verify_snapshot(storages, written.directory)["is_whole"]
    assert written.manifest.shared_files == {}
    copied = load_snapshot(storages, written.directory).manifest
    assert copied.sources == loaded.manifest.sources
    assert copied.job == {**loaded.manifest.job, "parallelism": {"a": 4}}
    wanted = [(handle.name, handle.sha256) for handle in loaded.manifest.handles]
    assert [(handle.name, handle.sha256) for handle in copied.handles] == wanted
