"""PyFlink's `datastream.timerservice`: time and timers of a function."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.runtime_context import TimerService

__all__ = ["TimerService"]

__getattr__ = names_of(__name__)
