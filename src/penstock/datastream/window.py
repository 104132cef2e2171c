"""PyFlink's `datastream.window`: windows, assigners, triggers; and evictors, as Java has them."""

from __future__ import annotations

from penstock.common.serializer import TypeSerializer as TypeSerializer
from penstock.core.refused_names import facade
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner as CountSlidingWindowAssigner,
    CountTumblingWindowAssigner as CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows as DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows as DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows as EventTimeSessionWindows,
    GlobalWindows as GlobalWindows,
    MergingWindowAssigner as MergingWindowAssigner,
    ProcessingTimeSessionWindows as ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor as SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows as SlidingEventTimeWindows,
    SlidingProcessingTimeWindows as SlidingProcessingTimeWindows,
    TumblingEventTimeWindows as TumblingEventTimeWindows,
    TumblingProcessingTimeWindows as TumblingProcessingTimeWindows,
    WindowAssigner as WindowAssigner,
)
from penstock.operators.windows.evictors import (
    CountEvictor as CountEvictor,
    DeltaEvictor as DeltaEvictor,
    Evictor as Evictor,
    TimeEvictor as TimeEvictor,
    TimestampedValue as TimestampedValue,
)
from penstock.operators.windows.triggers import (
    ContinuousEventTimeTrigger as ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
    CountTrigger as CountTrigger,
    DeltaTrigger as DeltaTrigger,
    EventTimeTrigger as EventTimeTrigger,
    NeverTrigger as NeverTrigger,
    ProcessingTimeTrigger as ProcessingTimeTrigger,
    PurgingTrigger as PurgingTrigger,
    Trigger as Trigger,
    TriggerResult as TriggerResult,
)
from penstock.operators.windows.windows import (
    CountWindow as CountWindow,
    GlobalWindow as GlobalWindow,
    TimeWindow as TimeWindow,
    Window as Window,
)

__getattr__ = facade(__name__)


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""
