"""How many records an epoch may read: a pure decider that aims at a duration.

Under backlog an epoch should take about the target; a live job, which reads less than it may, keeps
its bound. Growth is limited, since the first epochs pay for imports and cold caches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

SMALLEST: Final = 1_000
LARGEST: Final = 8_000_000
_GROWTH: Final = 3.0


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

    def after_epoch(self, records: int, duration_ms: float, *, backlog: bool) -> Admission:
        """Returns the bound for the next epoch."""
        if not backlog or records < self.max_records // 2:
            return self
        factor = self.target_ms / max(duration_ms, 1.0)
        factor = min(max(factor, 1 / _GROWTH), _GROWTH)
        wanted = int(self.max_records * factor)
        return replace(self, max_records=min(max(wanted, SMALLEST), self.ceiling, LARGEST))
