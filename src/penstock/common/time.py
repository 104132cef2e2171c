"""PyFlink's `common.time`: spans of time, and points in it."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.core.times import Duration as Duration, Instant as Instant, Time as Time

__getattr__ = facade(__name__)
