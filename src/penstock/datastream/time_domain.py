"""PyFlink's `datastream.time_domain`: event time or processing time."""

from __future__ import annotations

from penstock.operators.user_timers import TimeDomain

__all__ = ["TimeDomain"]
