"""Window assigners: which windows a record belongs to.

Assigners hold settings only. Those of time answer `windows_of(time)`, which is what lets a batch be
assigned to tumbling and sliding windows without a call per record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias

from penstock.core.errors import ProgramError
from penstock.core.times import NO_TIMESTAMP, to_millis
from penstock.core.type_variables import T, W
from penstock.core.types import Types
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from penstock.operators.windows.windows import (
    GLOBAL_WINDOW,
    CountWindow,
    GlobalWindow,
    MergeCallback,
    MergeWindows,
    TimeWindow,
    Window,
    time_window,
)
from penstock.state.descriptors import ValueStateDescriptor

if TYPE_CHECKING:
    from penstock.operators.runtime_context import RuntimeContext


class WindowAssignerContext(ABC):
    """What an assigner may ask while it assigns."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Returns the clock, in milliseconds."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """Returns the operator's runtime context, at the current key."""


_WindowAssignerContext: TypeAlias = WindowAssignerContext
_MergeCallback: TypeAlias = MergeCallback


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns zero or more windows to each record."""

    WindowAssignerContext: TypeAlias = _WindowAssignerContext

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[W]:
        """Returns the windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """Returns the trigger used when the program names none."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns whether windows go by the record's timestamp and not by the clock."""

    def get_window_serializer(self) -> Any:
        """Is never called; PyFlink's hook exists so that subclasses need no change."""
        return None


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may become one."""

    MergeCallback: TypeAlias = _MergeCallback

    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Calls `callback.merge` for each set of windows that become one."""
        # Assigners with windows of their own say themselves how these merge.
        TimeWindow.merge_windows(windows, callback)  # type: ignore[arg-type]


def own_merge(assigner: MergingWindowAssigner) -> MergeWindows | None:
    """Returns `merge_windows` of an assigner that has one of its own."""
    is_own = type(assigner).merge_windows is not MergingWindowAssigner.merge_windows
    return assigner.merge_windows if is_own else None


def missing_timestamp(assigner: object, element: Any) -> ProgramError:
    """Returns the error for a record without timestamp in event-time windows."""
    text = repr(element)
    return ProgramError(
        f"{assigner!r} needs event time, but the record {text[:200]} has no timestamp. "
        "Call assign_timestamps_and_watermarks(...) on the stream before the window, "
        "or use a processing-time window."
    )


class _TimeWindows(WindowAssigner):
    """Base of windows of time: by the record's timestamp, unless a class says by the clock."""

    by_clock: ClassVar[bool] = False

    @abstractmethod
    def windows_of(self, time_ms: int, element: Any = None) -> list[TimeWindow]:
        """Returns the windows of a record at an instant, latest first."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        if self.by_clock:
            timestamp = context.get_current_processing_time()
        elif timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self, element)
        return self.windows_of(timestamp, element)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return ProcessingTimeTrigger() if self.by_clock else EventTimeTrigger()

    def is_event_time(self) -> bool:
        return not self.by_clock


class AlignedWindows(_TimeWindows):
    """Base of tumbling and sliding windows: a window of `size` starts every `slide` ms."""

    size: int
    slide: int
    offset: int

    def windows_of(self, time_ms: int, element: Any = None) -> list[TimeWindow]:
        size, slide = self.size, self.slide
        start = time_ms - (time_ms - self.offset) % slide
        return [time_window(s, size) for s in range(start, time_ms - size, -slide)]


class _Tumbling(AlignedWindows):
    def __init__(self, size: Any, offset: Any = 0) -> None:
        name = type(self).__name__
        self.size = self.slide = to_millis(size, f"the size of {name}")
        self.offset = to_millis(0 if offset is None else offset, f"the offset of {name}")
        if abs(self.offset) >= self.size:
            raise ProgramError(
                f"{name} must satisfy abs(offset) < size, but offset is {self.offset} ms and "
                f"size is {self.size} ms. Give a larger size or a smaller offset."
            )

    @classmethod
    def of(cls, size: Any, offset: Any = None) -> Self:
        return cls(size, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.offset})"


class _Sliding(AlignedWindows):
    def __init__(self, size: Any, slide: Any, offset: Any = 0) -> None:
        name = type(self).__name__
        self.size = to_millis(size, f"the size of {name}")
        self.slide = to_millis(slide, f"the slide of {name}")
        self.offset = to_millis(0 if offset is None else offset, f"the offset of {name}")
        if abs(self.offset) >= self.slide or self.size <= 0:
            raise ProgramError(
                f"{name} must satisfy abs(offset) < slide and size > 0, but size is {self.size} "
                f"ms, slide is {self.slide} ms and offset is {self.offset} ms. "
                "Give positive spans and a smaller offset."
            )

    @classmethod
    def of(cls, size: Any, slide: Any, offset: Any = None) -> Self:
        return cls(size, slide, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one size without gap or overlap, by the record's timestamp."""


