"""`WindowSpec`: a windowed operation as the program said it, and the path on which it runs.

It runs by batches where that is known to give the results of the general path. Exact types count: a
subclass of an assigner or a trigger may do anything, so it runs record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.operators.windows.aligned import AlignedPath
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
from penstock.operators.windows.contents import PairContents
from penstock.operators.windows.counting import CountWindowPath, GlobalCountPath
from penstock.operators.windows.operator import WindowLogic, WindowParts, WindowPath
from penstock.operators.windows.sessions import SessionPath
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorLogic

_PATHS: dict[type[WindowAssigner], tuple[Callable[[WindowLogic], WindowPath], type[Trigger]]] = {
    TumblingEventTimeWindows: (AlignedPath, EventTimeTrigger),
    SlidingEventTimeWindows: (AlignedPath, EventTimeTrigger),
    TumblingProcessingTimeWindows: (AlignedPath, ProcessingTimeTrigger),
    SlidingProcessingTimeWindows: (AlignedPath, ProcessingTimeTrigger),
    EventTimeSessionWindows: (SessionPath, EventTimeTrigger),
    DynamicEventTimeSessionWindows: (SessionPath, EventTimeTrigger),
    ProcessingTimeSessionWindows: (SessionPath, ProcessingTimeTrigger),
    DynamicProcessingTimeSessionWindows: (SessionPath, ProcessingTimeTrigger),
    CountTumblingWindowAssigner: (CountWindowPath, CountTrigger),
    CountSlidingWindowAssigner: (CountWindowPath, CountTrigger),
    GlobalWindows: (GlobalCountPath, CountTrigger),
}
"""The path of each assigner, and the trigger under which it applies; that may be purging."""


@dataclass(frozen=True, slots=True)
class WindowSpec(WindowParts):
    """A windowed operation.

    `window_all` is the same: its records all carry one key and it runs with parallelism 1.
    """

    def build(self) -> OperatorLogic:
        return WindowLogic(self, path_of(self))


def path_of(parts: WindowParts) -> Callable[[WindowLogic], WindowPath] | None:
    """Returns how batches are added to windows; None for record by record."""
    path, expected = _PATHS.get(type(parts.assigner), (None, None))
    trigger = parts.used_trigger
    if type(trigger) is PurgingTrigger:
        trigger = trigger.nested_trigger
    if parts.evictor is not None or type(trigger) is not expected:
        return None
    is_counting = path in (CountWindowPath, GlobalCountPath)
    if is_counting and isinstance(parts.contents, PairContents):
        return None
    return None if path is CountWindowPath and parts.trigger is not None else path
