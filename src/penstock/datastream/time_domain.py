"""PyFlink's `datastream.time_domain`: event time or processing time."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.runtime_context import TimeDomain

__all__ = ["TimeDomain"]

__getattr__ = names_of(__name__)
