"""A job that is started again knows which shared files are not its own (semantics, section 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.deletion import SharedFile, SharedRegistry
from penstock.checkpoint.manifest import StoredHandle

if TYPE_CHECKING:
    from pathlib import Path

from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.pointer import Pointer
from penstock.checkpoint.settings import CheckpointSettings, StorageKind
from penstock.core.times import SystemClock


def effects(directory: Path, leader_epoch: int) -> CheckpointFiles:
    settings = CheckpointSettings(
        interval_ms=1_000, storage=StorageKind.FILE_SYSTEM, directory=str(directory)
    )
    identity = JobIdentity("a" * 32, "job", str(directory / "state"), leader_epoch)
    return CheckpointFiles(identity, settings, SystemClock())


def test_unclaimed_files_outlive_restarts_of_the_process(tmp_path: Path) -> None:
    first = effects(tmp_path, 1)
    first.probe()
    first.registry = SharedRegistry(unclaimed_up_to=860)
    assert first.pointer.read() == Pointer()
    from penstock.checkpoint.coordination.instructions import Publish

    first.publish(Publish(861, None, (), (), ()))
    second = effects(tmp_path, 2)
    pointer, _ = second.take_over()
    assert pointer.unclaimed_up_to == 860
    old = StoredHandle(
        name="f",
        size_bytes=1,
        sha256="0" * 64,
        path="/old/shared/f",
        shared=True,
        created_by=859,
    )
    second.registry = SharedRegistry(
        {"/old/shared/f": SharedFile(old, 861)},
        unclaimed_up_to=pointer.unclaimed_up_to,
    )
    _, deleted = second.registry.unregistered_below(900)
    assert deleted == ()
    # And again in the next pointer, whose publisher restored nothing itself.
    second.registry = SharedRegistry()
    second.publish(Publish(862, 861, (), (), ()))
    assert effects(tmp_path, 3).take_over()[0].unclaimed_up_to == 860
