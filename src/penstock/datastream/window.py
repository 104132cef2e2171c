"""PyFlink's `datastream.window`: windows, assigners, triggers; and evictors, as Java has them."""

from __future__ import annotations

from penstock.common.serializer import TypeSerializer
from penstock.common.unsupported import unsupported_class
from penstock.operators.windows.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.operators.windows.counts import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)
from penstock.operators.windows.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from penstock.operators.windows.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from penstock.operators.windows.triggers_more import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    DeltaTrigger,
)
from penstock.operators.windows.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowOperationDescriptor",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]

Min = unsupported_class(__name__, "Min")
WindowOperationDescriptor = unsupported_class(__name__, "WindowOperationDescriptor")
long_to_int_with_bit_mixing = unsupported_class(__name__, "long_to_int_with_bit_mixing")
mod_inverse = unsupported_class(__name__, "mod_inverse")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """For `get_window_serializer` of assigners written for PyFlink; any window will do here."""
