"""Session windows: a record extends `[time, time + gap)`, windows that meet become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP
from penstock.operators.windows.assigners import (
    MergingWindowAssigner,
    WindowAssignerContext,
    missing_timestamp,
)
from penstock.operators.windows.durations import to_ms
from penstock.operators.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from penstock.operators.windows.windows import TimeWindow, time_window


class SessionWindowTimeGapExtractor(ABC):
    """Says how long a session stays open after a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns the gap after this record, in milliseconds."""


class SessionWindows(MergingWindowAssigner):
    """Base of the four session assigners."""

    def gap_of(self, element: Any) -> int:
        """Returns the gap after a record, in milliseconds."""
        raise NotImplementedError


class _FixedGap(SessionWindows):
    def __init__(self, session_gap: Any) -> None:
        name = type(self).__name__
        self.gap = to_ms(session_gap, f"the gap of {name}")
        if self.gap <= 0:
            raise ProgramError(
                f"{name} must satisfy gap > 0, but the gap is {self.gap} ms. Give a longer gap."
            )

    def gap_of(self, element: Any) -> int:
        return self.gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.gap})"


class _DynamicGap(SessionWindows):
    def __init__(self, session_window_time_gap_extractor: Any) -> None:
        extractor = session_window_time_gap_extractor
        self._extractor = extractor
        # A plain function is taken as well, as everywhere else in the API.
        self._extract = getattr(extractor, "extract", extractor)
        if not callable(self._extract):
            raise ProgramError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor or a function of "
                f"the record, not {extractor!r}."
            )

    def gap_of(self, element: Any) -> int:
        gap = to_ms(self._extract(element), f"the gap of {type(self).__name__}")
        if gap <= 0:
            text = repr(element)
            raise ProgramError(
                f"a dynamic session gap must satisfy gap > 0, but the extractor returned {gap} ms "
                f"for the record {text[:200]}. Return a positive number of milliseconds."
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class _EventTimeSessions(SessionWindows):
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self, element)
        return [time_window(timestamp, self.gap_of(element))]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeSessions(SessionWindows):
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [time_window(context.get_current_processing_time(), self.gap_of(element))]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTimeSessions):
    """Sessions by the records' timestamps; each record brings its own gap."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTimeSessions):
    """Sessions by the clock; each record brings its own gap."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_FixedGap, _EventTimeSessions):
    """Sessions by the records' timestamps, which end after a gap without records."""

    @staticmethod
    def with_gap(size: Any) -> EventTimeSessionWindows:
        return EventTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTimeSessions):
    """Sessions by the clock, which end after a gap without records."""

    @staticmethod
    def with_gap(size: Any) -> ProcessingTimeSessionWindows:
        return ProcessingTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)
