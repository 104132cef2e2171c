"""Elections under random schedules: one leader an epoch, one at a time, and one in the end.

`PENSTOCK_SCHEDULES` sets how many seeds are run. A seed that fails prints itself.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from sim_election import FAULTS, TIMES, World

from penstock.core.versioned import Committed, RecordVersion, VersionedRecord, encode_record
from penstock.jobmanager.high_availability import election
from penstock.jobmanager.high_availability.election import Election, LeaseTimes

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULES = int(os.environ.get("PENSTOCK_SCHEDULES", "10000")) // 5
BLOCK = 500
POLL_AND_WAY_MS = 1_000

Patch = pytest.MonkeyPatch


def run(seed: int) -> World:
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"World({seed}).run() fails: {error}") from error
    return world


@pytest.mark.simulation
@pytest.mark.parametrize("block", range(0, SCHEDULES, BLOCK))
def test_random_elections(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block, min(block + BLOCK, SCHEDULES)):
        seen.update(run(seed).seen)
    # A simulation in which nothing happens finds nothing.
    assert not [fault for fault in FAULTS if seen[fault] < BLOCK // 10], seen
    assert seen["granted"] > 2 * BLOCK
    assert seen["revoked"] > BLOCK
    assert seen["worked"] > 20 * BLOCK
    assert seen["fenced"] > 10, "no late write of an old leader was ever tried"


def test_one_seed_is_one_election() -> None:
    first, second = run(11), run(11)
    assert first.seen == second.seen
    assert first.epochs == second.epochs


@pytest.mark.parametrize("seed", range(50))
def test_takeover_takes_a_lease_and_a_second(seed: int) -> None:
    """The leader dies at a random moment; somebody leads within the lease and a second."""
    world = World(seed, has_faults=False)
    died_ms = 10_000 + world.chance.randrange(5_000)
    world.run(died_ms)
    (leader,) = world.leaders()
    leader.is_dead = True
    world.processes.remove(leader)
    # The timeout is measured by a clock that may be slow.
    slowest = min(process.speed for process in world.processes)
    limit_ms = died_ms + int(TIMES.timeout_ms / slowest) + POLL_AND_WAY_MS
    world.run(limit_ms)
    assert len(world.leaders()) == 1
    assert len(world.epochs) == 2
    # And nobody was hasty: a living leader's lease would have been renewed by then.
    hasty = World(seed, has_faults=False)
    hasty.run(died_ms + TIMES.renew_ms)
    assert len(hasty.epochs) == 1


# -- builds that are broken on purpose --------------------------------------------------------


def never_steps_down(patch: Patch) -> None:
    patch.setattr(LeaseTimes, "step_down_ms", property(lambda self: 10 * self.timeout_ms))


def counts_from_the_answer(patch: Patch) -> None:
    original = Election._on_confirmed

    def broken(self: Any, event: Any, current: Any, claimed: Any) -> Any:
        late = type(event)(event.now_ms, event.now_ms, event.outcome)
        return original(self, late, current, claimed)

    patch.setattr(Election, "_on_confirmed", broken)


def asks_only_the_tick(patch: Patch) -> None:
    patch.setattr(Election, "leading_epoch", lambda self, _now: self._epoch)


def same_epoch_again(patch: Patch) -> None:
    original = Election._on_read

    def broken(self: Any, now_ms: int, current: Any) -> Any:
        found = original(self, now_ms, current)
        if self._claimed is not None and self._claimed > 1:
            self._claimed -= 1
            write = found[-1]
            wrong = election.WriteLease(write.expected, write.value, self._claimed, write.write_id)
            return [*found[:-1], wrong]
        return found

    patch.setattr(Election, "_on_read", broken)


def impatient(patch: Patch) -> None:
    patch.setattr(
        Election,
        "_takeover_ms",
        lambda self, _lease: self._seen_since_ms + self.times.timeout_ms // 5,
    )


def lease_without_compare(patch: Patch) -> None:
    def broken(
        self: Any, expected: Any, value: bytes, *, leader_epoch: int, write_id: str
    ) -> Committed:
        version = 1 if expected is None else expected.version + 1
        record = RecordVersion(version, leader_epoch, write_id, value)
        self._store.versions.append(encode_record(record))
        return Committed(record)

    patch.setattr(VersionedRecord, "compare_and_set", broken)


BREAKS = [
    never_steps_down,
    counts_from_the_answer,
    asks_only_the_tick,
    same_epoch_again,
    impatient,
    lease_without_compare,
]


@pytest.mark.simulation
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_broken_election_is_caught(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    for seed in range(SCHEDULES):
        try:
            World(seed).run()
        except AssertionError:
            return
    pytest.fail(f"{SCHEDULES} schedules did not notice {broken.__name__}")
