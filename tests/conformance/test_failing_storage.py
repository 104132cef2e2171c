"""Checkpoint storage that goes away under a running job, and comes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import Faults, environment, failing_at, same
from restore_kit import Tap, Visible, build, cancel, counts, run_to, wait_for

from penstock.checkpoint.files import CheckpointFiles
from penstock.common import JobStatus
from penstock.core.errors import PenstockError
from penstock.files.errors import StorageError
from penstock.job.record import failure_of

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINTING = "execution.checkpointing."


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Visible.rows.clear()
    Tap.limit = 0


class Mount:
    """A checkpoint directory that can be taken away from a running job, and given back."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "checkpoints"
        self._spare = tmp_path / "spare"
        self._disk = tmp_path / "disk"
        self._disk.mkdir()
        self.path.symlink_to(self._disk)

    def take(self) -> None:
        self._spare.write_text("a file where a directory should be")
        self._spare.replace(self.path)

    def give(self) -> None:
        self._spare.symlink_to(self._disk)
        self._spare.replace(self.path)


def test_storage_that_fails_stops_the_job(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    client = build(tmp_path, options={"restart-strategy.type": "none"}).execute_async()
    run_to(client, 100)
    mount.take()
    with pytest.raises(PenstockError, match="tolerable"):
        client.get_job_execution_result().result(200)


def test_tolerated_failures(tmp_path: Path) -> None:
    """The job runs on without checkpoints, and takes them again when the storage has healed."""
    mount = Mount(tmp_path)
    options = {CHECKPOINTING + "tolerable-failed-checkpoints": "100000"}
    client = build(tmp_path, options=options).execute_async()
    run_to(client, 50)
    mount.take()
    Tap.limit = 100
    wait_for(lambda: client._job.records_read >= 100, "100 records")
    failures = client._job._service._coordinator._state.failures
    wait_for(lambda: failures.count > 0, "failed checkpoints")
    assert client.get_job_status().result() is JobStatus.RUNNING
    same(Visible.all(), counts(50))
    mount.give()
    run_to(client, 200)
    same(Visible.all(), counts(200))
    cancel(client)


def test_failing_last_checkpoint(tmp_path: Path) -> None:
    """A bounded job whose last checkpoint fails fails, and does not claim to have written."""
    mount = Mount(tmp_path)

    def taken(value: int) -> tuple[int]:
        mount.take()
        return (value,)

    env = environment(
        tmp_path, 1, {"restart-strategy.type": "none", CHECKPOINTING + "interval": "1 h"}
    )
    env.from_collection([1, 2, 3]).map(taken).add_sink(Visible("out"))
    with pytest.raises(PenstockError, match="tolerable"):
        env.execute()
    assert Visible.all() == []


def test_a_restore_that_fails_is_a_failure_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restart strategy counts it, and the next attempt restores."""
    fetched = []
    fetch = CheckpointFiles.fetch

    def failing(effects: Any, loaded: Any, **rest: Any) -> None:
        fetched.append(loaded.manifest.checkpoint_id)
        if len(fetched) <= 3:
            raise StorageError("the storage does not answer")
        fetch(effects, loaded, **rest)

    monkeypatch.setattr(CheckpointFiles, "fetch", failing)
    client = build(
        tmp_path, change=lambda stream: stream.map(failing_at([60], "user"))
    ).execute_async()
    run_to(client, 50)
    run_to(client, 100)
    same(Visible.all(), counts(100))
    assert len(fetched) == 4
    assert client._job.restarts == 4
    cancel(client)


def test_damage_found_in_recovery_ends_the_job(tmp_path: Path) -> None:
    """It does not heal, and an older checkpoint would repeat output: stop, and name the file."""

    def spoil(value: int) -> int:
        if value != 60:
            return value
        for path in tmp_path.glob("checkpoints/*/chk-*/*"):
            if path.name != "_metadata":
                path.write_bytes(path.read_bytes()[:-1])
        # Whole files of this machine would do as well.
        for path in tmp_path.glob("tmp/*/state/*"):
            path.unlink(missing_ok=True)
        raise RuntimeError("the cause of the recovery")

    options = {CHECKPOINTING + "data-inline-threshold": "0"}
    client = build(tmp_path, options=options, change=lambda each: each.map(spoil)).execute_async()
    run_to(client, 50)
    wait_for(lambda: client.checkpoints()[0].status == "COMPLETED", "a checkpoint")
    Tap.limit = 100
    with pytest.raises(PenstockError, match="missing or damaged") as caught:
        client.get_job_execution_result().result(200)
    assert "It was truncated or replaced" in str(caught.value)
    assert [*tmp_path.glob("checkpoints/*/chk-*/_metadata")], "what is left is for people to judge"


def stands_still(value: int) -> int:
    while value >= 6:
        time.sleep(0.01)
    return value


def test_a_checkpoint_that_fails_in_the_middle_of_an_epoch_is_the_cause(tmp_path: Path) -> None:
    """The epoch is interrupted for it; that must not hide why."""
    options = {
        "restart-strategy.type": "none",
        "penstock.epoch.max-records": "3",
        CHECKPOINTING + "interval": "10 ms",
        CHECKPOINTING + "timeout": "200 ms",
    }
    env = environment(tmp_path, options=options)
    env.from_collection(list(range(1, 12))).map(stands_still).print()
    with pytest.raises(PenstockError, match=r"tolerable-failed-checkpoints .*EXPIRED") as caught:
        env.execute()
    assert failure_of(caught.value, 1, 0).cause == "checkpoint"
