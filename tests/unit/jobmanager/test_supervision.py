"""What follows from what is seen of a job's process, with times and processes made up."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.job import JobStatus
from penstock.jobmanager.restart_strategies import FixedDelay, NoRestart
from penstock.jobmanager.supervision import (
    KILL_AFTER_END_MS,
    Ending,
    EndJob,
    JobLifeCycle,
    JobSupervisor,
    KillDriver,
    Observation,
    StartDriver,
    path_to,
)

ALIVE = Observation(is_alive=True)
RUNNING = Observation(is_alive=True, reported=JobStatus.RUNNING)
GONE = Observation(is_alive=False, died_how="by signal 9")
UNCLEAN = Ending(JobStatus.CANCELED, is_left_to_us=True)
"""Nobody is left to clean up but the job manager."""


class Watched:
    """A supervisor with a clock that the test moves."""

    def __init__(self, strategy: Any = None, **settings: Any) -> None:
        status = settings.pop("status", JobStatus.INITIALIZING)
        self.now_ms = 0
        self.supervisor = JobSupervisor(
            JobLifeCycle(0, status),
            strategy=lambda: strategy or NoRestart(),
            cancellation_timeout_ms=lambda: 180_000,
            **settings,
        )

    def see(self, seen: Observation, after_ms: int = 0) -> list[Any]:
        self.now_ms += after_ms
        return self.supervisor.observe(seen, self.now_ms, 1_000_000 + self.now_ms, 0.5)

    @property
    def status(self) -> JobStatus:
        return self.supervisor.life.status

    def states(self) -> list[str]:
        return [line.split()[1] for line in self.supervisor.life.story()]


def test_a_job_runs_and_finishes() -> None:
    job = Watched()
    assert job.see(GONE) == [StartDriver(1)]
    assert job.see(ALIVE) == []
    assert job.status is JobStatus.CREATED
    assert job.see(RUNNING) == []
    ending = Ending(JobStatus.FINISHED)
    assert job.see(Observation(is_alive=True, ending=ending)) == [EndJob(ending)]
    assert job.states() == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]
    assert job.see(GONE) == []


def test_a_short_job_may_end_between_two_looks() -> None:
    job = Watched()
    job.see(GONE)
    ending = Ending(JobStatus.FINISHED)
    assert job.see(Observation(is_alive=False, ending=ending)) == [EndJob(ending)]
    assert job.states() == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]


def test_a_program_that_fails_is_not_started_again() -> None:
    """The driver has asked the restart strategy already."""
    job = Watched(FixedDelay(5, 10))
    job.see(GONE)
    ending = Ending(JobStatus.FAILED, "ValueError: no", "ValueError")
    assert job.see(Observation(is_alive=False, ending=ending)) == [EndJob(ending)]
    assert job.status is JobStatus.FAILED


def test_a_process_that_died_is_started_again_after_the_delay() -> None:
    job = Watched(FixedDelay(1, 500))
    job.see(GONE)
    job.see(RUNNING)
    assert job.see(GONE) == []
    assert job.status is JobStatus.RESTARTING
    assert job.see(GONE, after_ms=499) == []
    assert job.see(GONE, after_ms=1) == [StartDriver(2)]
    assert job.status is JobStatus.CREATED
    assert job.supervisor.process_restarts == 1
    job.see(RUNNING)
    (end,) = job.see(GONE)
    assert isinstance(end, EndJob)
    assert end.ending.status is JobStatus.FAILED
    assert "by signal 9" in str(end.ending.error)
    assert "fixed-delay.attempts" in str(end.ending.error)


def test_without_a_restart_strategy_the_first_death_is_the_end() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    (end,) = job.see(GONE)
    assert end.ending.status is JobStatus.FAILED
    assert job.states()[-3:] == ["RUNNING", "FAILING", "FAILED"]


def test_restarts_within_the_process_are_seen_even_between_two_looks() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.see(Observation(is_alive=True, reported=JobStatus.RUNNING, restarts=1))
    assert job.states()[-5:] == ["RUNNING", "FAILING", "RESTARTING", "CREATED", "RUNNING"]
    job.see(Observation(is_alive=True, reported=JobStatus.RESTARTING, restarts=2))
    assert job.status is JobStatus.RESTARTING
    job.see(Observation(is_alive=True, reported=JobStatus.RUNNING, restarts=2))
    assert job.states().count("RESTARTING") == 2


def test_a_cancelled_job_ends_when_its_driver_says_so() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.supervisor.cancel()
    assert job.see(RUNNING) == []
    assert job.status is JobStatus.CANCELLING
    (end,) = job.see(Observation(is_alive=True, ending=Ending(JobStatus.CANCELED)))
    assert end == EndJob(Ending(JobStatus.CANCELED))


@pytest.mark.parametrize("said", [JobStatus.FINISHED, JobStatus.FAILED])
def test_what_ends_while_it_is_cancelled_is_cancelled(said: JobStatus) -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.supervisor.cancel()
    job.see(Observation(is_alive=True, ending=Ending(said)))
    assert job.status is JobStatus.CANCELED


def test_a_driver_that_does_not_obey_is_killed_after_the_timeout() -> None:
    job = Watched()
    job.see(GONE)
    job.see(RUNNING)
    job.supervisor.cancel()
    assert job.see(RUNNING) == []
    assert job.see(RUNNING, after_ms=179_999) == []
    (kill,) = job.see(RUNNING, after_ms=1)
    assert isinstance(kill, KillDriver)
    assert "180 s" in kill.reason
    assert job.see(GONE) == [EndJob(UNCLEAN)]


def test_a_cancelled_job_never_starts_again() -> None:
    waiting = Watched(FixedDelay(9, 500))
    waiting.see(GONE)
    waiting.see(GONE)
    assert waiting.status is JobStatus.RESTARTING
    waiting.supervisor.cancel()
    assert waiting.see(GONE, after_ms=10_000) == [EndJob(UNCLEAN)]

    never_started = Watched(cancel_requested=True)
    assert never_started.see(GONE) == [EndJob(UNCLEAN)]

    found_again = Watched(
        FixedDelay(9, 500),
        status=JobStatus.RECONCILING,
        attempt=1,
        is_recovered=True,
        cancel_requested=True,
    )
    assert found_again.see(GONE) == [EndJob(UNCLEAN)]


def test_a_new_job_manager_takes_over_what_lives_and_starts_what_died() -> None:
    living = Watched(status=JobStatus.RECONCILING, attempt=3, is_recovered=True)
    # It has been running all the time, after restarts that were seen before.
    running = Observation(is_alive=True, reported=JobStatus.RUNNING, reported_ms=777, restarts=2)
    assert living.see(running) == []
    assert living.see(running) == []
    assert living.states() == ["RECONCILING", "RUNNING"]
    assert living.supervisor.life.entered[JobStatus.RUNNING] == 777
    # From now on a death counts.
    (end,) = living.see(GONE)
    assert end.ending.status is JobStatus.FAILED

    dead = Watched(status=JobStatus.RECONCILING, attempt=3, is_recovered=True)
    assert dead.see(GONE) == [StartDriver(4)]
    assert dead.states() == ["RECONCILING", "CREATED"]


def test_an_ending_that_came_without_a_job_manager_counts() -> None:
    job = Watched(status=JobStatus.RECONCILING, attempt=1, is_recovered=True)
    ending = Ending(JobStatus.FINISHED, ended_ms=888)
    assert job.see(Observation(is_alive=False, ending=ending)) == [EndJob(ending)]
    assert job.states() == ["RECONCILING", "FINISHED"]
    assert job.supervisor.life.entered[JobStatus.FINISHED] == 888


def test_a_fenced_driver_ends_the_job_for_this_manager_only() -> None:
    job = Watched(FixedDelay(9, 500))
    job.see(GONE)
    job.see(RUNNING)
    ending = Ending(JobStatus.SUSPENDED, "another leader")
    assert job.see(Observation(is_alive=True, ending=ending)) == [EndJob(ending)]
    assert job.status is JobStatus.SUSPENDED


def test_a_process_that_lingers_after_its_end_is_killed() -> None:
    job = Watched()
    job.see(GONE)
    ended = Observation(is_alive=True, ending=Ending(JobStatus.FINISHED))
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
