"""Count windows, and the global window under a count trigger, a batch at a time.

A batch is grouped by key. Which of a key's records complete a window follows from how many came
before, so everything else is added at once. Windows that fill up are evaluated in the order of the
records that fill them, as on the general path.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from penstock.operators.windows.operator import WindowLogic
from penstock.operators.windows.triggers import CountTrigger, PurgingTrigger
from penstock.operators.windows.window_state import group_by_key, look_up, write_all
from penstock.operators.windows.windows import GLOBAL_WINDOW, CountWindow

if TYPE_CHECKING:
    from penstock.operators.windows.assigners import CountWindows
    from penstock.operators.windows.spec import WindowSpec
    from penstock.state.tables import ValueTable

_CACHED_WINDOWS = 10_000


class _Firing(NamedTuple):
    """A window to evaluate."""

    position: int  # Position in the batch of the record that fills it.
    key: Any
    window: Any
    values: list[Any]  # Its records in this batch.
    has_more: bool  # Whether there may be earlier ones in state.


class Counting(WindowLogic):
    """What count windows and the counted global window have in common."""

    def process_records(
        self, values: list[Any], timestamps: list[int] | None, keys: list[Any]
    ) -> None:
        positions_of = group_by_key(keys, list(range(len(keys))))
        self.firings: list[_Firing] = []
        self.rest: defaultdict[Any, dict[Any, list[Any]]] = defaultdict(dict)
        count_of = look_up(self.count_table(), positions_of, self.count_namespace)
        counts: dict[Any, int] = {}
        split = self.split
        for key, positions in positions_of.items():
            mine = [values[position] for position in positions]
            counts[key] = split(key, mine, positions, count_of(key) or 0)
        self.firings.sort(key=itemgetter(0))
        for firing in self.firings:
            self.fire(firing)
        for window, groups in self.rest.items():
            self.contents.add_groups(window, groups)
        self.write_counts(counts)

    count_namespace: Any = None

    def count_table(self) -> ValueTable:
        """Returns where the number of records per key is."""
        raise NotImplementedError

    def write_counts(self, counts: dict[Any, int]) -> None:
        """Keeps the numbers that `split` returned."""
        write_all(self.count_table(), self.count_namespace, counts)

    def split(self, key: Any, values: list[Any], positions: list[int], count: int) -> int:
        """Deals the records of a key out to `firings` and `rest`; returns the new count."""
        raise NotImplementedError

    def fire(self, firing: _Firing) -> None:
        """Evaluates one window."""
        raise NotImplementedError


class CountWindowLogic(Counting):
    """Count windows under their default trigger; full windows are freed."""

    def open(self) -> None:
        super().open()
        self._windows = cast("CountWindows", self.assigner)
        self._made: dict[int, CountWindow] = {}
        self._seen = self.state.value_table(self._windows.descriptor.name)

    def count_table(self) -> ValueTable:
        return self._seen

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

    def _window(self, number: int) -> CountWindow:
        window = self._made.get(number)
        if window is None:
            if len(self._made) >= _CACHED_WINDOWS:
                self._made.clear()
            window = self._made[number] = CountWindow(number)
        return window

    def fire(self, firing: _Firing) -> None:
        _, key, window, values, has_more = firing
        contents, state = self.contents, self.state
        state.key = key
        state.namespace = window
        if has_more:
            contents.add_groups(window, {key: values})
            elements = contents.elements(key, window)
            contents.remove(key, window)
        else:
            elements = contents.elements_of(values)
        if self._windows.slide < self._windows.size:
            elements = contents.copies(elements)
        self.evaluate(key, window, elements)
        self.clear_function_state(window)


class GlobalCountLogic(Counting):
    """The global window under a count trigger, which may purge."""

    count_namespace = GLOBAL_WINDOW

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self._purges = isinstance(self.trigger, PurgingTrigger)
        nested = self.trigger.nested_trigger if self._purges else self.trigger  # type: ignore[attr-defined]
        self._count = cast("CountTrigger", nested).count

    def open(self) -> None:
        super().open()
        descriptor = self.trigger_context.own_descriptor(CountTrigger(self._count).descriptor)
        self._counts = self.state.value_table(descriptor.name)

    def count_table(self) -> ValueTable:
        return self._counts

    def write_counts(self, counts: dict[Any, int]) -> None:
        # The trigger keeps no count of 0 either.
        write_all(self._counts, GLOBAL_WINDOW, {k: count for k, count in counts.items() if count})
        for key, count in counts.items():
            if not count:
                self._counts.remove(key, GLOBAL_WINDOW)

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

    def fire(self, firing: _Firing) -> None:
        _, key, window, values, _ = firing
        contents, state = self.contents, self.state
        state.key = key
        state.namespace = window
        contents.add_groups(window, {key: values})
        if self._purges:
            elements = contents.elements(key, window)
            contents.remove(key, window)
        else:
            elements = contents.kept_elements(key, window)
        self.evaluate(key, window, elements)
