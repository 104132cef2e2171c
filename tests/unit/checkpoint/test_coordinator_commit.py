"""The commit point, its three outcomes, and what may follow it."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_script import Script, deleted, failures, of, one, publishing

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import SnapshotKind
from penstock.checkpoint.coordination.instructions import (
    CommitSinks,
    CompleteRequest,
    DeleteCheckpoint,
    DiscardPending,
    FailJob,
    Publish,
    ReleaseSharedFiles,
    ReReadMetadata,
    ReReadPointer,
    ReserveId,
    StepDown,
    WriteMetadata,
)

CHECKPOINT, SAVEPOINT = SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT


def test_order_sinks_then_deletion_then_shared_files() -> None:
    script = publishing()
    said = script.now(events.Published(2))
    kinds = [type(each) for each in said]
    assert kinds.index(CommitSinks) < kinds.index(DeleteCheckpoint)
    assert ReleaseSharedFiles not in kinds
    assert one(script.now(events.DeletionCompleted(1)), ReleaseSharedFiles) == ReleaseSharedFiles(2)


def test_the_pointer_is_told_what_it_may_forget() -> None:
    script = publishing()
    script.now(events.Published(2))
    script.clean(2, 1)
    script.trigger(3, 2_000)
    script.upload()
    publish = one(script.write(3), Publish)
    assert publish is not None
    assert [each.checkpoint_id for each in publish.retained] == [3]
    assert [each.checkpoint_id for each in publish.dropped] == [2]
    assert publish.forgotten == (1,)


def test_unknown_nothing_is_deleted_triggered_or_expired_until_it_is_known() -> None:
    script = publishing()
    assert of(script.now(events.PublicationUnknown(2, "timeout")), ReReadPointer)
    assert script.now(events.PublicationUnknown(2, "timeout")) != []
    said = script.at(1_050) + script.ask(SAVEPOINT, "wish") + script.at(9_000)
    assert of(said, DeleteCheckpoint) == of(said, DiscardPending) == of(said, ReserveId) == []
    assert failures(said) == []
    said = script.at(9_001, events.Published(2))
    assert deleted(said) == [1]
    assert one(said, ReserveId) is not None


def test_unknown_is_asked_again_at_growing_intervals() -> None:
    script = publishing()
    times = []
    script.now(events.PublicationUnknown(2, ""))
    for _ in range(8):
        script.now(events.PublicationUnknown(2, ""))
        start = script.now_ms
        while not of(script.at(script.now_ms + 50), ReReadPointer):
            pass
        times.append(script.now_ms - start)
    assert times == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_what_is_given_up_meanwhile_keeps_its_files_until_it_is_known() -> None:
    script = Script(max_concurrent=3, timeout_ms=500, tolerable_failures=9).start()
    script.trigger(1, 0)
    for checkpoint_id in (2, 3):
        script.ask(CHECKPOINT, f"user-{checkpoint_id}")
        script.now(events.IdReserved(checkpoint_id))
    script.upload()
    script.write(1)
    script.now(events.PublicationUnknown(1, "timeout"))
    # A failed upload is a fact; a deadline is a decision, and waits.
    said = script.now(events.UploadFailed(2, "disk full")) + script.at(600)
    assert failures(said) == [(2, "CHECKPOINT_ASYNC_EXCEPTION")]
    assert not of(said, DiscardPending)
    said = script.now(events.Published(1))
    assert failures(said) == [(3, "CHECKPOINT_EXPIRED")]
    assert of(said, DiscardPending) == [DiscardPending(2), DiscardPending(3)]


def test_certain_failure_of_the_publication_gives_the_checkpoint_up() -> None:
    script = publishing()
    said = script.now(events.PublicationFailed(2, "no space"))
    assert failures(said) == [(2, "FINALIZE_CHECKPOINT_FAILURE")]
    assert of(said, DiscardPending) == [DiscardPending(2)]
    assert script.coordinator.latest is not None
    assert script.coordinator.latest.checkpoint_id == 1


def test_rejected_means_stop_and_leave_everything() -> None:
    script = publishing()
    script.ask(CHECKPOINT, "waiting")
    said = script.now(events.PublicationRejected(2, "epoch 4 leads"))
    assert one(said, StepDown) is not None
    assert one(said, CompleteRequest) is not None
    assert not of(said, DeleteCheckpoint)
    assert not of(said, DiscardPending)
    assert script.at(100_000) == []
    assert script.now(events.Published(2)) == []


def test_publications_come_one_at_a_time() -> None:
    script = Script(max_concurrent=3).start()
    script.trigger(1, 0)
    script.ask(CHECKPOINT, "second")
    script.now(events.IdReserved(2))
    script.upload()
    script.write(1)
    assert one(script.write(2), Publish) is None
    publish = one(script.now(events.Published(1)), Publish)
    assert publish is not None
    assert (publish.checkpoint_id, publish.parent_id) == (2, 1)


def test_unknown_metadata_is_read_again_and_its_files_wait() -> None:
    script = Script(timeout_ms=500, tolerable_failures=9).start()
    script.trigger(1, 0)
    script.upload()
    script.now(events.UploadCompleted(1))
    assert of(script.now(events.MetadataUnknown(1, "timeout")), ReReadMetadata)
    said = script.at(500)
    assert failures(said) == [(1, "CHECKPOINT_EXPIRED")]
    # The write may still arrive: without its files it would look like a checkpoint.
    assert not of(said, DiscardPending)
    assert of(script.at(700, events.MetadataWritten(1, "chk-1")), DiscardPending)


def test_a_savepoint_does_not_expire_once_it_may_be_there() -> None:
    script = Script(timeout_ms=500, interval_ms=None).start()
    script.ask(SAVEPOINT)
    script.now(events.IdReserved(1))
    script.upload()
    script.now(events.UploadCompleted(1))
    script.now(events.MetadataUnknown(1, ""))
    assert failures(script.at(5_000)) == []
    result = one(script.now(events.MetadataWritten(1, "there")), CompleteRequest)
    assert result is not None
    assert result.checkpoint is not None


def test_sinks_commit_one_at_a_time_until_it_is_known() -> None:
    script = publishing()
    script.now(events.Published(2))
    script.now(events.DeletionCompleted(1))
    assert not of(script.now(events.SinkCommitFailed(2, "down")), CommitSinks)
    (commit,) = of(script.at(1_100), CommitSinks)
    assert commit.checkpoint.checkpoint_id == 2
    script.trigger(3, 2_000)
    # Checkpoint 3 covers 2, but waits for the answer about it.
    assert not of(script.finish(3), CommitSinks)
    assert of(script.now(events.SinkCommitFailed(2, "down")), CommitSinks) == []
    (commit,) = of(script.at(2_200), CommitSinks)
    assert commit.checkpoint.checkpoint_id == 3


# -- tolerable failures ---------------------------------------------------------------------------


def fail(script: Script, checkpoint_id: int, at_ms: int) -> list[object]:
    script.trigger(checkpoint_id, at_ms)
    script.upload()
    said = script.now(events.UploadFailed(checkpoint_id, "disk full"))
    script.now(events.DeletionCompleted(checkpoint_id))
    return said


def test_the_job_fails_with_one_failure_more_than_tolerable() -> None:
    script = Script(tolerable_failures=2).start()
    assert not of(fail(script, 1, 0), FailJob)
    assert not of(fail(script, 2, 1_000), FailJob)
    failed = one(fail(script, 3, 2_000), FailJob)
    assert failed is not None
    assert "tolerable-failed-checkpoints" in failed.message
    assert "disk full" in failed.message


def test_a_success_starts_the_count_anew() -> None:
    script = Script(tolerable_failures=1).start()
    fail(script, 1, 0)
    script.complete(2, 1_000)
    assert not of(fail(script, 3, 2_000), FailJob)
    assert of(fail(script, 4, 3_000), FailJob)


def test_an_id_that_cannot_be_reserved_counts() -> None:
    script = Script(tolerable_failures=0).start()
    script.at(0, events.Ticked())
    assert of(script.now(events.IdReservationFailed("storage gone")), FailJob)


def test_a_failed_savepoint_is_its_callers_business() -> None:
    script = Script(interval_ms=None, tolerable_failures=0).start()
    script.ask(SAVEPOINT)
    script.now(events.IdReserved(1))
    script.upload()
    said = script.now(events.UploadFailed(1, "target full"))
    assert not of(said, FailJob)
    result = one(said, CompleteRequest)
    assert result is not None
    assert result.failure is not None
    assert "target full" in str(result.failure)


def rescaled() -> Script:
    """Checkpoint 1, which says something of the job, and what a test adds in the same epoch."""
    script = Script(min_pause_ms=0, num_retained=1).start(first_delay_ms=10_000)
    script.ask(CHECKPOINT, "rescale", job={"parallelism": 4})
    script.now(events.IdReserved(1))
    return script


def asked(script: Script, checkpoint_id: int, kind: SnapshotKind) -> None:
    script.ask(kind, f"wish {checkpoint_id}")
    script.now(events.IdReserved(checkpoint_id))


def says(said: list[Any]) -> dict[str, Any]:
    found = one(said, WriteMetadata)
    assert found is not None
    return dict(found.job)


@pytest.mark.parametrize("kind", SnapshotKind)
def test_what_a_checkpoint_says_of_the_job_is_said_by_those_captured_before_it_counts(
    kind: SnapshotKind,
) -> None:
    script = rescaled()
    asked(script, 2, kind)
    script.upload()
    script.write(1)
    script.now(events.Published(1))
    assert says(script.now(events.UploadCompleted(2))) == {"parallelism": 4}


def test_a_checkpoint_that_says_the_contrary_already_is_given_up() -> None:
    script = rescaled()
    asked(script, 2, CHECKPOINT)
    script.upload()
    script.write(1)
    # While the publication of 1 is open. If it failed, 2 would be right.
    assert says(script.now(events.UploadCompleted(2))) == {}
    script.now(events.MetadataWritten(2, "chk-2"))
    said = script.now(events.Published(1))
    assert failures(said) == [(2, "CHECKPOINT_SUBSUMED")]
    assert one(said, Publish) is None


def test_what_a_checkpoint_said_that_did_not_count_is_not_said_again() -> None:
    script = rescaled()
    asked(script, 2, CHECKPOINT)
    script.upload()
    script.now(events.UploadFailed(1, "no room"))
    assert says(script.now(events.UploadCompleted(2))) == {}
    said = script.now(events.MetadataWritten(2, "chk-2"))
    assert one(said, Publish) is not None
