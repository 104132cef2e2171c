"""Evictors: which records of a window go before or after the function.

PyFlink has none; names and rules are those of Flink's Java classes. An evictor removes records from
the list it is given, in place; what is left is what the function sees and what state keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP, to_millis
from penstock.operators.windows.triggers import delta_function

if TYPE_CHECKING:
    from penstock.operators.logic import MetricGroup


class TimestampedValue(NamedTuple):
    """A record of a window with its timestamp."""

    value: Any
    timestamp: int

    def get_value(self) -> Any:
        return self[0]

    def get_timestamp(self) -> int:
        return self[1]

    def has_timestamp(self) -> bool:
        return self[1] != NO_TIMESTAMP


class EvictorContext(ABC):
    """What an evictor may ask."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Returns the clock, in milliseconds."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Returns the operator's metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Returns the operator's watermark."""


_EvictorContext: TypeAlias = EvictorContext


class Evictor(ABC):
    """Removes records from a window when it is evaluated."""

    EvictorContext: TypeAlias = _EvictorContext

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Removes records from `elements` before the function sees them."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Removes records from `elements` after the function saw them."""


class _BeforeOrAfter(Evictor):
    """Base of the built-in evictors: one rule, applied before or after."""

    def __init__(self, *, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        raise NotImplementedError


class CountEvictor(_BeforeOrAfter):
    """Keeps the newest `max_count` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        if isinstance(max_count, bool) or not isinstance(max_count, int) or max_count < 0:
            raise ProgramError(f"CountEvictor needs a number of records >= 0, not {max_count!r}.")
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self.max_count)]

    def __repr__(self) -> str:
        return f"CountEvictor({self.max_count})"


class TimeEvictor(_BeforeOrAfter):
    """Keeps the records younger than a span before the youngest one."""

    def __init__(self, window_size: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self.span = to_millis(window_size, "the span of TimeEvictor")

    @staticmethod
    def of(window_size: Any, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        # Like Flink, the first record speaks for all of them.
        if not elements or not elements[0].has_timestamp():
            return
        limit = max(timestamp for _, timestamp in elements) - self.span
        elements[:] = [element for element in elements if element.timestamp > limit]

    def __repr__(self) -> str:
        return f"TimeEvictor({self.span})"


class DeltaEvictor(_BeforeOrAfter):
    """Removes the records that differ by a threshold or more from the newest one."""

    def __init__(self, threshold: float, delta: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self.threshold = threshold
        self._delta = delta_function(delta, "DeltaEvictor")

    @staticmethod
    def of(threshold: float, delta: Any, do_evict_after: bool = False) -> DeltaEvictor:
        return DeltaEvictor(threshold, delta, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, last) < self.threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self.threshold})"
