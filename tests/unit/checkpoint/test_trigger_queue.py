"""The queue of requests: order and limit."""

from __future__ import annotations

import random

import pytest

from penstock.checkpoint.coordination.checkpoints import SnapshotKind, TriggerRequest
from penstock.checkpoint.coordination.instructions import DeclineTrigger
from penstock.checkpoint.coordination.triggering import Triggering
from penstock.checkpoint.settings import CheckpointSettings

CHECKPOINT, SAVEPOINT = SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT


def triggering(limit: int = 1_000) -> Triggering:
    return Triggering(CheckpointSettings(interval_ms=1_000, max_queued_requests=limit))


def user(number: int, arrived_ms: int = 0) -> TriggerRequest:
    return TriggerRequest(number, arrived_ms, CHECKPOINT, f"user-{number}")


def savepoint(number: int, arrived_ms: int = 0) -> TriggerRequest:
    return TriggerRequest(number, arrived_ms, SAVEPOINT, f"savepoint-{number}")


def periodic(number: int, arrived_ms: int = 0) -> TriggerRequest:
    return TriggerRequest(number, arrived_ms)


IN_ORDER = [
    savepoint(6, 10),
    savepoint(7, 20),
    user(3, 1),
    user(2, 5),
    user(4, 5),
    user(5, 30),
    periodic(1, 0),
]


@pytest.mark.parametrize("seed", range(20))
def test_order(seed: int) -> None:
    arrivals = IN_ORDER.copy()
    random.Random(seed).shuffle(arrivals)
    queue = triggering()
    for request in arrivals:
        assert queue.add(request) is None
    left = [queue.choose(0, pending=0, deleting=0) for _ in arrivals]
    assert left == IN_ORDER
    assert queue.choose(0, pending=0, deleting=0) is None


def test_when_full_the_periodic_request_gives_way() -> None:
    queue = triggering(limit=3)
    for request in (periodic(1), user(2), user(3)):
        assert queue.add(request) is None
    declined = queue.add(savepoint(4))
    assert declined is not None
    assert declined.request == periodic(1)
    assert declined.failure.reason.name == "TOO_MANY_CHECKPOINT_REQUESTS"
    assert len(queue.queue) == 3
    # The timetable goes on.
    assert queue.next_periodic_ms == 1_000


def test_when_full_of_users_requests_the_new_one_fails() -> None:
    queue = triggering(limit=2)
    assert queue.add(user(1)) is None
    assert queue.add(user(2)) is None
    declined = queue.add(savepoint(3))
    assert declined is not None
    assert declined.request == savepoint(3)
    assert queue.queue == [user(1), user(2)]


def test_the_limit_is_a_thousand() -> None:
    queue = triggering()
    assert all(queue.add(user(number)) is None for number in range(1_000))
    assert queue.add(user(1_000)) is not None


@pytest.mark.parametrize(
    ("request_", "pending", "deleting", "is_chosen"),
    [
        (periodic(1), 0, 0, True),
        (periodic(1), 1, 0, False),
        (user(1), 1, 0, True),
        (savepoint(1), 5, 0, True),
        (user(1), 0, 1, True),
        (user(1), 0, 2, False),
        (savepoint(1), 0, 2, False),
    ],
)
def test_room(request_: TriggerRequest, pending: int, deleting: int, is_chosen: bool) -> None:
    queue = triggering()
    queue.add(request_)
    chosen = queue.choose(0, pending=pending, deleting=deleting)
    assert (chosen == request_) is is_chosen


@pytest.mark.parametrize(("since_ms", "is_early"), [(499, True), (500, False), (501, False)])
def test_pause(since_ms: int, is_early: bool) -> None:
    queue = Triggering(CheckpointSettings(interval_ms=1_000, min_pause_ms=500))
    queue.last_completion_ms = 10_000
    queue.add(periodic(1))
    chosen = queue.choose(10_000 + since_ms, pending=0, deleting=0)
    assert isinstance(chosen, DeclineTrigger) is is_early
    expected = 10_500 if is_early else 10_000 + since_ms + 1_000
    assert queue.next_periodic_ms == expected
