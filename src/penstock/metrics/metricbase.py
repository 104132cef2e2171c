"""PyFlink's `metrics.metricbase`."""

from __future__ import annotations

from abc import ABC

from penstock.core.refused_names import names_of
from penstock.operators.logic import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

__getattr__ = names_of(__name__)


class Metric(ABC):  # noqa: B024 - a name for isinstance, as in PyFlink
    """Whatever a metric group hands out; for `isinstance`."""


for _kind in (Counter, Distribution, Meter):
    Metric.register(_kind)
