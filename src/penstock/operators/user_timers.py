"""What `ctx.timer_service()` returns, and the two time domains."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorLogic
    from penstock.operators.timers import TimerService as OperatorTimers
    from penstock.state.keyed import KeyedState


class TimeDomain(Enum):
    """Whether a timer waits for a watermark or for the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Time, and timers of the current key."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Milliseconds since 1970; stands still within an epoch, so that a retry sees the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark; `-2**63` before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Calls `on_timer` for this key when the clock reaches the time; twice is once."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Calls `on_timer` for this key when the watermark reaches the time; twice is once."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of this key; does nothing if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of this key; does nothing if there is none."""


class KeyedTimerService(TimerService):
    """Timers of keyed operators."""

    def __init__(self, timers: OperatorTimers, state: KeyedState) -> None:
        self._timers = timers
        self._state = state

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def register_processing_time_timer(self, timestamp: int) -> None:
        if timestamp.__class__ is not int:
            timestamp = checked_time(timestamp)
        state = self._state
        state.processing_timers.add(timestamp, state.key, state.namespace)

    def register_event_time_timer(self, timestamp: int) -> None:
        if timestamp.__class__ is not int:
            timestamp = checked_time(timestamp)
        state = self._state
        state.event_timers.add(timestamp, state.key, state.namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        state = self._state
        state.processing_timers.remove(checked_time(timestamp), state.key, state.namespace)

    def delete_event_time_timer(self, timestamp: int) -> None:
        state = self._state
        state.event_timers.remove(checked_time(timestamp), state.key, state.namespace)


class TimeOnlyService(TimerService):
    """Time where there is no key: one may look at it, but not set timers.

    Args:
        logic: The operator.
        reason: Why there is no key, and what to do.
    """

    def __init__(
        self,
        logic: OperatorLogic,
        reason: str = "its input is not keyed. Call key_by first and use a KeyedProcessFunction.",
    ) -> None:
        self._logic = logic
        self._reason = reason

    def current_processing_time(self) -> int:
        return self._logic.context.clock.now_ms

    def current_watermark(self) -> int:
        return self._logic.watermark

    def _refuse(self, *_: Any) -> None:
        raise ProgramError(
            f"operator '{self._logic.context.name}' was asked for a timer; timers belong to keys, "
            f"but {self._reason}"
        )

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse()


def checked_time(timestamp: Any) -> int:
    """Returns a time as int, or says what a time is."""
    if timestamp.__class__ is int:
        return timestamp
    if not isinstance(timestamp, bool):
        try:
            return operator.index(timestamp)
        except TypeError:
            pass
    raise ProgramError(
        f"a timer's time is an int in milliseconds, but got {type(timestamp).__name__} "
        f"{timestamp!r:.80}. Round it, for example int(seconds * 1000)."
    )
