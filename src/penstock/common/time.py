"""PyFlink's `common.time`: spans of time, and points in it."""

from __future__ import annotations

from penstock.core.duration import Duration, Instant, Time
from penstock.core.refused_names import names_of

__all__ = ["Duration", "Instant", "Time"]

__getattr__ = names_of(__name__)
