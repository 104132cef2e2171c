"""Snapshots at rest: finding, verifying, disposing, claiming, fetching."""

from __future__ import annotations

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from checkpoint_samples import JOB, job_snapshot, manifest, sha256, upload_of
from commit_driver import LAYOUT, content_of
from stored_jobs import job_with_checkpoints, savepoint

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.coordination.checkpoints import PendingCheckpoint, TriggerRequest
from penstock.checkpoint.coordination.instructions import Upload, WriteMetadata
from penstock.checkpoint.deletion import (
    DeletionReport,
    delete_entry,
    delete_snapshot,
    delete_unpublished,
)
from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.checkpoint.snapshot_load import download_files, load_snapshot
from penstock.checkpoint.start_point import claim_snapshot
from penstock.checkpoint.uploads import prepare_directories, write_metadata
from penstock.core.codec import DamagedError
from penstock.files.contract import Content
from penstock.files.errors import (
    ContentError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from penstock.inspection.verify import verify_snapshot


@pytest.fixture
def storages() -> Storages:
    return Storages()


# -- finding ----------------------------------------------------------------------------------


def test_a_path_that_is_no_snapshot_says_what_is_there(storages: Storages, tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        load_snapshot(storages, str(tmp_path / "ckpt"))
    assert "holds no _metadata" in str(caught.value)
    assert f"{tmp_path}/ckpt/{JOB}/chk-3" in str(caught.value)
    assert f"{tmp_path}/ckpt/{JOB}/chk-4" in str(caught.value)
    with pytest.raises(CheckpointError, match="Give the directory"):
        load_snapshot(storages, str(tmp_path / "nowhere"))


def test_a_manifest_of_another_checkpoint_is_noticed(storages: Storages, tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    job = tmp_path / "ckpt" / JOB
    shutil.copy(job / "chk-3/_metadata", job / "chk-4/_metadata")
    with pytest.raises(DamagedError, match="belongs to checkpoint 3, not to 4"):
        load_snapshot(storages, str(job / "chk-4"))


# -- verifying --------------------------------------------------------------------------------


def test_verify_lists_all_problems(storages: Storages, tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    job = tmp_path / "ckpt" / JOB
    files = [*(job / "shared").iterdir(), *(job / "chk-4").iterdir()]
    by_hash = {path.name[:64]: path for path in files}
    missing = by_hash[sha256(content_of("s123"))]
    missing.unlink()
    flipped = by_hash[sha256(content_of("s456"))]
    data = bytearray(flipped.read_bytes())
    data[3] ^= 8
    flipped.chmod(0o600)
    flipped.write_bytes(data)
    cut = by_hash[sha256(b"big chunk 4")]
    cut.write_bytes(b"big chunk")
    for executor in (None, ThreadPoolExecutor(3)):
        report = verify_snapshot(storages, str(job / "chk-4"), executor)
        assert not report["is_whole"]
        assert report["checkpoint_id"] == 4
        assert report["files"] == 4
        texts = {problem["place"]: problem["text"] for problem in report["problems"]}
        assert set(texts) == {str(missing), str(flipped), str(cut)}
        assert "is missing" in texts[str(missing)]
        assert sha256(bytes(data)) in texts[str(flipped)]
        assert sha256(content_of("s456")) in texts[str(flipped)]
        assert "9 bytes, expected 11" in texts[str(cut)]
        assert [problem["used_by"] for problem in report["problems"]] == 3 * [["count/0"]]


def test_verify_survives_a_damaged_manifest(storages: Storages, tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    path = tmp_path / "ckpt" / JOB / "chk-4" / "_metadata"
    path.write_bytes(path.read_bytes()[:-1])
    report = verify_snapshot(storages, str(path))
    assert report["checkpoint_id"] is None
    (problem,) = report["problems"]
    assert "damaged" in problem["text"]
    (problem,) = verify_snapshot(storages, str(tmp_path / "none"))["problems"]
    assert "not a checkpoint" in problem["text"]


# -- disposing --------------------------------------------------------------------------------


def dispose(storages: Storages, path: str) -> DeletionReport:
    return delete_snapshot(storages, load_snapshot(storages, path))


def test_dispose_deletes_what_the_manifest_names_and_nothing_else(
    storages: Storages, tmp_path: Path
) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    directory = Path(written.directory)
    (directory / "notes.txt").write_text("mine")
    report = dispose(storages, written.directory)
    assert report.is_complete
    assert len(report.deleted) == 3
    assert [path.name for path in directory.iterdir()] == ["notes.txt"]
    with pytest.raises(CheckpointError, match="holds no _metadata"):
        dispose(storages, written.directory)


def test_dispose_removes_the_empty_directory(storages: Storages, tmp_path: Path) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    dispose(storages, f"{written.directory}/_metadata")
    assert list((tmp_path / "target").iterdir()) == []


def test_dispose_of_a_checkpoint_leaves_shared_files(storages: Storages, tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    job = tmp_path / "ckpt" / JOB
    before = set((job / "shared").iterdir())
    assert dispose(storages, str(job / "chk-3")).is_complete
    assert set((job / "shared").iterdir()) == before
    assert not (job / "chk-3").exists()
    assert verify_snapshot(storages, str(job / "chk-4"))["is_whole"]


def test_dispose_of_something_damaged_deletes_nothing(storages: Storages, tmp_path: Path) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    metadata = Path(written.directory) / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-1])
    with pytest.raises(DamagedError):
        dispose(storages, written.directory)
    assert len(list(Path(written.directory).iterdir())) == 2


def test_a_forged_manifest_cannot_delete_elsewhere(storages: Storages, tmp_path: Path) -> None:
    """Sealed correctly, but naming files outside: refused before anything is deleted."""
    precious = tmp_path / "precious"
    precious.write_text("keep")
    written = savepoint(storages, str(tmp_path / "target"))
    data = encode_manifest(written.manifest)
    body = msgspec.msgpack.decode(data[10:-40])
    from penstock.checkpoint.codec import METADATA_MAGIC
    from penstock.core.codec import seal

    handles = body["operators"][0]["subtasks"][0]["keyed"]["base"]
    handle = next(one for one in handles if "path" in one)
    for path, is_shared in (
        ("../../precious", False),
        (str(precious), False),
        (str(precious), True),
        (f"{tmp_path}/shared/precious", True),
    ):
        handle["path"], handle["shared"] = path, is_shared
        (Path(written.directory) / "_metadata").write_bytes(
            seal(METADATA_MAGIC, 1, msgspec.msgpack.encode(body))
        )
        with pytest.raises(DamagedError):
            dispose(storages, written.directory)
    assert precious.read_text() == "keep"


def test_a_half_deleted_checkpoint_is_deleted_by_the_successor(tmp_path: Path) -> None:
    """A leader died behind the manifest and before the files."""
    driver = job_with_checkpoints(tmp_path)
    job = tmp_path / "ckpt" / JOB
    entry = driver.pointer.known.completed[0]
    (job / "chk-3" / "notes.txt").write_text("mine")
    for damage in ("", "x"):
        shutil.copytree(job / "chk-3", tmp_path / "copy", dirs_exist_ok=True)
        (job / "chk-3" / "_metadata").unlink()
        if damage:
            (job / "chk-3" / "_metadata").write_text(damage)
        report = delete_entry(driver.storages, entry)
        assert report.is_complete
        assert [path.name for path in (job / "chk-3").iterdir()] == ["notes.txt"]
        shutil.copytree(tmp_path / "copy", job / "chk-3", dirs_exist_ok=True)
    (job / "chk-3" / "notes.txt").unlink()
    assert delete_entry(driver.storages, entry).is_complete
    assert not (job / "chk-3").exists()
    assert delete_entry(driver.storages, entry).is_complete
    assert verify_snapshot(driver.storages, str(job / "chk-4"))["is_whole"]


def test_a_claimed_savepoint_without_manifest_is_reported(
    storages: Storages, tmp_path: Path
) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    (Path(written.directory) / "_metadata").unlink()
    report = delete_entry(storages, written.entry(is_owned=True))
    assert not report.is_complete
    assert len(list(Path(written.directory).iterdir())) == 1


# -- claiming ---------------------------------------------------------------------------------


def test_a_snapshot_is_claimed_once(storages: Storages, tmp_path: Path) -> None:
    written = savepoint(storages, str(tmp_path / "target"))
    claim_snapshot(storages, written.directory, JOB)
    claim_snapshot(storages, written.directory, JOB)
    with pytest.raises(CheckpointError, match=f"claimed by job '{JOB}'.*NO_CLAIM"):
        claim_snapshot(storages, written.directory, "f" * 32)
    dispose(storages, written.directory)
    assert not Path(written.directory).exists()


# -- fetching ---------------------------------------------------------------------------------


def test_local_files_that_are_whole_are_not_fetched(tmp_path: Path) -> None:
    driver = job_with_checkpoints(tmp_path)
    loaded = driver.loaded[4]
    job = tmp_path / "job"
    storages = Storages(openers={"file": lambda url: LocalStorage(url)})
    names = {"s123": content_of("s123"), "s456": content_of("s456"), "b4": b"big chunk 4"}
    assert set(download_files(storages, loaded, job)) == set(names)
    assert {path.name: path.read_bytes() for path in job.iterdir()} == names
    (job / "s123").write_bytes(content_of("s123")[:-1] + b"?")
    (job / "s456").unlink()
    with ThreadPoolExecutor(2) as pool:
        assert set(download_files(storages, loaded, job, executor=pool)) == {"s123", "s456"}
    assert {path.name: path.read_bytes() for path in job.iterdir()} == names


def test_only_some_files_are_fetched(tmp_path: Path) -> None:
    driver = job_with_checkpoints(tmp_path)
    loaded = driver.loaded[4]
    wanted = [handle for handle in loaded.manifest.handles if handle.name == "s123"]
    assert download_files(Storages(), loaded, tmp_path / "job", handles=wanted) == ["s123"]


@pytest.mark.parametrize("parallel", [False, True])
def test_fetching_stops_at_damage(tmp_path: Path, parallel: bool) -> None:
    driver = job_with_checkpoints(tmp_path)
    shared = tmp_path / "ckpt" / JOB / "shared"
    digest = sha256(content_of("s123"))
    path = next(path for path in shared.iterdir() if path.name.startswith(digest))
    path.write_bytes(b"?" * path.stat().st_size)
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(ContentError, match="expected"):
            download_files(
                Storages(), driver.loaded[4], tmp_path / "job", executor=pool if parallel else None
            )
        assert not (tmp_path / "job" / "s123").exists()
        path.unlink()
        with pytest.raises(ObjectMissingError):
            download_files(
                Storages(), driver.loaded[4], tmp_path / "job", executor=pool if parallel else None
            )


# -- publishing -------------------------------------------------------------------------------


def test_two_jobs_in_one_directory_are_told_apart(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    prepare_directories(storage, LAYOUT, 3)
    write_metadata(upload_of(storage, manifest(3)))
    again = write_metadata(upload_of(storage, manifest(3)))
    assert again.manifest == manifest(3)
    with pytest.raises(StorageError, match="Two jobs share this directory"):
        write_metadata(upload_of(storage, manifest(3, job_id="f" * 32)))
    assert load_snapshot(Storages(), f"{tmp_path}/{JOB}/chk-3").manifest == manifest(3)


def test_of_an_aborted_upload_only_shared_files_stay(tmp_path: Path) -> None:
    """It failed in the middle: one of its own files is not there yet."""
    storage = LocalStorage(str(tmp_path))
    prepare_directories(storage, LAYOUT, 3)
    own, late, shared_one = (
        f"{folder}/{sha256(data)}-3-w"
        for folder, data in (
            (LAYOUT.checkpoint(3), b"x"),
            (LAYOUT.checkpoint(3), b"y"),
            (LAYOUT.shared, b"x"),
        )
    )
    for key in (own, shared_one):
        storage.put_if_absent(key, Content.of_bytes(b"x"))
    delete_unpublished(upload_of(storage, manifest(3), own, late, shared_one)).check_complete()
    assert {path.name for path in (tmp_path / JOB).iterdir()} == {"shared", "taskowned"}
    assert len(list((tmp_path / JOB / "shared").iterdir())) == 1


def test_an_aborted_checkpoint_is_gone_and_stays_gone(tmp_path: Path) -> None:
    """A writer that comes late finds no directory, and makes none."""
    storage = LocalStorage(str(tmp_path))
    prepare_directories(storage, LAYOUT, 3)
    assert {path.name for path in (tmp_path / JOB).iterdir()} == {"shared", "taskowned", "chk-3"}
    # Also when it is whole already, but was not published in time.
    written = upload_of(storage, manifest(3))
    write_metadata(written)
    delete_unpublished(written).check_complete()
    with pytest.raises(ObjectMissingError, match="aborted or removed"):
        storage.put_if_absent(f"{LAYOUT.checkpoint(3)}/late", Content.of_bytes(b"late"))
    assert not (tmp_path / JOB / "chk-3").exists()


def test_metadata_whose_write_got_no_reply_is_found_to_be_ours(tmp_path: Path) -> None:
    """Also later: asking again must not bring another time of creation with it."""

    class Lossy(MemoryStorage):
        is_lost = False

        def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
            super().put_if_absent(key, content, deferred=deferred)
            if key.endswith("_metadata") and not self.is_lost:
                self.is_lost = True
                raise UnknownOutcomeError("no reply")

    lossy, times = Lossy(), itertools.count(1)
    clock: Any = SimpleNamespace(wall_ms=lambda: next(times))
    settings = CheckpointSettings(storage=StorageKind.FILE_SYSTEM, directory="memory://main/c")
    storages = Storages(openers={"memory": lambda _: lossy}, retrying=lambda inner: inner)
    files = CheckpointFiles(JobIdentity(JOB, "job", str(tmp_path)), settings, clock, storages)
    pending = PendingCheckpoint(3, TriggerRequest(1, 0), 0, 0, epoch=7, snapshot=job_snapshot())
    uploaded = files.upload(Upload(pending))
    order = WriteMetadata(replace(pending, uploaded=uploaded), parent_id=2, job={"line": "a"})
    with pytest.raises(UnknownOutcomeError):
        files.write_metadata(order)
    written = files.write_metadata(order)
    files.close()
    assert (written.manifest.parent_id, written.manifest.job["line"]) == (2, "a")
