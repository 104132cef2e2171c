"""When checkpoints are triggered: expected times by hand."""

from __future__ import annotations

import pytest
from coordinator_script import Script, declined, failures, of, one, stop_requested

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import SnapshotKind, TriggerRequest
from penstock.checkpoint.coordination.instructions import (
    CompleteRequest,
    IgnoreAnswer,
    NotifyAborted,
    RequestSnapshot,
    ReserveId,
    ScheduleTick,
)

CHECKPOINT, SAVEPOINT = SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT


def test_first_trigger_after_the_drawn_delay_and_then_every_interval() -> None:
    script = Script(interval_ms=1_000).start(first_delay_ms=300)
    assert one(script.said, ScheduleTick) == ScheduleTick(300)
    assert one(script.at(299), ReserveId) is None
    script.complete(1, 300)
    assert one(script.at(1_299), ReserveId) is None
    # Late by 250 ms: the next one counts from here, not from the timetable.
    script.complete(2, 1_550, 1)
    assert one(script.at(2_549), ReserveId) is None
    assert one(script.at(2_550), ReserveId) == ReserveId(3)


def test_after_a_restart_the_first_delay_is_the_pause() -> None:
    script = Script(interval_ms=1_000, min_pause_ms=200).start(first_delay_ms=700)
    script.at(100, events.AttemptFailed())
    script.at(500, events.Started(first_delay_ms=900))
    assert one(script.at(699), ReserveId) is None
    assert one(script.at(700), ReserveId) is not None


def test_checkpointing_off_triggers_only_on_request() -> None:
    script = Script(interval_ms=None).start()
    assert one(script.at(10**9), ReserveId) is None
    assert one(script.ask(CHECKPOINT), ReserveId) is not None


def test_the_trigger_takes_effect_at_the_end_of_the_running_epoch() -> None:
    script = Script().start()
    script.at(0, events.Ticked())
    said = script.at(1, events.IdReserved(1))
    assert one(said, RequestSnapshot) == RequestSnapshot(1, TriggerRequest(1, 0))
    (upload,) = [each for each in script.now(events.EpochCompleted(7, "the state"))]
    assert (upload.checkpoint.epoch, upload.checkpoint.snapshot) == (7, "the state")
    # The next epochs run during the upload, and change nothing.
    assert script.now(events.EpochCompleted(8, "other")) == []


def test_pause_counts_from_the_last_completion_also_of_a_savepoint() -> None:
    script = Script(interval_ms=1_000, min_pause_ms=400).start()
    script.complete(1, 0)
    script.at(700)
    script.ask(SAVEPOINT)
    script.at(700, events.IdReserved(2))
    script.upload()
    script.at(900, events.UploadCompleted(2))
    script.now(events.MetadataWritten(2, "savepoint"))
    # Due at 1,000, but 300 ms of the pause after 900 are left.
    said = script.at(1_000)
    assert declined(said) == ["MINIMUM_TIME_BETWEEN_CHECKPOINTS"]
    assert one(said, ScheduleTick) == ScheduleTick(1_300)
    assert one(script.at(1_299), ReserveId) is None
    assert one(script.at(1_300), ReserveId) == ReserveId(3)


def test_a_pause_does_not_hold_up_users() -> None:
    script = Script(interval_ms=1_000, min_pause_ms=900).start()
    script.complete(1, 0)
    script.at(10)
    assert one(script.ask(CHECKPOINT), ReserveId) is not None


def test_a_pause_implies_one_at_a_time() -> None:
    script = Script(min_pause_ms=1, max_concurrent=3).start()
    script.trigger(1, 0)
    script.at(1_000)
    assert of(script.said, ReserveId) == [ReserveId(1)]


def test_requests_wait_for_a_free_slot_and_one_end_frees_one() -> None:
    script = Script(max_concurrent=2, tolerable_failures=9).start()
    script.trigger(1, 0)
    script.trigger(2, 1_000)
    script.at(2_000)
    assert len(of(script.said, ReserveId)) == 2
    script.upload()
    script.now(events.UploadFailed(1, "disk full"))
    assert len(of(script.said, ReserveId)) == 3
    script.now(events.IdReserved(3))
    assert [pending.checkpoint_id for pending in script.coordinator.pending] == [2, 3]
    script.at(3_000)
    assert len(of(script.said, ReserveId)) == 3
    script.now(events.UploadFailed(2, "disk full"))
    script.now(events.DeletionCompleted(1))
    assert len(of(script.said, ReserveId)) == 4


def test_a_job_slower_than_its_interval_always_checkpoints() -> None:
    script = Script(interval_ms=1_000).start()
    script.trigger(1, 0)
    # Due at 1,000 and never more than one in the queue, however long it takes.
    for time_ms in (1_000, 2_000, 3_000, 4_000):
        assert one(script.at(time_ms), ReserveId) is None
    assert one(script.finish(1), ReserveId) == ReserveId(2)
    script.now(events.IdReserved(2))
    script.clean(1)
    assert one(script.at(4_999), ReserveId) is None


def test_a_savepoint_does_not_wait_for_a_slot() -> None:
    script = Script(interval_ms=1_000).start()
    script.trigger(1, 0)
    assert one(script.ask(SAVEPOINT), ReserveId) == ReserveId(2)


def test_a_checkpoint_of_a_user_does_not_wait_for_a_slot() -> None:
    script = Script().start()
    script.trigger(1, 0)
    assert one(script.ask(CHECKPOINT), ReserveId) is not None


