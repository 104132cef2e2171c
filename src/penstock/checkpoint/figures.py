"""Sizes and durations: of a checkpoint, of each subtask in it, and of a series of either."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """What one subtask contributed."""

    subtask: int
    acknowledged_ms: int  # Wall time of its acknowledgement.
    end_to_end_ms: int = 0  # From trigger to acknowledgement.
    sync_ms: int = 0  # Flush inside the epoch.
    async_ms: int = 0  # Upload.
    start_delay_ms: int = 0  # From trigger to the end of the epoch.
    checkpointed_bytes: int = 0  # Newly written.
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What the subtasks of one task contributed."""

    task_id: str
    name: str  # Its name for people.
    subtasks: tuple[SubtaskFigures, ...]  # In the order of their indices.


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """What a whole checkpoint weighs."""

    checkpointed_bytes: int = 0  # Newly written.
    state_bytes: int = 0
    files_new: int = 0
    files_reused: int = 0  # Files of earlier checkpoints that it refers to.
    inline_bytes: int = 0  # State inside `_metadata`.
    tasks: tuple[TaskFigures, ...] = ()  # Figures by task.


_WINDOW: Final = 10_000
"""Values that percentiles look back to; the others count in minimum, maximum and average."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A series in eight numbers; all 0 when it is empty."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class Series:
    """Collects values."""

    def __init__(self) -> None:
        self._window: deque[int] = deque(maxlen=_WINDOW)
        self._count = 0
        self._sum = 0
        self._min = 0
        self._max = 0

    def add(self, value: int) -> None:
        self._min = value if self._count == 0 else min(self._min, value)
        self._max = max(self._max, value)
        self._count += 1
        self._sum += value
        self._window.append(value)

    def summary(self) -> Summary:
        if self._count == 0:
            return Summary()
        ordered = sorted(self._window)
        return Summary(
            self._min,
            self._max,
            self._sum // self._count,
            percentile(ordered, 50),
            percentile(ordered, 90),
            percentile(ordered, 95),
            percentile(ordered, 99),
            percentile(ordered, 99.9),
        )


def summary_of(values: Iterable[int]) -> Summary:
    """Returns the numbers of values that are all known."""
    series = Series()
    for value in values:
        series.add(value)
    return series.summary()


def percentile(ordered: list[int], percent: float) -> float:
    """Returns a percentile of sorted values, by the position `percent * (n + 1) / 100`.

    Between two values it interpolates; this is how the library behind Flink's figures does it.
    """
    position = percent * (len(ordered) + 1) / 100
    below = int(position)
    if below < 1:
        return float(ordered[0])
    if below >= len(ordered):
        return float(ordered[-1])
    low, high = ordered[below - 1], ordered[below]
    return low + (position - below) * (high - low)
