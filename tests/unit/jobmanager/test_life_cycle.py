"""The life of a job: which state may follow which."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.job import JobStatus
from penstock.jobmanager.supervision import TRANSITIONS, IllegalTransitionError, JobLifeCycle

S = JobStatus
RUNS_AGAIN = {S.CREATED, S.RUNNING, S.RESTARTING, S.FAILING, S.INITIALIZING, S.RECONCILING}


def lived(*states: JobStatus) -> JobLifeCycle:
    life = JobLifeCycle(0)
    for time_ms, state in enumerate(states, start=1):
        life.move(state, 100 * time_ms)
    return life


def reachable(start: JobStatus) -> set[JobStatus]:
    found: set[JobStatus] = set()
    waiting = [start]
    while waiting:
        for state in TRANSITIONS[waiting.pop()] - found:
            found.add(state)
            waiting.append(state)
    return found


@pytest.mark.parametrize(
    "states",
    [
        (S.CREATED, S.RUNNING, S.FINISHED),
        (S.CREATED, S.RUNNING, S.FAILING, S.RESTARTING, S.CREATED, S.RUNNING, S.FINISHED),
        (S.CREATED, S.RUNNING, S.FAILING, S.FAILED),
        (S.CREATED, S.RUNNING, S.CANCELLING, S.CANCELED),
        (S.CREATED, S.RUNNING, S.FAILING, S.RESTARTING, S.CANCELLING, S.CANCELED),
        (S.CREATED, S.CANCELLING, S.CANCELED),
        (S.FAILED,),
        (S.RECONCILING, S.CREATED, S.RUNNING, S.SUSPENDED),
    ],
)
def test_lives(states: tuple[JobStatus, ...]) -> None:
    assert lived(*states).status is states[-1]


def test_a_cancelled_job_never_runs_again() -> None:
    assert reachable(S.CANCELLING) == {S.CANCELED, S.SUSPENDED}
    for state in (S.CANCELED, S.FAILED, S.FINISHED, S.SUSPENDED):
        assert reachable(state) == set()


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(JobStatus)
    assert reachable(S.INITIALIZING) == set(JobStatus) - {S.INITIALIZING}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pair
        for pair in itertools.product(JobStatus, repeat=2)
        if pair[1] not in TRANSITIONS[pair[0]]
    ],
)
def test_anything_else_crashes(before: JobStatus, after: JobStatus) -> None:
    life = JobLifeCycle(0, before)
    assert not life.may_move(after)
    with pytest.raises(IllegalTransitionError, match=f"from {before.name} to {after.name}"):
        life.move(after, 1)
    assert life.status is before


def test_times() -> None:
    life = lived(S.CREATED, S.RUNNING, S.FAILING, S.RESTARTING, S.CREATED, S.RUNNING)
    assert life.entered[S.INITIALIZING] == 0
    assert life.entered[S.CREATED] == 500
    assert life.entered[S.RUNNING] == 600
    assert S.FINISHED not in life.entered
