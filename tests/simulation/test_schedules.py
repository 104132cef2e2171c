"""Random schedules: the real coordinator, pointer, counter and registry under one seed each.

`PENSTOCK_SCHEDULES` sets how many are run (10,000 by default). A seed that fails prints itself;
add it to `REGRESSIONS`, with what it found.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from sim_store import RANDOM_FAULTS
from sim_world import World

from penstock.checkpoint.coordination import events, instructions

SCHEDULES = int(os.environ.get("PENSTOCK_SCHEDULES", "10000"))
BLOCK = 1_000

# A seed means a schedule of today's simulator: each finding has a test by hand as well.
REGRESSIONS = {
    2: "attempts that failed while the last checkpoint was under way",
    43: "files of an aborted checkpoint whose metadata arrived late",
    59: "files of an unclaimed snapshot that increments build on, after a second restart",
    1531: "shared files behind an unclaimed snapshot and a savepoint at the end of the job",
    1590: "the same with a slow deletion",
}

NEVER_AFTER_HEALING = {events.PointerRemovalUnknown}
RARE = {events.BacklogChanged, events.TasksFinished}


def kinds_of(base: type, module: object) -> set[type]:
    """Classes of a module that mean something: not the bases they share."""
    kinds = {kind for kind in vars(module).values() if isinstance(kind, type)}
    bases = {parent for kind in kinds for parent in kind.__bases__}
    return {kind for kind in kinds - bases if issubclass(kind, base)}


def run(seed: int) -> World:
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        story = world.driver.coordinator.story()[-30:] if world.driver else []
        raise AssertionError(f"World({seed}).run() fails: {error}\n" + "\n".join(story)) from error
    return world


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seeds_that_failed_once(seed: int) -> None:
    run(seed)


@pytest.mark.simulation
@pytest.mark.parametrize("block", range(0, SCHEDULES, BLOCK))
def test_random_schedules(block: int) -> None:
    seen: Counter[object] = Counter()
    for seed in range(block, min(block + BLOCK, SCHEDULES)):
        seen.update(run(seed).seen)
    # A simulation that never gets anywhere finds nothing: every kind must have happened.
    kinds = kinds_of(events.Event, events) | kinds_of(instructions.Instruction, instructions)
    kinds -= NEVER_AFTER_HEALING | RARE
    unseen = [kind.__name__ for kind in kinds if not seen[kind]]
    assert not unseen, f"schedules {block} and following never reach {sorted(unseen)}"
    assert all(seen[fault] > BLOCK // 5 for fault in RANDOM_FAULTS)


def test_one_seed_is_one_schedule() -> None:
    first, second = World(7), World(7)
    first.run()
    second.run()
    assert first.seen == second.seen
    assert first.now_ms == second.now_ms
    assert first.checks.sunk == second.checks.sunk
