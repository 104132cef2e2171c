"""The bound of an epoch on machines with noise, load, folds, pauses and functions that change.

A machine takes `price + fixed + cost * records`, times its load and some noise. The best bound is
known to the test, and not to the decider: with it, records get what price and fixed part leave of
the target, half of the target at least.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from penstock.runtime.admission import LARGEST, Admission

TARGET_MS = 1_000
EPOCHS = 40
FOLD_MS = 200
LEARNING = 5
"""Epochs after a change of the machine that are not judged."""


@dataclass(frozen=True)
class Phase:
    """What a machine did between two changes."""

    rate: float  # Of the best bound's rate.
    within: float  # Share of the epochs that took at most twice what the best one takes.


def phases(seed: int, decide: Callable[..., Admission], levels: int = 1) -> Iterator[Phase]:
    """Runs a job on a machine that changes five times."""
    rng = random.Random(seed)
    price, fixed = rng.choice([60, 150, 300, 700]), rng.choice([0, 20, 100, 200])
    noise, folds = rng.choice([0.05, 0.1, 0.2]), rng.choice([0, 0.15, 0.5])
    pauses, spikes, lulls = (rng.choice(each) for each in ((0, 0.15), (0, 0.05), (0, 0.05)))
    cost = 10 ** rng.uniform(-3.3, 3.3)  # From 2 million records a second to one in 2 seconds.
    admission = Admission(target_ms=TARGET_MS).before(levels)
    for number in range(6):
        load = rng.choice([1, 1, 1.5, 3])
        if number:
            cost = min(max(cost * rng.choice([1, 1, 10, 0.1, 3, 0.3]), 2e-4), 3_000)
        if rng.random() < 0.2:
            admission = Admission(target_ms=TARGET_MS).before(levels)
        rest, each = (price + fixed + FOLD_MS * folds) * load, cost * load
        best = min(max(max(TARGET_MS - rest, TARGET_MS / 2) / each, 1), LARGEST)
        best_ms = rest + each * best
        records = spent_ms = within = 0.0
        for epoch in range(EPOCHS):
            bound = admission.max_records
            work_ms = (fixed + cost * bound) * load * max(0.3, rng.gauss(1, noise))
            if rng.random() < spikes:
                work_ms *= 3
            # Where other programs pause, a loaded machine is fast for a moment.
            if rng.random() < lulls:
                work_ms *= 0.12
            own_ms = price * load * max(0.3, rng.gauss(1, noise))
            # A slice of a fold is work of a subtask; what the driver does now and then is not.
            work_ms += FOLD_MS * load if rng.random() < folds else 0
            pause_ms = 3_000 if rng.random() < pauses else 0
            admission = decide(admission, bound, work_ms + own_ms + pause_ms, work_ms)
            if epoch >= LEARNING:
                records += bound
                spent_ms += rest + each * bound
                within += rest + each * bound <= 2 * best_ms
        yield Phase(records / spent_ms * best_ms / best, within / (EPOCHS - LEARNING))


def fitted(admission: Admission, records: int, duration_ms: float, work_ms: float) -> Admission:
    return admission.after_epoch(records, duration_ms, work_ms, backlog=True, cut_short=False)


def proportional(
    admission: Admission, records: int, duration_ms: float, work_ms: float
) -> Admission:
    """The decider without a line: all of an epoch is taken as proportional to its records."""
    bound = int(records * min(max(TARGET_MS / duration_ms, 0.25), 4.0))
    return Admission(target_ms=TARGET_MS, max_records=min(max(bound, 1), LARGEST))


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_rate_and_duration_stay_near_the_best(first_seed: int) -> None:
    seen = [phase for seed in range(first_seed, first_seed + 50) for phase in phases(seed, fitted)]
    assert sum(phase.rate >= 0.8 for phase in seen) >= 0.96 * len(seen)
    assert sum(phase.rate < 0.4 for phase in seen) <= 0.01 * len(seen)
    assert sum(phase.within for phase in seen) >= 0.985 * len(seen)
    assert min(phase.within for phase in seen) >= 0.5


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_so_they_do_behind_an_exchange(first_seed: int) -> None:
    """From four records on it takes longer to find out that a fold is no work on them."""
    seeds = range(first_seed, first_seed + 50)
    seen = [phase for seed in seeds for phase in phases(seed, fitted, levels=2)]
    assert sum(phase.rate >= 0.8 for phase in seen) >= 0.95 * len(seen)
    assert sum(phase.rate < 0.4 for phase in seen) <= 0.02 * len(seen)
    assert sum(phase.within for phase in seen) >= 0.985 * len(seen)
    assert min(phase.within for phase in seen) >= 0.5


def test_work_that_is_taken_as_proportional_falls_behind() -> None:
    seen = [phase for seed in range(50) for phase in phases(seed, proportional)]
    assert sum(phase.rate >= 0.8 for phase in seen) < 0.7 * len(seen)
