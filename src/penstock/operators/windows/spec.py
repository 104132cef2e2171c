"""`WindowSpec`: a windowed operation as the program said it, and the path on which it runs.

It runs by batches where that is known to give the results of the general path. Exact types count: a
subclass of an assigner or a trigger may do anything, so it runs record by record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
from penstock.operators.windows.grouping import group_by_key, look_up, write_all
from penstock.operators.windows.operator import WindowLogic, WindowParts, WindowPath
from penstock.operators.windows.sessions import SessionPath
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from penstock.operators.windows.windows import GLOBAL_WINDOW, CountWindow

if TYPE_CHECKING:
    from penstock.operators.logic import OperatorLogic
    from penstock.operators.windows.assigners import CountWindows
    from penstock.state.tables import ValueTable

# Count windows, and the global window under a count trigger, a batch at a time.
#
# A batch is grouped by key. Which of a key's records complete a window follows from how many came
# before, so everything else is added at once. Windows that fill up are evaluated in the order of
# the records that fill them, as on the general path.


class _Firing(NamedTuple):
    """A window to evaluate."""

    position: int  # Position in the batch of the record that fills it.
    key: Any
    window: Any
    values: list[Any]  # Its records in this batch.
    is_begun: bool  # Whether there may be earlier ones in state.


class CountingPath(WindowPath):
    """What count windows and the counted global window have in common."""

    namespace: Any = None
    """Where the number of records per key is in `table`."""

    def __init__(self, logic: WindowLogic, table: ValueTable) -> None:
        self.logic = logic
        self.table = table

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        positions_of = group_by_key(keys, list(range(len(keys))))
        self.firings: list[_Firing] = []
        self.rest: defaultdict[Any, dict[Any, list[Any]]] = defaultdict(dict)
        count_of = look_up(self.table, positions_of, self.namespace)
        counts: dict[Any, int] = {}
        split = self.split
        for key, positions in positions_of.items():
            mine = [values[position] for position in positions]
            counts[key] = split(key, mine, positions, count_of(key) or 0)
        self.firings.sort(key=itemgetter(0))
        logic, elements = self.logic, self.elements
        state, evaluate = logic.state, logic.evaluate
        clear = logic.clear_function_state if logic.frees_full else None
        for _, key, window, mine, is_begun in self.firings:
            state.key, state.namespace = key, window
            evaluate(key, window, elements(key, window, mine, is_begun=is_begun))
            if clear is not None:
                clear(window)
        for window, groups in self.rest.items():
            logic.contents.add_groups(window, groups)
        self.write_counts(counts)

    def write_counts(self, counts: dict[Any, int]) -> None:
        """Keeps the numbers that `split` returned."""
        write_all(self.table, self.namespace, counts)

    @abstractmethod
    def split(self, key: Any, values: list[Any], positions: list[int], count: int) -> int:
        """Deals the records of a key out to `firings` and `rest`; returns the new count."""

    @abstractmethod
    def elements(self, key: Any, window: Any, values: list[Any], *, is_begun: bool) -> list[Any]:
        """Returns what the function of a full window is given."""


class CountWindowPath(CountingPath):
    """Count windows under their default trigger; full windows are freed."""

    def __init__(self, logic: WindowLogic) -> None:
        self._windows = windows = cast("CountWindows", logic.assigner)
        super().__init__(logic, logic.state.value_table(windows.descriptor.name))
        # One object per window, since tables compare by identity first.
        self._window = lru_cache(10_000)(CountWindow)

    def split(self, key: Any, values: list[Any], positions: list[int], count: int) -> int:
        size, slide = self._windows.size, self._windows.slide
        added = len(values)
        oldest = max(0, -((size - 1 - count) // slide))
        newest = (count + added - 1) // slide
        if oldest == newest and added < oldest * slide + size - count and size == slide:
            self.rest[self._window(oldest)][key] = values
            return count + added
        for number in range(oldest, newest + 1):
            # Positions of the window's first record and of the one after its last.
            start = number * slide - count
            end = start + size
            mine = values[max(start, 0) : max(end, 0)]
            if mine and end <= added:
                window = self._window(number)
                self.firings.append(_Firing(positions[end - 1], key, window, mine, start < 0))
            elif mine:
                self.rest[self._window(number)][key] = mine
        return count + added

    def elements(self, key: Any, window: Any, values: list[Any], *, is_begun: bool) -> list[Any]:
        contents = self.logic.contents
        if is_begun:
            contents.add_groups(window, {key: values})
            elements = contents.elements(key, window)
            contents.remove(key, window)
        else:
            elements = contents.elements_of(values)
        return contents.copies(elements) if self._windows.slide < self._windows.size else elements


class GlobalCountPath(CountingPath):
    """The global window under a count trigger, which may purge."""

    namespace = GLOBAL_WINDOW

    def __init__(self, logic: WindowLogic) -> None:
        trigger = logic.trigger
        self._purges = isinstance(trigger, PurgingTrigger)
        nested = trigger.nested_trigger if isinstance(trigger, PurgingTrigger) else trigger
        self._count = cast("CountTrigger", nested).count
        descriptor = logic.trigger_context.own_descriptor(CountTrigger(self._count).descriptor)
        super().__init__(logic, logic.state.value_table(descriptor.name))

    def write_counts(self, counts: dict[Any, int]) -> None:
        # The trigger keeps no count of 0 either.
        write_all(self.table, GLOBAL_WINDOW, {k: count for k, count in counts.items() if count})
        for key, count in counts.items():
            if not count:
                self.table.remove(key, GLOBAL_WINDOW)

    def split(self, key: Any, values: list[Any], positions: list[int], count: int) -> int:
        start, end = 0, max(1, self._count - count)
        while end <= len(values):
            mine = values[start:end]
            self.firings.append(_Firing(positions[end - 1], key, GLOBAL_WINDOW, mine, True))
            start, end = end, end + self._count
            count = 0
        if start < len(values):
            self.rest[GLOBAL_WINDOW][key] = values[start:]
        return count + len(values) - start

    def elements(self, key: Any, window: Any, values: list[Any], *, is_begun: bool) -> list[Any]:
        contents = self.logic.contents
        contents.add_groups(window, {key: values})
        if not self._purges:
            return contents.kept_elements(key, window)
        elements = contents.elements(key, window)
        contents.remove(key, window)
        return elements


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
