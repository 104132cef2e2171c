"""The two halves of a lowered window aggregate.

    source stage: PartialAggregator   records -> partials (key, pane, number of records, part)
    window stage: PartialWindowLogic  partials -> windows, firing as ever

A *pane* is the longest interval of which all windows consist; a tumbling window is one pane. The
aggregator may keep a pane back as long as its channel's watermark has not reached the end of any
window that holds it: until then no record of it can be late and none of its windows fires, so it
does not matter when the receiver hears of them. Everything goes out before such a watermark, before
a change of idleness and at the end of the epoch. The receiver decides with its own watermark, and
its state is that of the row path.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.columns import ColumnBatch, ColumnName, NotColumnar
from penstock.core.records import Batch
from penstock.core.times import NO_TIMESTAMP
from penstock.operators.errors import user_code
from penstock.operators.function_logic import keys_of
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.windows.aligned import EventTimeAlignedLogic
from penstock.operators.windows.assigners import AlignedWindows, missing_timestamp
from penstock.operators.windows.builtin import FieldAggregate, singles_of, take
from penstock.operators.windows.column_groups import ColumnGroups, Panes, Partials, Target
from penstock.operators.windows.contents import AggregateContents
from penstock.operators.windows.folded import Aggregated

if TYPE_CHECKING:
    from penstock.operators.function_base import AggregateFunction
    from penstock.operators.logic import OperatorContext
    from penstock.operators.windows.builtin import Single
    from penstock.operators.windows.spec import WindowSpec

RECORDS_INSIDE: Final = "numRecordsInsidePartials"
"""Counts the records that partials stand for, less the partials, which are counted as records."""
HELD_RECORDS: Final = 1_000_000
"""Records after which the columns that wait are grouped, whatever the watermark says."""


@dataclass(frozen=True, slots=True)
class PartialAggregation:
    """What a sender needs to aggregate before the exchange."""

    assigner: AlignedWindows  # Tumbling or sliding windows.
    function: AggregateFunction  # A built-in aggregate.
    columns: tuple[ColumnName, ...]  # The fields of the key.
    selector: Callable[[Any], Any]  # The same as a function of a record.
    name: str  # Name of the window operator, for errors.


class PartialAggregator:
    """Aggregates what one subtask sends to a window operator."""

    def __init__(self, spec: PartialAggregation) -> None:
        self._spec = spec
        self._panes = _panes_of(spec.assigner)
        self._singles = singles_of(spec.function)
        self._is_bare = self._singles == (spec.function,)
        self._groups = ColumnGroups(spec.columns, self._singles, self._panes)
        self.reset()

    def reset(self) -> None:
        """Forgets everything; an epoch begins."""
        self._waiting: list[ColumnBatch] = []
        self._waiting_count = 0
        self._waiting_due = math.inf
        self._held: dict[Target, list[Partials]] = {}

    def add(self, batch: Batch) -> None:
        """Takes records."""
        if isinstance(batch, ColumnBatch) and batch.stamps is not None:
            lowest = self._groups.lowest(batch)
            if lowest is not None:
                self._waiting.append(batch)
                self._waiting_count += len(batch)
                due = self._panes.due(self._panes.start_of(lowest))
                self._waiting_due = min(self._waiting_due, due)
                if self._waiting_count >= HELD_RECORDS:
                    self._group()
                return
        self._group()
        self._hold(self._group_rows(batch))

    def due(self, watermark: int) -> Iterator[Batch]:
        """Yields the partials that must be sent before this watermark."""
        if self._waiting_due <= watermark:
            self._group()
        if self._held:
            due = self._panes.due
            for target in [target for target in self._held if due(target) <= watermark]:
                yield from self._batches(target)

    def everything(self) -> Iterator[Batch]:
        """Yields all partials."""
        self._group()
        for target in list(self._held):
            yield from self._batches(target)

    def _batches(self, target: Target) -> Iterator[Batch]:
        for keys, counts, parts in self._held.pop(target):
            ones = parts[0] if self._is_bare else list(zip(*parts, strict=True))
            yield Batch(list(zip([target] * len(keys), counts, ones, strict=True)), None, keys)

    def _hold(self, groups: dict[Target, Partials]) -> None:
        for target, partials in groups.items():
            self._held.setdefault(target, []).append(partials)

    def _group(self) -> None:
        waiting = self._waiting
        if not waiting:
            return
        self._waiting, self._waiting_count, self._waiting_due = [], 0, math.inf
        try:
            groups = self._groups.group(waiting)
        except NotColumnar:
            for batch in waiting:
                self._hold(self._group_rows(batch))
        else:
            self._hold(groups)

    def _group_rows(self, batch: Batch) -> dict[Target, Partials]:
        """Does the same with records, where columns will not do; one window at a time."""
        values, timestamps = batch.values, batch.timestamps
        assigner, panes = self._spec.assigner, self._panes
        if timestamps is None:
            raise missing_timestamp(assigner, values[0])
        if NO_TIMESTAMP in timestamps:
            raise missing_timestamp(assigner, values[timestamps.index(NO_TIMESTAMP)])
        records = iter(values)
        with user_code(self._spec.name, values, records):
            keys = list(map(self._spec.selector, records))
        split: dict[int, dict[Any, list[Any]]] = {}
        newest: Counter[tuple[int, Any]] = Counter()
        for value, timestamp, key in zip(values, timestamps, keys, strict=True):
            starts = panes.windows_of(panes.start_of(timestamp))
            newest[starts[0], key] += 1
            for start in starts:
                split.setdefault(start, {}).setdefault(key, []).append(value)
        return {
            (start,): (
                list(groups),
                [newest[start, key] for key in groups],
                [self._part_of(single, groups) for single in self._singles],
            )
            for start, groups in split.items()
        }

    def _part_of(self, single: Single, groups: dict[Any, list[Any]]) -> list[Any]:
        if not isinstance(single, FieldAggregate):
            return list(map(len, groups.values()))
        column = single.column
        with user_code(self._spec.name, what=f"{single!r}"):
            return [[value[column] for value in group] for group in groups.values()]


def _panes_of(assigner: AlignedWindows) -> Panes:
    return Panes.of(assigner.size, assigner.slide, assigner.offset)


@dataclass(frozen=True, slots=True)
class PartialWindowSpec(OperatorSpec):
    """A window operator whose input is partials."""

    is_keyed = True
    window: WindowSpec  # The operator as the program said it.

    def build(self) -> OperatorLogic:
        return PartialWindowLogic(self.window)


class PartialWindowLogic(EventTimeAlignedLogic):
    """Windows of partials; state, timers and results are those of the row path."""

    def _open_contents(self) -> None:
        super()._open_contents()
        given = self.spec.contents
        assert isinstance(given, AggregateContents)
        self._panes = _panes_of(self.windows)
        evaluated = self._evaluated.function()
        self.contents = self._evaluated = _PartContents(self.context, evaluated)
        self._inside = self.context.metrics.counter(RECORDS_INSIDE)

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if not batch.values:
            return
        keys = keys_of(self, batch)
        self.state.prefetch(keys)
        by_target: dict[Target, tuple[list[Any], list[Any], list[int]]] = {}
        self._inside.inc(sum(count for _, count, _ in batch.values) - len(batch.values))
        for (target, count, part), key in zip(batch.values, keys, strict=True):
            found = by_target.get(target)
            if found is None:
                found = by_target[target] = ([], [], [])
            found[0].append(key)
            found[1].append(part)
            found[2].append(count)
        for target, (of_keys, parts, counts) in by_target.items():
            self._add_to(target, of_keys, parts, counts)
        self.state.namespace = None
        self.results.flush()

    def _add_to(self, target: Target, keys: list[Any], parts: list[Any], counts: list[int]) -> None:
        starts = target if isinstance(target, tuple) else self._panes.windows_of(target)
        is_late = True
        for start in starts:
            window = self.window_at(start)
            if window[1] - 1 > self.watermark:
                is_late = False
                self.add_timers(self.contents.add_each(window, keys, parts), window)
        if is_late:
            self.late_records.inc(sum(counts))


class _PartContents(Aggregated):
    """Accumulators into which parts go instead of records."""

    def __init__(self, context: OperatorContext, function: AggregateFunction) -> None:
        super().__init__(context, function)
        self._aggregate = function

    def first(self, value: Any) -> Any:
        return take(self._aggregate, self._aggregate.create_accumulator(), value)

    def next(self, accumulator: Any, value: Any) -> Any:
        return take(self._aggregate, accumulator, value)
