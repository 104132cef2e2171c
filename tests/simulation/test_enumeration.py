"""Every storage call fails once, in every way; the driver dies at every step and at every call."""

from __future__ import annotations

import pytest
from sim_store import Fault
from sim_world import Odds, World

from penstock.checkpoint.coordination import events

SCENARIOS = [(how, full) for how in ("finish", "stop", "cancel") for full in (False, True)]
OUTAGE_CALLS = 8


def scenario(how: str, full: bool, **trouble: object) -> World:
    world = World(odds=Odds(), how=how, incremental=not full, **trouble)  # type: ignore[arg-type]
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"{how}, full={full}, {trouble}: {error}") from error
    return world


@pytest.fixture(params=SCENARIOS, ids=lambda case: f"{case[0]}-{'full' if case[1] else 'incr'}")
def case(request: pytest.FixtureRequest) -> tuple[str, bool]:
    return request.param


def test_undisturbed(case: tuple[str, bool]) -> None:
    world = scenario(*case)
    assert len(world.checks.published) >= 3
    assert world.store.calls > 80
    assert world.leader_epoch == 1


@pytest.mark.simulation
@pytest.mark.parametrize("fault", Fault)
def test_each_call_fails_once(case: tuple[str, bool], fault: Fault) -> None:
    hit = 0
    for call in range(1, scenario(*case).store.calls + 1):
        hit += scenario(*case, faults={call: fault}).seen[fault]
    assert hit > 80


@pytest.mark.simulation
@pytest.mark.parametrize("fault", [Fault.FAILED, Fault.LOST_REPLY])
def test_outage_from_each_call_on(case: tuple[str, bool], fault: Fault) -> None:
    seen = 0
    for call in range(1, scenario(*case).store.calls + 1):
        faults = dict.fromkeys(range(call, call + OUTAGE_CALLS), fault)
        world = scenario(*case, faults=faults)
        seen += world.seen[events.PointerRemovalUnknown]
    if case[0] != "stop" and fault is Fault.LOST_REPLY:
        assert seen, "the removal of the pointers was never in doubt"


@pytest.mark.simulation
def test_crash_after_each_step(case: tuple[str, bool]) -> None:
    crashes = 0
    for step in range(1, scenario(*case).steps + 1):
        crashes += scenario(*case, crash_after_step=step).leader_epoch - 1
    assert crashes > 50
