"""The life of a job: which state may follow which."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.job import JobStatus
from penstock.jobmanager.supervision import TRANSITIONS, path_to

S = JobStatus
RUNS_AGAIN = {S.CREATED, S.RUNNING, S.RESTARTING, S.FAILING, S.INITIALIZING, S.RECONCILING}


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
    for before, after in itertools.pairwise((S.INITIALIZING, *states)):
        assert path_to(before, after) == [after]


def test_a_cancelled_job_never_runs_again() -> None:
    assert reachable(S.CANCELLING) == {S.CANCELED, S.SUSPENDED}
    for state in (S.CANCELED, S.FAILED, S.FINISHED, S.SUSPENDED):
        assert reachable(state) == set()


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(JobStatus)
    assert reachable(S.INITIALIZING) == set(JobStatus) - {S.INITIALIZING}


def test_ways_lead_only_over_legal_steps() -> None:
    for before, after in itertools.product(JobStatus, repeat=2):
        way = path_to(before, after)
        assert bool(way) == (after in reachable(before) and after is not before)
        assert all(then in TRANSITIONS[first] for first, then in itertools.pairwise([before, *way]))
        assert not way or way[-1] is after
