"""How many records an epoch may read: a pure decider that aims at a duration.

Under backlog an epoch should take about the target; a live job, which reads less than it may, keeps
its bound. What an epoch costs without records is left out of the estimate: on a busy machine it may
exceed the target alone, and ever smaller epochs would be all price. Growth is limited, since the
first epochs pay for imports and cold caches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

SMALLEST: Final = 1_000
LARGEST: Final = 8_000_000
_GROWTH: Final = 4.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The bound for all subtasks of a job together.

    Attributes:
        target_ms: Duration that an epoch under backlog should have.
        max_records: Current bound.
        ceiling: Bound that the configuration sets.
    """

    target_ms: int = 1_000
    max_records: int = 50_000
    ceiling: int = LARGEST

    def after_epoch(
        self, records: int, duration_ms: float, work_ms: float, *, backlog: bool
    ) -> Admission:
        """Returns the bound for the next epoch.

        Args:
            records: How many it read.
            duration_ms: How long it took.
            work_ms: The part of it that subtasks worked, level after level. The rest is the price
                of an epoch, which fewer records would not lower.
            backlog: Whether more could have been read.
        """
        if not backlog or records < self.max_records // 2:
            return self
        left_ms = max(self.target_ms - max(duration_ms - work_ms, 0.0), self.target_ms / 2)
        factor = min(max(left_ms / max(work_ms, 1.0), 1 / _GROWTH), _GROWTH)
        wanted = int(self.max_records * factor)
        return replace(self, max_records=min(max(wanted, SMALLEST), self.ceiling, LARGEST))
