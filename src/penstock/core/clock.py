"""Clocks. Processing time is an argument of an epoch, so that a retried task sees the same time."""

from __future__ import annotations

import random
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for users' processing time, monotonic time for leases and timeouts."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back."""


class SystemClock:
    """The machine's clocks; everything else gets its time from an argument."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


def jittered(pause: float) -> float:
    """Returns half of a pause before a retry up to all of it.

    What failed together would otherwise try again together, and fail again.
    """
    return pause * (0.5 + random.random() / 2)


class EpochClock:
    """Where a subtask is in time: one number for the whole epoch, stamped by the driver.

    Attributes:
        now_ms: Processing time.
        mid_read: More batches of the same source read follow in this subtask; periodic watermarks
            wait for the last one, so that the size of batches has no say in what is late.
        mid_batch: The input is inside a micro-batch, whose records are in no order of time; only
            the last watermark rises before its end.
    """

    __slots__ = ("mid_batch", "mid_read", "now_ms")

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.mid_read = False
        self.mid_batch = False
