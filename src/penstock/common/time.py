"""PyFlink's `common.time`: spans of time, and points in it."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.core.times import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]

__getattr__ = names_of(__name__)
