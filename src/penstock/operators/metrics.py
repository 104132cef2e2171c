"""Metrics of one operator in one subtask: the built-in counts and the user's own.

What counts up is reported as its growth in one epoch, and the driver sums it: a retried epoch is
not counted twice, and a subtask that moves to another worker does not begin anew. The users' own
view (`get_count()`) is that of the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class Counter:
    """A number that users raise and lower."""

    def __init__(self) -> None:
        self._count = 0
        self._before = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def begin_epoch(self) -> None:
        self._before = self._count

    def report(self) -> Any:
        return self._count - self._before


class Distribution:
    """Sum, count, minimum and maximum of the values given to it in this epoch."""

    def __init__(self) -> None:
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)

    def report(self) -> Any:
        return {"count": self.count, "sum": self.sum, "min": self.min, "max": self.max}


class Meter:
    """Counts events; the driver knows the time and makes a rate of them."""

    def __init__(self) -> None:
        self._count = 0
        self._before = 0

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def begin_epoch(self) -> None:
        self._before = self._count

    def report(self) -> Any:
        return {"events": self._count - self._before}


OF_SOURCES: Final = ""
"""Group of what a source measures: its names begin with a dot, and are shown as Flink's own."""


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

    def begin_epoch(self) -> None:
        """What is counted from here on belongs to a new epoch."""
        for metric in self.metrics.values():
            if isinstance(metric, Counter | Meter | Distribution):
                metric.begin_epoch()
        for group in self.groups.values():
            group.begin_epoch()

    def report(self) -> dict[str, Any]:
        """Returns what the epoch's report carries, by dotted name: plain data.

        A counter is its growth, a meter `{"events": growth}`, a distribution its four numbers, a
        gauge `{"value": what it says}`.
        """
        values: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            label = ".".join((*self.scope, name))
            if isinstance(metric, Counter | Meter | Distribution):
                values[label] = metric.report()
            else:
                values[label] = {"value": metric()}
        for group in self.groups.values():
            values.update(group.report())
        return values
