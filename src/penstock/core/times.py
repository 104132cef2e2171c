"""Event time as int64 milliseconds, saturating at both ends.

Python integers do not overflow, so sums of times are clamped here and nowhere else.
"""

from __future__ import annotations

from typing import Final

MIN_TIMESTAMP: Final = -(2**63)
MAX_TIMESTAMP: Final = 2**63 - 1

NO_TIMESTAMP: Final = MIN_TIMESTAMP
"""What a record without a timestamp carries; event-time windows refuse it."""

MIN_WATERMARK: Final = MIN_TIMESTAMP
MAX_WATERMARK: Final = MAX_TIMESTAMP


def saturating_add(time_ms: int, delta_ms: int) -> int:
    """Returns `time_ms + delta_ms`, clamped to the int64 range."""
    total = time_ms + delta_ms
    if total > MAX_TIMESTAMP:
        return MAX_TIMESTAMP
    if total < MIN_TIMESTAMP:
        return MIN_TIMESTAMP
    return total
