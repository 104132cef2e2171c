"""PyFlink's `metrics`: numbers that functions report."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

__getattr__ = names_of(__name__)
