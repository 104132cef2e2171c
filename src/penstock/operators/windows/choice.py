"""Chooses how a windowed operation runs: by batches where that is known to give equal results.

Exact types count: a subclass of an assigner or trigger may do anything, and runs record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.operators.windows.aligned import EventTimeAlignedLogic, ProcessingTimeAlignedLogic
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.operators.windows.counting import Counting, CountWindowLogic, GlobalCountLogic
from penstock.operators.windows.functions import PairContents
from penstock.operators.windows.operator import WindowLogic
from penstock.operators.windows.session_batches import SessionLogic
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

if TYPE_CHECKING:
    from penstock.operators.windows.spec import WindowSpec

_BATCHED: dict[type[WindowAssigner], tuple[type[WindowLogic], type[Trigger]]] = {
    TumblingEventTimeWindows: (EventTimeAlignedLogic, EventTimeTrigger),
    SlidingEventTimeWindows: (EventTimeAlignedLogic, EventTimeTrigger),
    TumblingProcessingTimeWindows: (ProcessingTimeAlignedLogic, ProcessingTimeTrigger),
    SlidingProcessingTimeWindows: (ProcessingTimeAlignedLogic, ProcessingTimeTrigger),
    EventTimeSessionWindows: (SessionLogic, EventTimeTrigger),
    DynamicEventTimeSessionWindows: (SessionLogic, EventTimeTrigger),
    ProcessingTimeSessionWindows: (SessionLogic, ProcessingTimeTrigger),
    DynamicProcessingTimeSessionWindows: (SessionLogic, ProcessingTimeTrigger),
    CountTumblingWindowAssigner: (CountWindowLogic, CountTrigger),
    CountSlidingWindowAssigner: (CountWindowLogic, CountTrigger),
    GlobalWindows: (GlobalCountLogic, CountTrigger),
}
"""The logic of each assigner, and the trigger under which it applies; that may be purging."""


def build_logic(spec: WindowSpec) -> WindowLogic:
    """Returns the logic for a spec."""
    found = _BATCHED.get(type(spec.assigner))
    if found is None or spec.evictor is not None:
        return WindowLogic(spec)
    logic, trigger = found
    if type(_without_purging(spec.used_trigger)) is not trigger:
        return WindowLogic(spec)
    is_custom_count = logic is CountWindowLogic and spec.trigger is not None
    if is_custom_count or (issubclass(logic, Counting) and isinstance(spec.contents, PairContents)):
        return WindowLogic(spec)
    return logic(spec)


def _without_purging(trigger: Trigger) -> Trigger:
    """Returns the trigger inside a purging one, or the trigger itself."""
    if type(trigger) is PurgingTrigger:
        return trigger.nested_trigger
    return trigger
