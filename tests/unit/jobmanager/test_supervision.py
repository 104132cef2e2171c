"""What follows from what is seen of a job's process, with times and processes made up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.job import JobStatus
from penstock.jobmanager.job_records import JobRecord
from penstock.jobmanager.restart_strategies import FixedDelay, NoRestart
from penstock.jobmanager.supervision import (
    KILL_AFTER_END_MS,
    JobSupervisor,
    KillDriver,
    Observation,
    StartDriver,
    path_to,
)

JOB = "a" * 32


def said(status: JobStatus, **more: Any) -> JobRecord:
    return JobRecord(job_id=JOB, status=status, attempt=1, **more)


def reporting(status: JobStatus, **more: Any) -> Observation:
    return Observation(is_alive=True, said=said(status, **more))


def ending(status: JobStatus, *, is_alive: bool = True, **more: Any) -> Observation:
    return Observation(is_alive, end=said(status, **more))


ALIVE = Observation(is_alive=True)
RUNNING = reporting(JobStatus.RUNNING)
GONE = Observation(is_alive=False, died_how="by signal 9")


class Watched:
    """A supervisor with a clock that the test moves."""

    def __init__(self, strategy: Any = None, *, is_recovered: bool = False, **record: Any) -> None:
        self.now_ms = 0
        self._wall_ms = 1_000_000
        self.supervisor = JobSupervisor(
            JobRecord(job_id=JOB, **record),
            strategy=lambda: strategy or NoRestart(),
            cancellation_timeout_ms=lambda: 180_000,
            wall_ahead_ms=1_000_000,
        )
        if is_recovered:
            self.supervisor.recover(1_000_000)
        self._history = [self.status.name]

    def see(self, seen: Observation, after_ms: int = 0) -> list[Any]:
        self.now_ms += after_ms
        self._wall_ms += 1
        before = self.record.timestamps
        found = self.supervisor.observe(seen, self.now_ms, self._wall_ms, 0.5)
        times = self.record.timestamps.items()
        self._history += [state.name for state, at in times if before.get(state) != at]
        return found

    def cancel(self) -> None:
        self.supervisor.record = replace(self.record, cancel_requested_ms=1)

    @property
    def record(self) -> JobRecord:
        return self.supervisor.record

    @property
    def status(self) -> JobStatus:
        return self.record.status

    @property
    def ended(self) -> tuple[str, int] | None:
        """How the job ended, and whether the job manager has to clean up."""
        return (self.status.name, self.record.leftover) if self.supervisor.has_ended else None

    def states(self) -> list[str]:
        return self._history


def test_a_job_runs_and_finishes() -> None:
    job = Watched()
    assert job.see(GONE) == [StartDriver(None)]
    assert job.record.attempt == 1
    assert job.see(ALIVE) == []
    assert job.status is JobStatus.CREATED
    assert job.see(RUNNING) == []
    assert job.ended is None
    assert job.see(ending(JobStatus.FINISHED)) == []
    assert job.ended == ("FINISHED", 0)
    assert job.states() == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]
    assert job.see(GONE) == []


def test_a_short_job_may_end_between_two_looks() -> None:
    job = Watched()
    job.see(GONE)
    assert job.see(ending(JobStatus.FINISHED, is_alive=False)) == []
    assert job.ended == ("FINISHED", 0)
    assert job.states() == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]


def test_a_program_that_fails_is_not_started_again() -> None:
    """The driver has asked the restart strategy already."""
    job = Watched(FixedDelay(5, 10))
    job.see(GONE)
    failed = ending(
        JobStatus.FAILED, is_alive=False, error="ValueError: no", error_type="ValueError"
    )
    assert job.see(failed) == []
    assert job.ended == ("FAILED", 0)
    assert (job.record.error, job.record.error_type) == ("ValueError: no", "ValueError")


def test_a_process_that_died_is_started_again_after_the_delay() -> None:
    job = Watched(FixedDelay(1, 500))
    job.see(GONE)
    job.see(RUNNING)
    assert job.see(GONE) == []
    assert job.status is JobStatus.RESTARTING
    assert job.see(GONE, after_ms=499) == []
    assert job.see(GONE, after_ms=1) == [StartDriver("The job's process ended by signal 9.")]
    assert job.status is JobStatus.CREATED
    assert (job.record.attempt, job.record.restarts) == (2, 1)
    job.see(RUNNING)
    assert job.see(GONE) == []
    assert job.ended == ("FAILED", 1)
    assert "by signal 9" in str(job.record.error)
    assert "fixed-delay.attempts" in str(job.record.error)


def test_without_a_restart_strategy_the_first_death_is_the_end() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    assert job.see(GONE) == []
    assert job.ended == ("FAILED", 1)
    assert job.states()[-3:] == ["RUNNING", "FAILING", "FAILED"]


def test_restarts_within_the_process_are_seen_even_between_two_looks() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.see(reporting(JobStatus.RUNNING, restarts=1))
    assert job.states()[-5:] == ["RUNNING", "FAILING", "RESTARTING", "CREATED", "RUNNING"]
    job.see(reporting(JobStatus.RESTARTING, restarts=2))
    assert job.status is JobStatus.RESTARTING
    job.see(reporting(JobStatus.RUNNING, restarts=2))
    assert job.states().count("RESTARTING") == 2


def test_a_cancelled_job_ends_when_its_driver_says_so() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.cancel()
    assert job.see(RUNNING) == []
    assert job.status is JobStatus.CANCELLING
    assert job.see(ending(JobStatus.CANCELED)) == []
    assert job.ended == ("CANCELED", 0)


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.FAILED])
def test_what_ends_while_it_is_cancelled_is_cancelled(status: JobStatus) -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.cancel()
    job.see(ending(status))
    assert job.ended == ("CANCELED", 1)


def test_a_driver_that_does_not_obey_is_killed_after_the_timeout() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.cancel()
    assert job.see(RUNNING) == []
    assert job.see(RUNNING, after_ms=179_999) == []
    (kill,) = job.see(RUNNING, after_ms=1)
    assert isinstance(kill, KillDriver)
    assert "180 s" in kill.reason
    assert job.see(GONE) == []
    assert job.ended == ("CANCELED", 1)


def test_a_cancelled_job_never_starts_again() -> None:
    waiting = Watched(FixedDelay(9, 500))
    waiting.see(GONE)
    waiting.see(GONE)
    assert waiting.status is JobStatus.RESTARTING
    waiting.cancel()
    assert waiting.see(GONE, after_ms=10_000) == []
    assert waiting.ended == ("CANCELED", 1)

    never_started = Watched(cancel_requested_ms=1)
    assert never_started.see(GONE) == []
    assert never_started.ended == ("CANCELED", 0)

    found_again = Watched(FixedDelay(9, 500), attempt=1, is_recovered=True, cancel_requested_ms=1)
    assert found_again.see(GONE) == []
    assert found_again.ended == ("CANCELED", 1)


def test_a_new_job_manager_takes_over_what_lives_and_starts_what_died() -> None:
    living = Watched(attempt=3, is_recovered=True)
    # It has been running all the time, after restarts that were seen before.
    running = reporting(JobStatus.RUNNING, changed_ms=777, restarts=2)
    assert living.see(running) == []
    assert living.see(running) == []
    assert living.states() == ["RECONCILING", "RUNNING"]
    assert living.record.timestamps[JobStatus.RUNNING] == 777
    # From now on a death counts.
    assert living.see(GONE) == []
    assert living.ended == ("FAILED", 1)

    dead = Watched(attempt=3, is_recovered=True)
    (start,) = dead.see(GONE)
    assert isinstance(start, StartDriver)
    assert "no job manager looked" in str(start.previous_death)
    assert dead.record.attempt == 4
    assert dead.states() == ["RECONCILING", "CREATED"]


def test_an_ending_that_came_without_a_job_manager_counts() -> None:
    job = Watched(attempt=1, is_recovered=True)
    assert job.see(ending(JobStatus.FINISHED, is_alive=False, ended_ms=888)) == []
    assert job.ended == ("FINISHED", 0)
    assert job.states() == ["RECONCILING", "FINISHED"]
    assert job.record.timestamps[JobStatus.FINISHED] == job.record.ended_ms == 888


def test_a_fenced_driver_ends_the_job_for_this_manager_only() -> None:
    job = Watched(FixedDelay(9, 500))
    job.see(GONE)
    job.see(RUNNING)
    assert job.see(ending(JobStatus.SUSPENDED, error="another leader")) == []
    assert job.ended == ("SUSPENDED", 0)


def test_a_process_that_lingers_after_its_end_is_killed() -> None:
    job = Watched()
    job.see(GONE)
    ended = ending(JobStatus.FINISHED)
    job.see(ended)
    assert job.see(ended, after_ms=KILL_AFTER_END_MS - 1) == []
    (kill,) = job.see(ended, after_ms=1)
    assert isinstance(kill, KillDriver)


def test_ways_between_states_are_the_shortest_legal_ones() -> None:
    assert path_to(JobStatus.RUNNING, JobStatus.RUNNING) == []
    assert path_to(JobStatus.RUNNING, JobStatus.RESTARTING) == [
        JobStatus.FAILING,
        JobStatus.RESTARTING,
    ]
    assert path_to(JobStatus.CANCELLING, JobStatus.FINISHED) == []
    assert path_to(JobStatus.CANCELED, JobStatus.RUNNING) == []
