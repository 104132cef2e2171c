"""Restore, recovery and the end of a job: what is built upon, kept, deleted."""

from __future__ import annotations

import pytest
from coordinator_script import Script, deleted, failures, of, one, publishing

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.coordination.instructions import (
    Close,
    CommitSinks,
    Recover,
    ReleaseSharedFiles,
    RemovePointers,
    ReserveId,
    Upload,
)
from penstock.checkpoint.settings import ClaimMode, RetentionPolicy
from penstock.core.job import JobStatus

CHECKPOINT = SnapshotKind.CHECKPOINT


def chk(number: int, **more: object) -> CompletedCheckpoint:
    return CompletedCheckpoint(number, location=f"chk-{number}", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "base", "is_deleted"),
    [
        (ClaimMode.NO_CLAIM, None, False),
        (ClaimMode.CLAIM, 860, True),
        (ClaimMode.LEGACY, 860, False),
    ],
)
def test_claim_modes(mode: ClaimMode, base: int | None, is_deleted: bool) -> None:
    script = Script(incremental=True)
    said = script.now(events.Restored((chk(860),), claim_mode=mode))
    assert one(said, CommitSinks) is not None, "its output may not be visible yet"
    script.start()
    script.now(events.SinksCommitted(860))
    script.trigger(861, 0)
    (upload,) = of(script.now(events.EpochCompleted(1, "state")), Upload)
    assert (upload.checkpoint.base.checkpoint_id if upload.checkpoint.base else None) == base
    script.write(861)
    said = script.now(events.Published(861))
    assert deleted(said) == ([860] if is_deleted else [])
    # From the second one on every mode is incremental.
    script.now(events.DeletionCompleted(860))
    script.trigger(862, 1_000)
    (upload,) = of(script.now(events.EpochCompleted(2, "state")), Upload)
    assert upload.checkpoint.base is not None
    assert upload.checkpoint.base.checkpoint_id == 861


def test_full_on_request_and_without_the_setting() -> None:
    for settings, full in (({"incremental": True}, True), ({"incremental": False}, False)):
        script = Script(**settings).start()
        script.complete(1, 0)
        script.ask(CHECKPOINT, full=full)
        script.now(events.IdReserved(2))
        (upload,) = of(script.now(events.EpochCompleted(2, "state")), Upload)
        assert upload.checkpoint.base is None


def test_a_successor_finishes_the_deletions_of_its_predecessor() -> None:
    script = Script()
    said = script.now(events.Restored((chk(7),), last_id=9, subsumed=(chk(5), chk(6))))
    assert deleted(said) == [5, 6]
    assert not of(script.start().said, ReserveId), "two deletions are one too many"
    assert one(script.now(events.DeletionCompleted(5)), ReserveId) == ReserveId(10)
    assert one(script.now(events.DeletionCompleted(6)), ReleaseSharedFiles) is not None


def test_recovery_starts_from_the_latest_and_commits_its_output_again() -> None:
    script = Script(max_concurrent=2).start()
    script.complete(1, 0)
    script.trigger(2, 1_000)
    said = script.now(events.AttemptFailed("user code"))
    assert failures(said) == [(2, "JOB_FAILOVER_REGION")]
    recover, commit = one(said, Recover), one(said, CommitSinks)
    assert recover is not None
    assert recover.checkpoint is not None
    assert commit is not None
    assert recover.checkpoint.checkpoint_id == commit.checkpoint.checkpoint_id == 1


def test_recovery_without_a_checkpoint_starts_empty() -> None:
    said = Script().start().now(events.AttemptFailed())
    assert one(said, Recover) == Recover(None)


def test_recovery_waits_until_it_is_known_what_the_pointer_says() -> None:
    script = publishing()
    script.now(events.PublicationUnknown(2, "timeout"))
    assert one(script.now(events.AttemptFailed()), Recover) is None
    recover = one(script.at(9_000, events.Published(2)), Recover)
    assert recover is not None
    assert recover.checkpoint is not None
    assert recover.checkpoint.checkpoint_id == 2


@pytest.mark.parametrize(
    ("policy", "status", "kept"),
    [
        (policy, status, kept)
        for policy, row in {
            RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS: "dddd",
            RetentionPolicy.DELETE_ON_CANCELLATION: "ddkd",
            RetentionPolicy.RETAIN_ON_CANCELLATION: "dkkk",
        }.items()
        for status, kept in zip(
            (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED),
            row,
            strict=True,
        )
    ],
)
def test_end_of_the_job(policy: RetentionPolicy, status: JobStatus, kept: str) -> None:
    script = Script(retention=policy).start()
    script.complete(1, 0)
    said = script.now(events.JobEnded(status))
    if kept == "k":
        assert one(said, Close) is not None
        assert not of(said, RemovePointers)
        return
    assert one(said, RemovePointers) == RemovePointers((1,))
    assert not deleted(said)
    # The pointer first; while that is in doubt no file goes.
    said = script.now(events.PointerRemovalUnknown("timeout"))
    assert not deleted(said)
    assert one(script.at(100), RemovePointers) == RemovePointers((1,))
    assert deleted(script.now(events.PointersRemoved())) == [1]
    assert one(script.now(events.DeletionCompleted(1)), ReleaseSharedFiles) is not None
    assert one(script.now(events.SharedFilesReleased()), Close) is not None


def test_the_end_waits_for_the_output() -> None:
    script = Script(retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS).start()
    script.trigger(1, 0)
    script.finish(1)
    script.now(events.SharedFilesReleased())
    assert not of(script.now(events.JobEnded(JobStatus.CANCELED)), RemovePointers)
    assert of(script.now(events.SinksCommitted(1)), RemovePointers)


def test_cancelled_while_the_outcome_is_unknown() -> None:
    script = publishing()
    script.now(events.PublicationUnknown(2, "timeout"))
    said = script.now(events.JobEnded(JobStatus.CANCELED))
    assert not of(said, RemovePointers)
    said = script.now(events.Published(2))
    assert one(said, CommitSinks) is not None
    script.clean(2, 1)
    assert of(script.said, RemovePointers) == [RemovePointers((2,))]


def test_shared_files_stay_while_a_pending_checkpoint_builds_on_them() -> None:
    script = Script(incremental=True, max_concurrent=2, num_retained=1).start()
    script.complete(1, 0)
    script.ask(CHECKPOINT, "a")
    script.now(events.IdReserved(2))
    script.ask(CHECKPOINT, "b")
    script.now(events.IdReserved(3))
    script.upload()
    script.write(2)
    script.now(events.Published(2))
    # Checkpoint 1 is gone, but 3 was started when it was the base.
    assert [each.checkpoint_id for each in script.coordinator.needed] == [1, 2]
    assert script.coordinator.lowest_unfinished_id == 3
    assert not of(script.now(events.DeletionCompleted(1)), ReleaseSharedFiles)
    script.write(3)
    script.now(events.Published(3))
    assert one(script.now(events.DeletionCompleted(2)), ReleaseSharedFiles) == ReleaseSharedFiles(3)


def test_what_is_not_ours_holds_no_shared_file_back_at_the_end() -> None:
    script = Script(num_retained=3)
    script.now(events.Restored((chk(860),), claim_mode=ClaimMode.NO_CLAIM))
    script.start()
    script.now(events.SinksCommitted(860))
    script.complete(861, 0)
    script.now(events.JobEnded(JobStatus.FINISHED))
    script.now(events.PointersRemoved())
    said = script.now(events.DeletionCompleted(861))
    assert one(said, ReleaseSharedFiles) == ReleaseSharedFiles(862)
    assert [each.checkpoint_id for each in script.coordinator.retained] == [860]