class TumblingProcessingTimeWindows(_Tumbling):
    """Windows of one size without gap or overlap, by the clock."""

    by_clock = True


class SlidingEventTimeWindows(_Sliding):
    """A window of `size` every `slide`, by the record's timestamp."""


class SlidingProcessingTimeWindows(_Sliding):
    """A window of `size` every `slide`, by the clock."""

    by_clock = True


class GlobalWindows(WindowAssigner):
    """One window for everything; it fires only with a trigger of the program's choice."""

    _ALL: tuple[Window, ...] = (GLOBAL_WINDOW,)

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return self._ALL  # type: ignore[return-value]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


class SessionWindowTimeGapExtractor(ABC):
    """Determines how long a session stays open after a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns the gap after this record, in milliseconds."""


class SessionWindows(_TimeWindows, MergingWindowAssigner):
    """Base of the four session assigners."""

    @abstractmethod
    def gap_of(self, element: Any) -> int:
        """Returns the gap after a record, in milliseconds."""

    def windows_of(self, time_ms: int, element: Any = None) -> list[TimeWindow]:
        return [time_window(time_ms, self.gap_of(element))]


class _FixedGap(SessionWindows):
    def __init__(self, session_gap: Any) -> None:
        name = type(self).__name__
        self.gap = to_millis(session_gap, f"the gap of {name}")
        if self.gap <= 0:
            raise ProgramError(
                f"{name} must satisfy gap > 0, but the gap is {self.gap} ms. Give a longer gap."
            )

    @classmethod
    def with_gap(cls, size: Any) -> Self:
        return cls(size)

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

    @classmethod
    def with_dynamic_gap(cls, extractor: Any) -> Self:
        return cls(extractor)

    def gap_of(self, element: Any) -> int:
        gap = self._extract(element)
        if type(gap) is not int:
            gap = to_millis(gap, f"the gap of {type(self).__name__}")
        if gap <= 0:
            text = repr(element)
            raise ProgramError(
                f"a dynamic session gap must satisfy gap > 0, but the extractor returned {gap} ms "
                f"for the record {text[:200]}. Return a positive number of milliseconds."
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions by the records' timestamps; each record brings its own gap."""


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions by the clock; each record brings its own gap."""

    by_clock = True


class EventTimeSessionWindows(_FixedGap):
    """Sessions by the records' timestamps, which end after a gap without records."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap):
    """Sessions by the clock, which end after a gap without records."""

    by_clock = True

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)


# Count windows: windows of a number of records per key.
#
# Record number `c` of a key, from 0, lies in each window `k` with
# `k * slide <= c < k * slide + size`.
# This follows PyFlink; Flink's Java API builds count windows from global windows instead.


class CountWindows(WindowAssigner):
    """Base of both count assigners; the number of records seen is state of the key."""

    def __init__(self, size: int, slide: int, state_name: str) -> None:
        for what, number in (("size", size), ("slide", slide)):
            if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
                raise ProgramError(
                    f"a count window has {what} {number!r}; give a positive number of records."
                )
        self.size = size
        self.slide = slide
        self.descriptor = ValueStateDescriptor(state_name, Types.LONG())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self.descriptor)
        count = state.value() or 0
        state.update(count + 1)
        newest = count // self.slide
        oldest = max(0, -((self.size - 1 - count) // self.slide))
        return [CountWindow(number) for number in range(newest, oldest - 1, -1)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return CountTrigger(self.size)

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(CountWindows):
    """A new window every `window_size` records of a key."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(CountWindows):
    """A window of `window_size` records starts every `window_slide` records of a key."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"
