"""Stopping with a savepoint."""

from __future__ import annotations

from coordinator_script import Script, declined, failures, of, one, stop_requested

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import SnapshotKind
from penstock.checkpoint.coordination.instructions import (
    CommitSinks,
    CompleteRequest,
    DeleteCheckpoint,
    FailJob,
    FinishJob,
    Publish,
    Recover,
    RemovePointers,
    RequestSnapshot,
    ReserveId,
    Upload,
)
from penstock.core.job import JobStatus


def stopping(*, drain: bool = False) -> Script:
    script = Script().start()
    script.complete(1, 0)
    script.at(100, stop_requested(drain=drain, target="target"))
    script.now(events.IdReserved(2))
    return script


def test_the_whole_way() -> None:
    script = stopping(drain=True)
    wanted = of(script.said, RequestSnapshot)[-1]
    assert (wanted.checkpoint_id, wanted.request.stop, wanted.request.drain) == (2, True, True)
    # The epoch that was running ends; the sources have not stopped yet.
    assert not of(script.now(events.EpochCompleted(5, "early")), Upload)
    (upload,) = of(script.now(events.EpochCompleted(6, "last", stopped=True)), Upload)
    assert (upload.checkpoint.epoch, upload.checkpoint.base) == (6, None)
    publish = one(script.write(2), Publish)
    assert publish is not None, "or a crash now would write the output again"
    said = script.now(events.Published(2))
    assert not of(said, FinishJob)
    assert not of(said, CompleteRequest)
    assert one(said, CommitSinks) is not None
    said = script.now(events.SinksCommitted(2))
    assert one(said, FinishJob) is not None
    assert not of(said, CompleteRequest), "or a successor could go on with a job that has stopped"
    said = script.now(events.JobEnded(JobStatus.FINISHED))
    assert not of(said, CompleteRequest)
    result = one(script.now(events.PointersRemoved()), CompleteRequest)
    assert result is not None
    assert result.checkpoint is not None
    assert result.checkpoint.checkpoint_id == 2


def test_neither_the_savepoint_nor_its_pointer_goes_at_the_end() -> None:
    script = stopping()
    script.now(events.EpochCompleted(6, "last", stopped=True))
    script.write(2)
    script.now(events.Published(2))
    script.now(events.SinksCommitted(2))
    said = script.now(events.JobEnded(JobStatus.FINISHED))
    assert one(said, RemovePointers) == RemovePointers((1,))
    said = script.now(events.PointersRemoved())
    assert [each.checkpoint.checkpoint_id for each in of(said, DeleteCheckpoint)] == [1]
    assert [each.checkpoint_id for each in script.coordinator.retained] == [2]


def test_it_clears_the_way() -> None:
    script = Script().start()
    script.trigger(1, 0)
    script.ask(SnapshotKind.CHECKPOINT, "reserving its id")
    script.ask(SnapshotKind.CHECKPOINT, "waiting")
    script.at(1_000)
    said = script.now(stop_requested(target="target"))
    assert failures(said) == [(1, "CHECKPOINT_COORDINATOR_SUSPEND")]
    suspended, shut = "CHECKPOINT_COORDINATOR_SUSPEND", "PERIODIC_SCHEDULER_SHUTDOWN"
    assert declined(said) == [suspended, shut, suspended]
    script.now(events.IdReserved(2))
    script.now(events.IdReserved(3))
    assert not of(script.at(100_000), ReserveId), "no periodic checkpoint while stopping"


def test_a_failed_one_fails_the_job_over() -> None:
    script = stopping()
    script.now(events.EpochCompleted(6, "last", stopped=True))
    said = script.now(events.UploadFailed(2, "target full"))
    assert one(said, FailJob) is not None
    result = one(said, CompleteRequest)
    assert result is not None
    assert result.failure is not None
    script.now(events.DeletionCompleted(2))
    said = script.now(events.AttemptFailed())
    recover = one(said, Recover)
    assert recover is not None
    assert recover.checkpoint is not None
    assert recover.checkpoint.checkpoint_id == 1
    script.now(events.SinksCommitted(1))
    # The scheduler starts anew, with the pause (none here) as its first delay.
    assert one(script.at(500, events.Started(400)), ReserveId) == ReserveId(3)


def test_a_failure_after_the_commit_point_still_finishes() -> None:
    script = stopping()
    script.now(events.EpochCompleted(6, "last", stopped=True))
    script.write(2)
    assert not of(script.now(events.AttemptFailed("while closing")), Recover)
    said = script.now(events.Published(2))
    assert not of(said, Recover)
    assert one(script.now(events.SinksCommitted(2)), FinishJob) is not None


def test_a_failure_after_the_order_to_finish_still_finishes() -> None:
    script = stopping()
    script.now(events.EpochCompleted(6, "last", stopped=True))
    script.write(2)
    script.now(events.Published(2))
    assert one(script.now(events.SinksCommitted(2)), FinishJob) is not None
    said = script.now(events.AttemptFailed("while closing"))
    assert not of(said, Recover)
    assert one(said, FinishJob) is not None


def test_a_leader_that_is_cut_off_before_the_end_is_noted_answers_that_the_job_goes_on() -> None:
    script = stopping()
    script.now(events.EpochCompleted(6, "last", stopped=True))
    script.write(2)
    script.now(events.Published(2))
    script.now(events.SinksCommitted(2))
    script.now(events.JobEnded(JobStatus.FINISHED))
    result = one(script.now(events.LeadershipLost("cut off")), CompleteRequest)
    assert result is not None
    assert "is complete, but another process goes on with the job: cut off" in str(result.failure)


def test_the_end_of_a_job_without_any_checkpoint_is_noted() -> None:
    script = Script().start()
    said = script.now(events.JobEnded(JobStatus.FINISHED))
    assert one(said, RemovePointers) == RemovePointers(())


def test_without_a_target_nothing_stops() -> None:
    script = Script().start(50)
    result = one(script.now(stop_requested()), CompleteRequest)
    assert result is not None
    assert result.failure is not None
    assert one(script.at(50), ReserveId) is not None
