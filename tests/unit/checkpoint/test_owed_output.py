"""Sinks that fail to commit again and again: a clear end by the tolerable rule, nothing deleted."""

from __future__ import annotations

import pytest
from coordinator_script import Script, of, one, stop_requested

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.instructions import (
    Close,
    CommitSinks,
    CompleteRequest,
    FailJob,
    FinishJob,
    Instruction,
    Recover,
    RemovePointers,
)
from penstock.checkpoint.coordination.state import COMMIT_TRIES
from penstock.checkpoint.settings import RetentionPolicy
from penstock.core.job import JobStatus


def fail(
    script: Script, checkpoint_id: int, times: int, *, is_lasting: bool = False
) -> list[Instruction]:
    """The commit in flight fails so often; between two failures time passes until the next try."""
    said: list[Instruction] = []
    for _ in range(times):
        said += script.now(events.SinkCommitFailed(checkpoint_id, "no such table", is_lasting))
        said += script.at(script.now_ms + 5_000)
    return said


def owing(tolerable: int = 0, **settings: object) -> Script:
    script = Script(
        interval_ms=10**9, timeout_ms=10**8, tolerable_failures=tolerable, **settings
    ).start()
    script.trigger(1, 0)
    script.finish(1)
    return script


def test_the_tenth_failure_in_a_row_fails_the_job() -> None:
    script = owing()
    assert not of(fail(script, 1, COMMIT_TRIES - 1), FailJob)
    failed = one(fail(script, 1, 1), FailJob)
    assert failed is not None
    assert "the output of checkpoint 1 could not be committed in 10 tries" in failed.message
    assert "no such table" in failed.message
    assert not failed.is_lasting


def test_output_that_is_refused_for_good_ends_the_job_and_is_kept() -> None:
    script = owing(retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS)
    script.now(events.SharedFilesReleased())
    failed = one(fail(script, 1, COMMIT_TRIES, is_lasting=True), FailJob)
    assert failed is not None
    assert failed.is_lasting
    script.now(events.JobEnded(JobStatus.FAILED))
    assert of(fail(script, 1, 1, is_lasting=True), Close)
    assert not of(script.said, RemovePointers)


def test_tolerable_failures_give_more_tries() -> None:
    script = owing(tolerable=2)
    assert not of(fail(script, 1, 3 * COMMIT_TRIES - 1), FailJob)
    assert of(fail(script, 1, 1), FailJob)
    # The next attempt has as many.
    assert not of(fail(script, 1, 3 * COMMIT_TRIES - 1), FailJob)
    assert of(fail(script, 1, 1), FailJob)


def test_a_commit_that_is_done_ends_the_row() -> None:
    script = owing()
    fail(script, 1, COMMIT_TRIES - 1)
    script.now(events.SinksCommitted(1))
    script.complete(2, 10**9, 1)
    script.trigger(3, 2 * 10**9)
    script.finish(3)
    assert not of(fail(script, 3, COMMIT_TRIES - 1), FailJob)


def test_newer_checkpoints_do_not_end_the_row() -> None:
    script = Script(tolerable_failures=1).start()
    failures = 0
    for number in range(1, 100):
        script.trigger(number, 1_000 * (number - 1))
        script.finish(number)
        failures += 1
        tried = of(script.said, CommitSinks)[-1].checkpoint.checkpoint_id
        if of(script.now(events.SinkCommitFailed(tried, "no")), FailJob):
            break
        for old in (number - 1,) if number > 1 else ():
            script.now(events.DeletionCompleted(old))
        script.now(events.SharedFilesReleased())
    assert failures == 2 * COMMIT_TRIES


def test_the_next_attempt_commits_first_what_is_owed() -> None:
    script = owing()
    fail(script, 1, COMMIT_TRIES)
    said = script.now(events.AttemptFailed("the sink failed"))
    recover = one(said, Recover)
    assert recover is not None
    assert recover.checkpoint is not None
    assert recover.checkpoint.checkpoint_id == 1
    assert [each.checkpoint.checkpoint_id for each in of(script.said, CommitSinks)][-1] == 1


def test_a_stop_whose_output_stays_invisible_fails_and_names_its_savepoint() -> None:
    script = Script(tolerable_failures=7).start(500)
    script.now(stop_requested(target="somewhere"))
    script.now(events.IdReserved(1))
    script.now(events.EpochCompleted(4, "state", stopped=True))
    script.now(events.UploadCompleted(1))
    script.now(events.MetadataWritten(1, "somewhere/savepoint-1"))
    script.now(events.Published(1))
    said = fail(script, 1, COMMIT_TRIES)
    answer = one(said, CompleteRequest)
    assert answer is not None
    assert answer.checkpoint is None
    assert "the savepoint somewhere/savepoint-1 is complete, but the output" in str(answer.failure)
    assert of(said, FailJob)
    assert not of(said, FinishJob)
    # The job goes on from the savepoint, and so owes the same output.
    recover = one(script.now(events.AttemptFailed("the stop failed")), Recover)
    assert recover is not None
    assert recover.checkpoint is not None
    assert recover.checkpoint.location == "somewhere/savepoint-1"


def test_the_end_of_a_job_does_not_wait_for_ever_and_deletes_nothing() -> None:
    script = owing(retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS)
    script.now(events.SharedFilesReleased())
    said = script.now(events.JobEnded(JobStatus.FAILED))
    assert not of(said, Close)
    said = fail(script, 1, COMMIT_TRIES)
    assert of(said, Close)
    assert not of(script.said, RemovePointers)


@pytest.mark.parametrize("status", [JobStatus.CANCELED, JobStatus.SUSPENDED])
@pytest.mark.parametrize("before", [0, 9])
def test_a_cancelled_job_tries_again_at_once_and_not_for_long(
    status: JobStatus, before: int
) -> None:
    script = owing(tolerable=1, retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS)
    script.now(events.SharedFilesReleased())
    fail(script, 1, before)
    script.now(events.SinkCommitFailed(1, "no such table"))
    tries = of(script.now(events.JobEnded(status)), CommitSinks)
    ended_ms = script.now_ms
    while not of(said := script.now(events.SinkCommitFailed(1, "no such table")), Close):
        while not of(said, CommitSinks):
            said = script.at(script.now_ms + 50)
        tries += of(said, CommitSinks)
    assert script.now_ms - ended_ms < 1_000
    assert len(tries) == 4
    assert not of(script.said, RemovePointers)


def test_a_cancelled_job_tries_its_newest_output_however_often_the_last_one_failed() -> None:
    script = owing(tolerable=1)
    fail(script, 1, 9)
    script.trigger(2, 10**9)
    script.finish(2)
    script.now(events.JobEnded(JobStatus.CANCELED))
    assert not of(script.now(events.SinkCommitFailed(1, "no such table")), Close)
    tried = one(script.at(script.now_ms + 100), CommitSinks)
    assert tried is not None
    assert tried.checkpoint.checkpoint_id == 2


def test_a_cancelled_job_whose_sink_recovers_shows_its_output() -> None:
    script = owing(retention=RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS)
    script.now(events.SharedFilesReleased())
    script.now(events.JobEnded(JobStatus.CANCELED))
    assert not of(script.now(events.SinkCommitFailed(1, "locked")), Close)
    assert of(script.at(script.now_ms + 100), CommitSinks)
    assert of(script.now(events.SinksCommitted(1)), RemovePointers)
