"""How many records an epoch may read, against figures worked out by hand."""

from __future__ import annotations

import pytest

from penstock.runtime.admission import LARGEST, SMALLEST, Admission

START = Admission(target_ms=1_000, max_records=50_000)


@pytest.mark.parametrize(
    ("duration_ms", "work_ms", "expected"),
    [
        # 200 ms are the price of the epoch, so 800 remain for work: twice what this one did.
        (600, 400, 100_000),
        # The first epoch of a session: nearly all of it is start-up, and the bound still grows.
        (3_400, 500, 50_000),
        # On a busy machine the price alone exceeds the target; half of it is kept for work.
        (2_000, 250, 100_000),
        (2_000, 1_000, 25_000),
        # At most fourfold either way.
        (110, 10, 200_000),
        (9_000, 9_000, 12_500),
    ],
)
def test_bound_under_backlog(duration_ms: float, work_ms: float, expected: int) -> None:
    after = START.after_epoch(50_000, duration_ms, work_ms, backlog=True)
    assert after.max_records == expected


def test_a_live_job_keeps_its_bound() -> None:
    assert START.after_epoch(50_000, 5_000, 5_000, backlog=False) is START
    assert START.after_epoch(24_999, 5_000, 5_000, backlog=True) is START


def test_limits() -> None:
    largest = Admission(max_records=LARGEST).after_epoch(LARGEST, 10, 1, backlog=True)
    assert largest.max_records == LARGEST
    smallest = Admission(max_records=SMALLEST).after_epoch(SMALLEST, 9_000, 9_000, backlog=True)
    assert smallest.max_records == SMALLEST
    bounded = Admission(max_records=500, ceiling=600).after_epoch(500, 10, 1, backlog=True)
    assert bounded.max_records == 600
