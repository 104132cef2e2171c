"""Metrics of one operator in one subtask: the built-in counts and the user's own.

Counters are totals of the job attempt in this worker's epoch; the subtask reports the growth of
each epoch, and the driver sums it, so that a retried epoch is not counted twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Counter:
    """A number that users raise and lower."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class Distribution:
    """Sum, count, minimum and maximum of the values given to it."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class Meter:
    """Counts events; the driver knows the time and makes a rate of them."""

    def __init__(self) -> None:
        self._count = 0

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count


class MetricGroup:
    """Named metrics of one operator, with nested groups."""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self.scope = scope
        self.metrics: dict[str, Any] = {}
        self.groups: dict[str, MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns the nested group `name`, or `name.extra`; made at the first call."""
        label = name if extra is None else f"{name}.{extra}"
        group = self.groups.get(label)
        if group is None:
            group = self.groups[label] = MetricGroup((*self.scope, label))
        return group

    def counter(self, name: str) -> Counter:
        return self.metrics.setdefault(name, Counter())  # type: ignore[no-any-return]

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self.metrics.setdefault(name, Meter())  # type: ignore[no-any-return]

    def distribution(self, name: str) -> Distribution:
        return self.metrics.setdefault(name, Distribution())  # type: ignore[no-any-return]

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self.metrics[name] = obj

    def get_all_variables(self) -> dict[str, str]:
        return {}

    def report(self) -> dict[str, Any]:
        """Returns what the epoch's report carries, by dotted name: numbers only."""
        values: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            label = ".".join((*self.scope, name))
            if isinstance(metric, Counter | Meter):
                values[label] = metric.get_count()
            elif isinstance(metric, Distribution):
                values[label] = {
                    "count": metric.count,
                    "sum": metric.sum,
                    "min": metric.min,
                    "max": metric.max,
                }
            else:
                values[label] = metric()
        for group in self.groups.values():
            values.update(group.report())
        return values
