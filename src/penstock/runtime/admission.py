"""How many records an epoch may read: a pure decider that aims at a duration.

An epoch under backlog should take about the target. Its duration is a line over the records that it
reads, `price + fixed + cost * records`:

* The *price* is what subtasks do not do: scheduling, commits of sinks. It is the median of the
  last epochs, so a pause now and then does not count.
* *fixed* and *cost* are fitted to the work of the last epochs, which includes writing the state
  that records changed, and a slice of a fold now and then. Where these were of one size, they
  cannot be told apart; then *fixed* stays as it was. Bounds sway up and down for that reason.

What the price and the fixed part leave of the target is for records, and half of the target always
is: on a busy machine the rest may exceed the target alone, and ever smaller epochs would be all
price. An epoch that is slower than the line says is believed once a second one confirms it. The
first bounds are small, since the cost is unknown, and grow fast (`docs/decisions/0009`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Final

FIRST: Final = 100
FIRST_BEHIND: Final = 4
"""Where stages follow the sources: they take all that an epoch reads, however slow they are."""
LARGEST: Final = 8_000_000

_GROWTH: Final = 16.0
_OVERSHOOT: Final = 1.6
"""Times the target that the next epoch may take if its cost is all in its records."""
_SWAY: Final = 1.25
_WIDE_SWAY: Final = 2.0
"""Where an epoch is mostly price: another size costs little, and the line must be sure."""
_SURPRISE: Final = 1.8
"""Times its expected work, or the inverse, that noise explains."""
_OUTRAGEOUS: Final = 4
"""Times the target from which the next epoch is smaller without a confirmation."""

_SETTLED: Final = 4
"""Epochs that the line explains before it is believed more than one epoch that is faster."""
_EPOCHS: Final = 16
_DECAY: Final = 0.85
_PRICES: Final = 5
_FEW: Final = 16
"""An epoch that moves less than this part of its bytes says nothing: reports have a size too."""
_FORGETS: Final = 0.8
_LOSS: Final = 4
_LEAST_BYTES: Final = 1 << 20
_RIDGE: Final = 0.02
"""Relative variance of the sizes from which the line counts as much as what was known before."""

Sample = tuple[int, float]
"""Records of an epoch, and the work on them in ms."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The bound for all subtasks of a job together, and what it follows from.

    Attributes:
        target_ms: Duration that an epoch under backlog should have.
        max_records: Current bound.
        ceiling: Bound that the configuration sets.
        max_bytes: Bytes that an epoch may read, and send between stages.
        record_bytes: Bytes read and sent for a record: the most in the last epochs.
        fixed_ms: Work of an epoch that does not depend on its records.
        cost_ms: Work on a record.
        samples: Epochs that the line explains, oldest first.
        prices: Of the last epochs, in ms.
        doubtful: The last epoch, if it was slower than the line says.
        grows: Whether the last sway was upwards.
    """

    target_ms: int = 1_000
    max_records: int = FIRST
    ceiling: int = LARGEST
    max_bytes: int = 256 << 20
    record_bytes: float = 0.0
    fixed_ms: float = 0.0
    cost_ms: float = 0.0
    samples: tuple[Sample, ...] = ()
    prices: tuple[float, ...] = ()
    doubtful: Sample | None = None
    grows: bool = False

    def after_epoch(  # noqa: PLR0913
        self,
        records: int,
        duration_ms: float,
        work_ms: float,
        *,
        backlog: bool,
        cut_short: bool,
        moved_bytes: int = 0,
    ) -> Admission:
        """Returns the bound for the next epoch.

        Args:
            records: How many it read.
            duration_ms: How long it took.
            work_ms: The part of it that subtasks worked on records, level after level.
            backlog: Whether more could have been read.
            cut_short: Whether no source read as much as it was allowed to: its time or its bytes
                were over first.
            moved_bytes: How many bytes were read and sent between stages.
        """
        if not records:
            return self
        bound = self._by_time(records, duration_ms, work_ms, grows=backlog and not cut_short)
        return bound._within_bytes(records, moved_bytes)

    @property
    def is_set(self) -> bool:
        """Whether the user bounds epochs."""
        return self.ceiling != LARGEST

    def before(self, levels: int) -> Admission:
        """Returns the first bound of a job; one that the user sets stays."""
        if levels == 1 or self.is_set:
            return self
        return replace(self, max_records=min(self.max_records, FIRST_BEHIND))

    def after_loss(self) -> Admission:
        """Returns the bound for an attempt after a process died, perhaps for lack of memory."""
        return replace(
            self,
            max_records=max(self.max_records // _LOSS, 1),
            max_bytes=max(self.max_bytes // _LOSS, _LEAST_BYTES),
        )

    def _within_bytes(self, records: int, moved_bytes: int) -> Admission:
        """Bounds what operators emit: a source in front of them cannot know it."""
        size = self.record_bytes * _FORGETS
        if moved_bytes > self.max_bytes // _FEW:
            size = max(size, moved_bytes / records)
        bound = self.max_records if not size else min(self.max_records, int(self.max_bytes / size))
        return replace(self, max_records=max(bound, 1), record_bytes=size)

    def _by_time(
        self, records: int, duration_ms: float, work_ms: float, *, grows: bool
    ) -> Admission:
        learned = self._learned(records, duration_ms, max(work_ms, 1.0))
        bound = self.max_records
        if learned.doubtful is not None:
            if work_ms > _OUTRAGEOUS * self.target_ms:
                bound = max(bound // _OUTRAGEOUS, 1)
            return replace(learned, max_records=bound)
        wanted = learned.left_ms() / max(learned.cost_ms, 1e-9)
        if grows:
            # Of what it read: sources with less input leave some of their share.
            growth = min(max(_OVERSHOOT * self.target_ms / max(work_ms, 1.0), 1.5), _GROWTH)
            return learned._swayed(bound * min(wanted / records, growth), work_ms)
        if work_ms > self.target_ms:
            bound = max(min(int(wanted), bound), 1)
        return replace(learned, max_records=bound)

    def left_ms(self) -> float:
        """Returns how long an epoch may work on records."""
        price = median(self.prices) if self.prices else 0.0
        return max(self.target_ms - price - self.fixed_ms, self.target_ms / 2)

    def _swayed(self, wanted: float, work_ms: float) -> Admission:
        if not self.max_records / 2 < wanted < self.max_records * 2:
            return self._bounded(wanted)
        grows = not self.grows
        sway = _SWAY if self.left_ms() > self.target_ms / 2 else _WIDE_SWAY
        wanted *= sway if grows else 1 / sway
        # Half of the way, so that noise is evened out.
        wanted = (wanted * self.max_records) ** 0.5
        if grows and work_ms < _SWAY * self.target_ms:
            wanted = max(wanted, 2)
        return replace(self._bounded(wanted), grows=grows)

    def _bounded(self, wanted: float) -> Admission:
        return replace(self, max_records=max(min(int(wanted), self.ceiling, LARGEST), 1))

    def _learned(self, records: int, duration_ms: float, work_ms: float) -> Admission:
        prices = self.prices
        if self.samples:
            # The very first epoch starts processes.
            prices = (*prices, max(duration_ms - work_ms, 0.0))[-_PRICES:]
        new = (records, work_ms)
        known = self.fixed_ms + self.cost_ms * records
        if self.doubtful is None and len(self.samples) >= _SETTLED and work_ms * _SURPRISE < known:
            return replace(self, prices=prices, doubtful=new)
        if self.doubtful is None:
            tries = [((*self.samples, new), (new,)), ((new,), ())]
        else:
            both = (self.doubtful, new)
            # Slower from some records on; an outlier; another cost from then on; or all of it.
            tries = [
                ((*self.samples, *both), both),
                ((*self.samples, new), (new,)),
                (both, both),
                ((new,), ()),
            ]
        for samples, explained in tries:
            fixed, cost = _line(samples[-_EPOCHS:], self.fixed_ms)
            if all(_fits(fixed, cost, each) for each in explained):
                break
            if self.doubtful is None and work_ms > max(fixed + cost * records, self.target_ms):
                return replace(self, prices=prices, doubtful=new)
        return replace(
            self,
            fixed_ms=fixed,
            cost_ms=cost,
            samples=samples[-_EPOCHS:],
            prices=prices,
            doubtful=None,
        )


def _fits(fixed: float, cost: float, sample: Sample) -> bool:
    return 1 / _SURPRISE < sample[1] / (fixed + cost * sample[0]) < _SURPRISE


def _line(samples: tuple[Sample, ...], known_fixed: float) -> tuple[float, float]:
    """Fits `work = fixed + cost * records` by least squares of relative errors.

    Later samples weigh more. As far as all are of one size, the fixed part is the known one.
    """
    weights = [
        _DECAY ** (len(samples) - index) / work**2 for index, (_, work) in enumerate(samples)
    ]
    total = sum(weights)
    mean_records = (
        sum(w * records for w, (records, _) in zip(weights, samples, strict=True)) / total
    )
    mean_work = sum(w * work for w, (_, work) in zip(weights, samples, strict=True)) / total
    spread = common = 0.0
    for weight, (records, work) in zip(weights, samples, strict=True):
        spread += weight / total * (records - mean_records) ** 2
        common += weight / total * (records - mean_records) * (work - mean_work)
    known_cost = (mean_work - min(known_fixed, mean_work)) / mean_records
    ridge = _RIDGE * mean_records**2
    cost = (common + ridge * known_cost) / (spread + ridge)
    cost = min(max(cost, 0.0), mean_work / mean_records)
    return mean_work - cost * mean_records, cost
