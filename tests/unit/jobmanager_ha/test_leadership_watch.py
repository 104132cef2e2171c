"""A driver process finds out that the leadership which started it is over."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.core.configuration import Configuration
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from penstock.jobmanager.high_availability.coordination import (
    LEASE,
    CoordinationRecords,
    coordination_of,
    shared_checkpoints,
    superseded,
    watch_leadership,
)
from penstock.jobmanager.job_records import attempt_epoch

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from penstock.core.versioned import VersionedRecord


def lease(epoch: int | None) -> VersionedRecord:
    record = open_record(MemoryStorage(), "lease")
    if epoch is not None:
        record.compare_and_set(None, b"", leader_epoch=epoch, write_id="w")
    return record


def settings(tmp_path: Path) -> Configuration:
    return Configuration.from_dict(
        {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(tmp_path),
            "penstock.high-availability.lease-timeout": "600 ms",
        }
    )


def test_only_a_later_epoch_ends_it() -> None:
    assert superseded(lease(None), 3) is None
    assert superseded(lease(2), 3) is None
    assert superseded(lease(3), 3) is None
    reason = superseded(lease(4), 3)
    assert reason == "leader epoch 4 has begun, and it was started in epoch 3"


def test_a_lease_out_of_reach_says_nothing(tmp_path: Path) -> None:
    storage = MemoryStorage()
    storage.swap("lease/current", b"rubbish", None)
    assert superseded(open_record(storage, "lease"), 3) is None


def test_its_parent_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left, is_seen, parent = threading.Event(), threading.Event(), 17

    def find_parent() -> int:
        is_seen.set()
        return parent

    watch_leadership(settings(tmp_path), attempt_epoch(3, 1), left.set, find_parent)
    assert is_seen.wait(200)
    assert not left.is_set()
    parent = 1
    assert left.wait(200)
    assert "its job manager is gone" in caplog.text


def test_it_leaves(tmp_path: Path) -> None:
    left = threading.Event()
    configuration = settings(tmp_path)
    watch_leadership(configuration, attempt_epoch(3, 1), left.set)
    found = coordination_of(configuration, attempt_epoch(3, 1))
    assert found is not None
    record = CoordinationRecords(found, configuration.to_dict()).open(LEASE)
    record.compare_and_set(None, b"", leader_epoch=4, write_id="w")
    assert left.wait(200)


def test_a_job_that_nobody_else_could_start_has_no_watch(tmp_path: Path) -> None:
    # As env.execute() starts it, whatever the configuration says.
    assert coordination_of(settings(tmp_path), 1) is None
    assert coordination_of(Configuration(), attempt_epoch(3, 1)) is None
    assert attempt_epoch(1, 1) > attempt_epoch(0, 1_000_000)
    assert attempt_epoch(2, 1) > attempt_epoch(1, 1_000_000)


def test_checkpoints_of_programs_that_name_no_place_are_shared(tmp_path: Path) -> None:
    assert shared_checkpoints(Configuration()) is None
    assert shared_checkpoints(settings(tmp_path)) == f"{tmp_path}/default/checkpoints"
