"""Chooses how a windowed operation runs: by batches where that is known to give equal results.

Exact types count: a subclass of an assigner or trigger may do anything, and runs record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.operators.windows.aligned import EventTimeAlignedLogic, ProcessingTimeAlignedLogic
from penstock.operators.windows.assigners import (
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.counting import CountWindowLogic, GlobalCountLogic
from penstock.operators.windows.counts import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)
from penstock.operators.windows.operator import WindowLogic
from penstock.operators.windows.pairs import PairContents
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

if TYPE_CHECKING:
    from penstock.operators.windows.spec import WindowSpec

_COUNTS = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)
_EVENT_TIME = (TumblingEventTimeWindows, SlidingEventTimeWindows)
_PROCESSING_TIME = (TumblingProcessingTimeWindows, SlidingProcessingTimeWindows)


def build_logic(spec: WindowSpec) -> WindowLogic:
    """Returns the logic for a spec."""
    assigner = type(spec.assigner)
    trigger = type(_without_purging(spec.used_trigger))
    if spec.evictor is not None:
        return WindowLogic(spec)
    if assigner in _EVENT_TIME and trigger is EventTimeTrigger:
        return EventTimeAlignedLogic(spec)
    if assigner in _COUNTS and spec.trigger is None and not isinstance(spec.contents, PairContents):
        return CountWindowLogic(spec)
    if assigner is GlobalWindows and trigger is CountTrigger:
        return GlobalCountLogic(spec)
    if assigner in _PROCESSING_TIME and trigger is ProcessingTimeTrigger:
        return ProcessingTimeAlignedLogic(spec)
    return WindowLogic(spec)


def _without_purging(trigger: Trigger) -> Trigger:
    """Returns the trigger inside a purging one, or the trigger itself."""
    if type(trigger) is PurgingTrigger:
        return trigger.nested_trigger
    return trigger
