"""Uploads: what goes inline, what is reused, what is new."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from checkpoint_samples import (
    JOB,
    LocalFiles,
    ids,
    inline,
    job_snapshot,
    keyed,
    manifest,
    operator,
    sha256,
)

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import (
    JobSnapshot,
    Manifest,
    ManifestKind,
    StoredHandle,
    SubtaskRecord,
    keyed_record,
    local_handle,
    local_keyed_state,
)
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.upload_plan import UploadPlan, plan_checkpoint
from penstock.checkpoint.uploads import (
    UploadCancelledError,
    begin_savepoint,
    local_files,
    read_inline,
    run_upload,
)
from penstock.core.handles import FileHandle
from penstock.files.errors import ContentError, StorageError
from penstock.files.memory import MemoryStorage
from simulated_disk import Fault, FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.files.contract import Content

LAYOUT = layout_of(JOB)
LARGE = bytes(range(256)) * 100


def planned(
    snapshot: JobSnapshot,
    local: LocalFiles,
    *,
    threshold: int | None = 100,
    number: int = 3,
    parent: Manifest | None = None,
    incremental: bool = True,
) -> UploadPlan:
    return plan_checkpoint(
        snapshot,
        manifest(number),
        MemoryStorage(),
        LAYOUT,
        writer_id="w1",
        inline=read_inline(snapshot, threshold, local.open_content),
        parent=parent,
        incremental=incremental,
    )


def handles(plan: UploadPlan) -> dict[str, StoredHandle]:
    return {
        handle.name: handle
        for one in plan.manifest.operators
        for subtask in one.subtasks
        for handle in subtask.handles
    }


def as_manifest(number: int, plan: UploadPlan) -> Manifest:
    return manifest(number, *plan.manifest.operators)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (100, {"empty", "at 99", "at 100"}),
        (99, {"empty", "at 99"}),
        (0, {"empty"}),
        (None, {"empty", "at 99", "at 100", "at 101"}),
    ],
)
def test_the_inline_threshold(threshold: int | None, expected: set[str]) -> None:
    """A chunk of exactly the threshold is inline; 0 makes every chunk that is not empty a file."""
    local = LocalFiles()
    snapshot = job_snapshot(
        local.handle("empty", b""),
        local.handle("at 99", b"x" * 99),
        local.handle("at 100", b"y" * 100),
        local.handle("at 101", b"z" * 101),
    )
    plan = planned(snapshot, local, threshold=threshold)
    found = handles(plan)
    assert {name for name, handle in found.items() if handle.inline is not None} == expected
    assert {handle.name for handle in plan.puts.values()} == set(found) - expected
    sizes = {"empty": 0, "at 99": 99, "at 100": 100, "at 101": 101}
    assert plan.figures.inline_bytes == sum(sizes[name] for name in expected)
    assert plan.figures.checkpointed_bytes == sum(sizes.values())


def test_bytes_that_travelled_in_the_handle() -> None:
    """The local threshold may be larger than the one of checkpoints, or smaller."""
    large = inline("large", LARGE)
    local = LocalFiles()
    plan = planned(job_snapshot(large), local, threshold=100)
    assert handles(plan)["large"].inline is None
    storage = MemoryStorage()
    run_upload(replace(plan, storage=storage), local.open_content)
    (key,) = plan.puts
    assert storage.read(key) == LARGE
    assert local.opened == []


def test_job_manager_storage_has_a_limit() -> None:
    local = LocalFiles()
    limit = 5 * 1024 * 1024
    snapshot = job_snapshot(local.handle("fits", b"x" * limit))
    assert planned(snapshot, local, threshold=None).puts == {}
    snapshot = job_snapshot(local.handle("large", b"x" * (limit + 1)))
    with pytest.raises(CheckpointError, match=r"5,242,881 bytes.*5,242,880.*filesystem"):
        planned(snapshot, local, threshold=None)


def test_names_and_places() -> None:
    local = LocalFiles()
    chunk = local.chunk("chunk", LARGE + b"c")
    plan = planned(job_snapshot(local.handle("a.sst", LARGE), chunks=(chunk,)), local)
    found = handles(plan)
    shared_key = f"{JOB}/shared/{sha256(LARGE)}-3-w1"
    own_key = f"{JOB}/chk-3/{sha256(LARGE + b'c')}-3-w1"
    assert set(plan.puts) == {shared_key, own_key}
    assert plan.directories == (f"{JOB}/chk-3", f"{JOB}/shared")
    assert found["a.sst"].path == f"memory://main/{shared_key}"
    assert found["a.sst"].shared
    assert found["a.sst"].created_by == 3
    assert plan.manifest.shared_files.keys() == {f"memory://main/{shared_key}"}
    assert found["chunk"].path == f"{sha256(LARGE + b'c')}-3-w1"
    assert not found["chunk"].shared
    msgspec.msgpack.encode(plan.manifest.operators)


def test_a_full_checkpoint_shares_nothing() -> None:
    local = LocalFiles()
    snapshot = job_snapshot(local.handle("a.sst", LARGE))
    first = as_manifest(2, planned(snapshot, local, number=2))
    plan = planned(snapshot, local, parent=first, incremental=False)
    assert as_manifest(3, plan).shared_files == {}
    assert plan.directories == (f"{JOB}/chk-3",)
    assert (plan.figures.files_reused, plan.figures.checkpointed_bytes) == (0, len(LARGE))


def test_only_files_of_the_parent_are_reused() -> None:
    local = LocalFiles()
    old, new = local.handle("old.sst", LARGE), local.handle("new.sst", LARGE + b"n")
    first = as_manifest(2, planned(job_snapshot(old), local, number=2))
    plan = planned(job_snapshot(old, new), local, parent=first)
    assert [handle.name for handle in plan.puts.values()] == ["new.sst"]
    assert handles(plan)["old.sst"] == handles_of(first)["old.sst"]
    assert plan.figures.files_reused == 1
    assert plan.figures.state_bytes - plan.figures.checkpointed_bytes == len(LARGE)
    # Without a parent, as after NO_CLAIM, everything is new.
    assert len(planned(job_snapshot(old, new), local).puts) == 2


def test_operator_state_that_has_not_changed_is_not_uploaded_again() -> None:
    local = LocalFiles()
    logic, rules = local.chunk("logic", LARGE), local.chunk("operator-state-0", LARGE + b"r")
    first = as_manifest(2, planned(job_snapshot(chunks=(logic, rules)), local, number=2))
    later = local.chunk("logic", LARGE + b"l", "later logic")
    plan = planned(job_snapshot(chunks=(later, rules)), local, parent=first)
    assert [handle.name for handle in plan.puts.values()] == ["later logic"]
    assert handles(plan)["operator-state-0"] == handles_of(first)["operator-state-0"]
    # Savepoints and full checkpoints have files of their own.
    assert len(planned(job_snapshot(chunks=(later, rules)), local, incremental=False).puts) == 2


def handles_of(one: Manifest) -> dict[str, StoredHandle]:
    return {handle.name: handle for handle in one.handles}


def test_same_name_and_size_but_other_content_is_not_reused() -> None:
    """A retry of a task gave its file the same name and size; metadata named the old one."""
    local = LocalFiles()
    first = as_manifest(
        2, planned(job_snapshot(local.handle("000012.sst", LARGE)), local, number=2)
    )
    other = LocalFiles()
    changed = LARGE[:-1] + b"!"
    plan = planned(job_snapshot(other.handle("000012.sst", changed)), other, parent=first)
    assert handles(plan)["000012.sst"].sha256 == sha256(changed)
    assert len(plan.puts) == 1


def test_the_plan_touches_nothing_and_each_file_is_written_once() -> None:
    local = LocalFiles()
    handle = local.handle("a.sst", LARGE)
    snapshot = job_snapshot(handle, handle)
    plan = planned(snapshot, local)
    assert local.opened == []
    storage = FaultyStorage(MemoryStorage())
    run_upload(replace(plan, storage=storage), local.open_content)
    assert [operation for operation, _ in storage.log] == ["put", "flush"]


def test_parallel_upload() -> None:
    local = LocalFiles()
    files = [local.handle(f"{number}.sst", LARGE + b"%d" % number) for number in range(20)]
    plan = planned(job_snapshot(*files), local)
    storage = MemoryStorage()
    with ThreadPoolExecutor(4) as pool:
        run_upload(replace(plan, storage=storage), local.open_content, executor=pool)
    assert {key: storage.read(key) for key in plan.puts} == {
        key: local.files[handle.name] for key, handle in plan.puts.items()
    }


def test_an_error_of_a_parallel_upload_waits_for_the_others() -> None:
    """Whoever cleans up afterwards must not race with a write."""
    local = LocalFiles()
    files = [local.handle(f"{number}.sst", LARGE + b"%d" % number) for number in range(4)]
    plan = planned(job_snapshot(*files), local)
    inner = MemoryStorage()
    release = threading.Event()
    running: list[str] = []

    class Slow(FaultyStorage):
        def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
            if key == next(iter(plan.puts)):
                release.set()
                raise StorageError("no space", retryable=False)
            running.append(key)
            release.wait(5)
            # Still writing while the error is on its way.
            threading.Event().wait(0.1)
            super().put_if_absent(key, content, deferred=deferred)
            running.remove(key)

    with ThreadPoolExecutor(4) as pool:
        with pytest.raises(StorageError, match="no space"):
            run_upload(replace(plan, storage=Slow(inner)), local.open_content, executor=pool)
        assert running == []


def test_an_unknown_outcome_of_a_data_file_is_a_failure() -> None:
    """Nothing names it yet, so nobody can be misled."""
    local = LocalFiles()
    plan = planned(job_snapshot(local.handle("a.sst", LARGE)), local)
    for number in (1, 2):
        with pytest.raises(StorageError):
            storage = FaultyStorage(MemoryStorage(), {number: Fault.AFTER})
            run_upload(replace(plan, storage=storage), local.open_content)


def test_an_aborted_upload_stops() -> None:
    local = LocalFiles()
    files = [local.handle(f"{number}.sst", LARGE + b"%d" % number) for number in range(4)]
    plan = planned(job_snapshot(*files), local)
    storage = FaultyStorage(MemoryStorage())
    with pytest.raises(UploadCancelledError):
        run_upload(
            replace(plan, storage=storage),
            local.open_content,
            is_cancelled=lambda: len(storage.log) >= 2,
        )
    assert len(storage.log) == 2


def test_a_local_file_that_changed_is_not_uploaded(tmp_path: Path) -> None:
    (tmp_path / "a.sst").write_bytes(LARGE)
    local = LocalFiles()
    plan = planned(job_snapshot(local.handle("a.sst", LARGE)), local)
    storage = MemoryStorage()
    (tmp_path / "a.sst").write_bytes(LARGE[:-1] + b"!")
    with pytest.raises(ContentError, match=r"expected"):
        run_upload(replace(plan, storage=storage), local_files(tmp_path))
    assert storage.files == {}
    (tmp_path / "a.sst").write_bytes(LARGE)
    run_upload(replace(plan, storage=storage), local_files(tmp_path))
    run_upload(replace(plan, storage=storage), local_files(tmp_path))
    assert len(storage.files) == 1


def test_savepoint_names_say_nothing_and_nothing_is_shared() -> None:
    local = LocalFiles()
    snapshot = job_snapshot(local.handle("a.sst", LARGE), local.handle("small", b"s"))
    draft = manifest(9, kind=ManifestKind.SAVEPOINT_CANONICAL)
    plan = begin_savepoint(
        MemoryStorage(),
        snapshot,
        draft,
        inline=read_inline(snapshot, 100, local.open_content),
        new_uuid=ids("uuid"),
    )
    (key,) = plan.puts
    found = handles(plan)["a.sst"]
    assert plan.directory == f"savepoint-{draft.job_id[:6]}-000000000001"
    assert key == f"{plan.directory}/{found.path}"
    assert found.path == "uuid000000000000000000000000000002"
    assert not found.shared
    assert handles(plan)["small"].inline == b"s"


def test_handles_come_back_for_the_job() -> None:
    stored = keyed(
        StoredHandle(name="a", size_bytes=1, sha256=sha256(b"x"), path="p"),
        deltas=(StoredHandle(name="d", size_bytes=1, sha256=sha256(b"y"), inline=b"y"),),
    )
    version = local_keyed_state(stored)
    assert version.files == (
        FileHandle("a", 1, sha256(b"x")),
        FileHandle("d", 1, sha256(b"y"), b"y"),
    )
    assert (version.version_id, version.base_id) == ("e7-s0-a1", "e5-s0-a1")
    assert version.delta_ids == ("e6-s0-a1",)
    assert (version.first_key_group, version.last_key_group) == (0, 127)
    assert local_handle(stored.base[0]) == version.files[0]
    assert local_keyed_state(keyed_record(version)) == version
    assert operator("x", SubtaskRecord(keyed=stored)).subtasks[0].handles == stored.handles