def test_requests_wait_while_too_much_is_being_deleted() -> None:
    script = Script(num_retained=1, max_concurrent=1).start()
    script.complete(1, 0)
    script.trigger(2, 1_000)
    script.finish(2)
    script.trigger(3, 2_000)
    script.finish(3)
    # Checkpoints 1 and 2 are still being deleted; one may be, two may not.
    script.at(3_000)
    assert one(script.ask(SAVEPOINT), ReserveId) is None
    script.now(events.DeletionCompleted(1))
    assert of(script.said, ReserveId)[-1] == ReserveId(4)


def test_a_checkpoint_expires_and_its_late_answers_are_dropped_once() -> None:
    script = Script(timeout_ms=500, interval_ms=10_000, tolerable_failures=5).start()
    script.trigger(1, 0)
    script.upload()
    assert failures(script.at(499)) == []
    said = script.at(500)
    assert failures(said) == [(1, "CHECKPOINT_EXPIRED")]
    assert one(said, NotifyAborted) is not None
    late = script.at(600, events.UploadCompleted(1))
    assert of(late, IgnoreAnswer) == [IgnoreAnswer(1, "UploadCompleted")]
    again = script.at(601, events.UploadFailed(1, "again"))
    assert of(again, IgnoreAnswer) == []
    assert failures(late + again) == []


def test_completion_aborts_older_checkpoints_but_no_savepoint() -> None:
    script = Script(max_concurrent=2).start()
    script.trigger(1, 0)
    script.ask(SAVEPOINT, "savepoint")
    script.now(events.IdReserved(2))
    script.ask(CHECKPOINT, "r")
    script.now(events.IdReserved(3))
    said = script.finish(3)
    assert failures(said) == [(1, "CHECKPOINT_SUBSUMED")]
    assert [pending.checkpoint_id for pending in script.coordinator.pending] == [2]


def test_an_intermediate_savepoint_subsumes_nothing_and_commits_nothing() -> None:
    script = Script().start()
    script.trigger(1, 0)
    script.ask(SAVEPOINT, "savepoint")
    script.now(events.IdReserved(2))
    script.upload()
    said = script.write(2)
    result = one(said, CompleteRequest)
    assert result is not None
    assert result.checkpoint is not None
    assert result.checkpoint.location == "chk-2"
    assert script.coordinator.latest is None
    assert [pending.checkpoint_id for pending in script.coordinator.pending] == [1]
    assert not [each for each in said if type(each).__name__ in ("CommitSinks", "Publish")]


def test_a_savepoint_needs_a_target() -> None:
    script = Script().start()
    result = one(script.ask(SAVEPOINT, target=""), CompleteRequest)
    assert result is not None
    assert result.failure is not None
    assert "execution.checkpointing.savepoint-dir" in result.failure.message
    configured = Script(interval_ms=None, savepoint_directory="there").start()
    assert one(configured.ask(SAVEPOINT, target=""), ReserveId) is not None


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ([], "NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ([events.Started(0), events.AttemptFailed()], "NOT_ALL_REQUIRED_TASKS_RUNNING"),
        (
            [events.Started(0), stop_requested(target="t")],
            "CHECKPOINT_COORDINATOR_SUSPEND",
        ),
        ([events.Started(0), events.LeadershipLost()], "CHECKPOINT_COORDINATOR_SHUTDOWN"),
    ],
)
def test_requests_out_of_time_are_refused(before: list[events.Event], reason: str) -> None:
    script = Script()
    for event in before:
        script.now(event)
    result = one(script.ask(CHECKPOINT, "late"), CompleteRequest)
    assert result is not None
    assert result.request_id == "late"
    assert result.failure is not None
    assert result.failure.reason.name == reason


def test_backlog_has_its_own_interval() -> None:
    script = Script(interval_ms=1_000, interval_during_backlog_ms=5_000).start()
    script.complete(1, 0)
    script.at(100, events.BacklogChanged(backlog=True))
    script.complete(2, 1_000, 1)
    assert one(script.at(5_999), ReserveId) is None
    script.complete(3, 6_000, 2)
    script.at(6_100, events.BacklogChanged(backlog=False))
    assert one(script.at(7_099), ReserveId) is None
    assert one(script.at(7_100), ReserveId) is not None


def test_backlog_may_switch_checkpoints_off() -> None:
    script = Script(interval_ms=1_000, interval_during_backlog_ms=0).start(500)
    script.at(100, events.BacklogChanged(backlog=True))
    assert one(script.at(10_000), ReserveId) is None
    script.at(20_000, events.BacklogChanged(backlog=False))
    assert one(script.at(21_000), ReserveId) is not None


def test_finished_tasks_end_checkpointing_only_if_asked() -> None:
    on = Script().start()
    on.at(0, events.TasksFinished())
    assert one(on.said, ReserveId) is not None
    off = Script(checkpoints_after_tasks_finish=False).start(100)
    off.at(0, events.TasksFinished())
    assert one(off.at(10_000), ReserveId) is None
    result = one(off.ask(CHECKPOINT), CompleteRequest)
    assert result is not None
    assert result.failure is not None
    assert result.failure.reason.name == "NOT_ALL_REQUIRED_TASKS_RUNNING"


def test_ids_may_skip_but_never_repeat() -> None:
    script = Script(max_concurrent=3).start()
    script.trigger(5, 0)
    assert one(script.ask(CHECKPOINT), ReserveId) == ReserveId(6)
    with pytest.raises(AssertionError, match="id 5 was used before"):
        script.now(events.IdReserved(5))
