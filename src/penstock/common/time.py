"""PyFlink's `common.time`: spans of time, and points in it."""

from __future__ import annotations

from penstock.core.duration import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
