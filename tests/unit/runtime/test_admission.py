"""How many records an epoch may read, against figures worked out by hand."""

from __future__ import annotations

from penstock.runtime.admission import FIRST, FIRST_BEHIND, LARGEST, Admission

PRICE_MS = 200.0


def after(
    admission: Admission, cost_ms: float, *, epochs: int = 1, fixed_ms: float = 0.0
) -> Admission:
    """Returns what follows epochs under backlog on a machine without noise."""
    for _ in range(epochs):
        work = fixed_ms + cost_ms * admission.max_records
        admission = under_backlog(admission, work)
    return admission


def under_backlog(admission: Admission, work_ms: float, price_ms: float = PRICE_MS) -> Admission:
    return admission.after_epoch(
        admission.max_records, work_ms + price_ms, work_ms, backlog=True, cut_short=False
    )


def test_the_first_epoch_is_small_and_the_next_ones_grow() -> None:
    assert Admission().max_records == FIRST == 100
    # What starts processes is not the price of an epoch: 1,000 ms / 1 ms.
    first = under_backlog(Admission(), 100, price_ms=4_000)
    assert first.max_records == 1_000
    # At most sixteenfold.
    assert under_backlog(Admission(), 1).max_records == 1_600


def test_a_job_with_an_exchange_begins_with_few_records() -> None:
    """A function behind it gets all that was read: at 1 s a record, 100 would be 50 s."""
    first = Admission().before(levels=2)
    assert first.max_records == FIRST_BEHIND == 4
    assert Admission().before(levels=1).max_records == FIRST
    # With 4 s of work on them, one record is left.
    assert after(first, 1_000).max_records == 1
    assert after(first, 0.01, epochs=5).max_records > 10_000
    # Who sets the size of an epoch has it from the first one.
    assert Admission(max_records=20, ceiling=20).before(levels=2).max_records == 20


def test_the_bound_settles_where_an_epoch_takes_its_target() -> None:
    # 1,000 ms less the price of 200 are 0.01 ms for each of 80,000 records.
    settled = after(Admission(), 0.01, epochs=10)
    assert 80_000 / 1.25 <= settled.max_records <= 80_000 * 1.25
    # With 400 ms of work that does not depend on them, 40,000.
    settled = after(Admission(), 0.01, epochs=30, fixed_ms=400)
    assert 40_000 / 2 <= settled.max_records <= 40_000 * 2


def test_seconds_a_record_mean_one_record() -> None:
    assert after(Admission(), 3_000, epochs=8).max_records == 1
    assert after(Admission(), 20, epochs=8).max_records in range(32, 51)


def test_a_fold_does_not_count() -> None:
    settled = after(Admission(), 0.01, epochs=10)
    work = 0.01 * settled.max_records
    folded = under_backlog(settled, work, price_ms=6_000)
    assert folded.max_records == under_backlog(settled, work).max_records


def test_one_slow_epoch_is_no_reason_and_a_second_one_is() -> None:
    settled = after(Admission(), 0.01, epochs=10)
    doubted = after(settled, 0.03)
    assert doubted.max_records == settled.max_records
    assert after(doubted, 0.01).max_records >= settled.max_records / 1.6
    assert after(doubted, 0.03).max_records < settled.max_records / 2
    # An epoch that lasts many targets is not waited for twice.
    assert after(settled, 1.0).max_records == settled.max_records // 4


def test_one_fast_epoch_is_no_reason_and_a_second_one_is() -> None:
    """Where other programs pause, a busy machine is eight times as fast for a moment."""
    settled = after(Admission(), 0.01, epochs=10)
    lull = after(settled, 0.00125)
    assert lull.max_records == settled.max_records
    assert after(lull, 0.01).max_records <= settled.max_records * 1.6
    assert after(lull, 0.00125).max_records > settled.max_records * 4


def test_epochs_do_not_shrink_when_smaller_ones_were_not_shorter() -> None:
    # Of 2,000 ms only the part for records, 0.001 ms each, could be saved: half of the target.
    admission = after(Admission(max_records=500_000), 0.001, epochs=40, fixed_ms=1_500)
    assert admission.max_records >= 500_000 / 2


def test_a_live_job_keeps_its_bound() -> None:
    settled = after(Admission(), 0.01, epochs=10)

    def live(work_ms: float, *, backlog: bool) -> Admission:
        return settled.after_epoch(800, work_ms + 200, work_ms, backlog=backlog, cut_short=True)

    assert live(8, backlog=False).max_records == settled.max_records
    assert live(8, backlog=True).max_records == settled.max_records
    # Unless what it reads takes too long; twice, so that it is believed.
    slow = settled
    for _ in range(2):
        slow = slow.after_epoch(800, 16_200, 16_000, backlog=False, cut_short=True)
    assert slow.max_records <= 60


def test_one_of_many_readers_with_backlog_gets_more() -> None:
    settled = after(Admission(), 0.01, epochs=10)
    alone = settled.after_epoch(settled.max_records // 4, 400, 200, backlog=True, cut_short=False)
    assert alone.max_records > 2 * settled.max_records


def test_limits() -> None:
    assert after(Admission(), 0.000_001, epochs=9).max_records == LARGEST
    assert after(Admission(max_records=500, ceiling=600), 0.01, epochs=3).max_records == 600
    same = Admission()
    assert same.after_epoch(0, 300, 5, backlog=False, cut_short=True) is same


def test_bytes_bound_records_too() -> None:
    admission = Admission(max_records=100_000, max_bytes=1_000_000)

    def moved(admission: Admission, size: int) -> Admission:
        # In no time, so that only bytes count.
        return admission.after_epoch(
            admission.max_records, 1, 1, backlog=True, cut_short=False, moved_bytes=size
        )

    # 100 bytes a record: 10,000 records. A function that emits 2,000 bytes for each then: 500.
    bounded = moved(admission, 100_000 * 100)
    assert bounded.max_records == 10_000
    assert moved(bounded, 10_000 * 2_000).max_records == 500
    # Records that are larger than the bound pass one by one.
    assert moved(bounded, 10_000 * 2_000_000).max_records == 1
    # The reports of a few records are no measure.
    assert moved(admission, 50_000).max_records > 100_000
    # What was large once is forgotten in time.
    for _ in range(40):
        bounded = moved(bounded, 0)
    assert bounded.max_records > 1_000_000


def test_less_after_the_loss_of_a_process() -> None:
    lost = Admission(max_records=1_000, max_bytes=256 << 20).after_loss()
    assert (lost.max_records, lost.max_bytes) == (250, 64 << 20)
    for _ in range(9):
        lost = lost.after_loss()
    assert (lost.max_records, lost.max_bytes) == (1, 1 << 20)
