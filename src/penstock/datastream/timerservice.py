"""PyFlink's `datastream.timerservice`: time and timers of a function."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.runtime_context import TimerService as TimerService

__getattr__ = facade(__name__)
