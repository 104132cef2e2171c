"""PyFlink's `datastream.time_domain`: event time or processing time."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.runtime_context import TimeDomain as TimeDomain

__getattr__ = facade(__name__)
