"""PyFlink's `datastream.timerservice`: time and timers of a function."""

from __future__ import annotations

from penstock.operators.user_timers import TimerService

__all__ = ["TimerService"]
