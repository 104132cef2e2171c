"""PyFlink's `metrics`: numbers that functions report."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.metrics.metricbase import (
    Counter as Counter,
    Distribution as Distribution,
    Meter as Meter,
    Metric as Metric,
    MetricGroup as MetricGroup,
)

__getattr__ = facade(__name__)
