"""The two halves of a lowered window aggregate.

    source stage: PartialAggregator   records -> partials (key, pane, number of records, part)
    window stage: PartialPath        partials -> windows, firing as ever

A *pane* is the longest interval of which all windows consist; a tumbling window is one pane. The
aggregator may keep a pane back as long as its channel's watermark has not reached the end of any
window that holds it: until then no record of it can be late and none of its windows fires, so it
does not matter when the receiver hears of them. Everything goes out before such a watermark, before
a change of idleness and at the end of the epoch. The receiver decides with its own watermark, and
its state is that of the row path.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from penstock.core.records import Batch, ColumnBatch, ColumnName, NotColumnar
from penstock.core.times import NO_TIMESTAMP
from penstock.operators.errors import results_of, user_code
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.windows.aggregates import (
    AvgAggregate,
    FieldAggregate,
    SumAggregate,
    singles_of,
    take,
)
from penstock.operators.windows.aligned import AlignedPath
from penstock.operators.windows.assigners import AlignedWindows, missing_timestamp
from penstock.operators.windows.contents import AggregateContents, Aggregated
from penstock.operators.windows.operator import WindowLogic, WindowParts

if TYPE_CHECKING:
    from penstock.operators.functions import AggregateFunction
    from penstock.operators.windows.aggregates import Single


# Groups Arrow columns by pane and key, where Arrow computes exactly what Python would.
#
# What Arrow would compute otherwise comes back as lists of values, for Python to fold in their
# order; keys that Python compares otherwise than Arrow (floats, None) are `NotColumnar` altogether.

Partials = tuple[list[Any], list[int], list[list[Any]]]
"""Keys, numbers of records, and for each aggregate the parts; all side by side."""

Target = int | tuple[int]
"""What partials belong to: the pane that starts there, or, in a tuple, just the one window."""

_FAR: Final = 1 << 61
"""Timestamps beyond this may overflow on the way to their pane."""
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Panes:
    """How windows are cut into panes."""

    size: int  # Length of a window.
    slide: int  # From one window to the next.
    offset: int  # Start of some window.
    pane: int  # Length of a pane.

    @staticmethod
    def of(size: int, slide: int, offset: int) -> Panes:
        """Returns the panes of tumbling or sliding windows without gaps."""
        return Panes(size, slide, offset, math.gcd(size, slide))

    def start_of(self, timestamp: int) -> int:
        """Returns the pane of an instant."""
        return timestamp - (timestamp - self.offset) % self.pane

    def windows_of(self, start: int) -> range:
        """Returns the starts of the windows that hold a pane, latest first."""
        newest = start - (start - self.offset) % self.slide
        return range(newest, start - self.size, -self.slide)

    def due(self, target: Target) -> int:
        """Returns the first watermark at which a window of the target is over."""
        start = target[0] if isinstance(target, tuple) else self.windows_of(target)[-1]
        return start + self.size - 1


class ColumnGroups:
    """Groups the columns of one exchange.

    Args:
        columns: The fields of the key.
        singles: What to compute.
        panes: How time is cut.
    """

    def __init__(
        self, columns: tuple[ColumnName, ...], singles: tuple[Single, ...], panes: Panes
    ) -> None:
        self._columns = columns
        self._singles = singles
        self._panes = panes

    @cached_property
    def _arrow(self) -> Any:
        return importlib.import_module("pyarrow")

    @cached_property
    def _compute(self) -> Any:
        return importlib.import_module("pyarrow.compute")

    def lowest(self, batch: ColumnBatch) -> int | None:
        """Returns the smallest timestamp, or None if columns will not do for some."""
        found = self._compute.min_max(batch.stamps)
        lowest, highest = found["min"].as_py(), found["max"].as_py()
        if lowest < -_FAR or highest > _FAR:
            return None
        return lowest  # type: ignore[no-any-return]

    def group(self, batches: list[ColumnBatch]) -> dict[Target, Partials]:
        """Returns the partials; keys in the order of their first records."""
        names = batches[0].names
        if any(batch.names != names for batch in batches):
            raise NotColumnar("columns differ from batch to batch")
        table = self._arrow.Table.from_batches([batch.arrow for batch in batches])
        stamps = self._arrow.chunked_array([batch.stamps for batch in batches])
        fields = {
            f"key{at}": self._key(table.column(names.index(name)))
            for at, name in enumerate(self._columns)
        }
        calls: list[tuple[Any, str]] = []
        for at, single in enumerate(self._singles):
            if isinstance(single, FieldAggregate):
                name = f"value{at}"
                fields[name] = column = table.column(names.index(single.column))
                calls += [(name, kind) for kind in self._kinds(single, column)]
        panes = self._panes
        if panes.pane != panes.size and any(kind == "list" for _, kind in calls):
            # Panes of one window would put the values of a key out of their order.
            return self._by_window(fields, stamps, calls)
        return self._by_pane(fields, stamps, calls)

    def _key(self, key: Any) -> Any:
        types, kind = self._arrow.types, key.type
        if types.is_dictionary(kind):
            kind = kind.value_type
            key = key.cast(kind)
        is_plain = (
            types.is_integer(kind)
            or types.is_string(kind)
            or types.is_large_string(kind)
            or types.is_boolean(kind)
            or types.is_date32(kind)
        )
        if not is_plain or key.null_count:
            raise NotColumnar(f"key column of type {kind} with {key.null_count} nulls")
        return key

    def _kinds(self, single: FieldAggregate, column: Any) -> list[str]:
        """Returns what Arrow is to compute for an aggregate; `list` leaves it to Python."""
        types, kind = self._arrow.types, column.type
        if isinstance(single, SumAggregate | AvgAggregate):
            if not types.is_integer(kind) or not self._fits(column):
                return ["list"]
            return ["sum"] if isinstance(single, SumAggregate) else ["sum", "count"]
        is_text = types.is_string(kind) or types.is_large_string(kind)
        return [single.kind] if is_text or types.is_integer(kind) else ["list"]

    def _fits(self, column: Any) -> bool:
        """Returns whether all sums of these integers fit into 64 bits."""
        found = self._compute.min_max(column)
        lowest, highest = found["min"].as_py(), found["max"].as_py()
        if lowest is None:
            return True
        return bool(max(abs(lowest), abs(highest)) * len(column) < _INT64)

    def _by_pane(
        self, fields: dict[str, Any], stamps: Any, calls: list[tuple[Any, str]]
    ) -> dict[Target, Partials]:
        compute, panes = self._compute, self._panes
        found = compute.min_max(stamps)
        first = panes.start_of(found["min"].as_py())
        if found["max"].as_py() < first + panes.pane:
            grouped = self._grouped(fields, calls)
            return {first: self._partials(grouped, grouped["count_all"])}
        # Counted from the first pane nothing is negative, so that truncation is rounding down.
        numbers = compute.divide(compute.subtract(stamps, first), panes.pane)
        grouped = self._grouped({"pane": numbers, **fields}, calls)
        keys, counts, parts = self._partials(grouped, grouped["count_all"])
        split: dict[int, list[int]] = {}
        for at, number in enumerate(grouped["pane"]):
            split.setdefault(number, []).append(at)
        return {
            first + number * panes.pane: (
                [keys[at] for at in chosen],
                [counts[at] for at in chosen],
                [[part[at] for at in chosen] for part in parts],
            )
            for number, chosen in split.items()
        }

    def _by_window(
        self, fields: dict[str, Any], stamps: Any, calls: list[tuple[Any, str]]
    ) -> dict[Target, Partials]:
        compute, panes = self._compute, self._panes
        found = compute.min_max(stamps)
        oldest = panes.windows_of(panes.start_of(found["min"].as_py()))[-1]
        newest = panes.windows_of(panes.start_of(found["max"].as_py()))[0]
        table = self._arrow.table({**fields, "stamp": stamps})
        result: dict[Target, Partials] = {}
        for start in range(oldest, newest + 1, panes.slide):
            inside = compute.and_(
                compute.greater_equal(stamps, start), compute.less(stamps, start + panes.size)
            )
            chosen = table.filter(inside)
            if not chosen.num_rows:
                continue
            # A record is late when the newest of its windows is over, so only that one counts it.
            is_newest = compute.less(chosen.column("stamp"), start + panes.slide)
            columns = {name: chosen.column(name) for name in fields}
            columns["newest"] = is_newest.cast("int64")
            grouped = self._grouped(columns, [*calls, ("newest", "sum")])
            result[start,] = self._partials(grouped, grouped["newest_sum"])
        return result

    def _grouped(
        self, fields: dict[str, Any], calls: list[tuple[Any, str]]
    ) -> dict[str, list[Any]]:
        """Groups by keys and panes; one thread, since a subtask has one core, and in order."""
        by = [name for name in fields if name.startswith(("pane", "key"))]
        grouped = self._arrow.table(fields).group_by(by, use_threads=False)
        result = grouped.aggregate([*calls, ([], "count_all")])
        return {name: result.column(name).to_pylist() for name in result.column_names}

    def _partials(self, grouped: dict[str, list[Any]], counts: list[int]) -> Partials:
        keys = [grouped[f"key{at}"] for at in range(len(self._columns))]
        combined = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        parts = [self._part(at, single, grouped) for at, single in enumerate(self._singles)]
        return combined, counts, parts

    def _part(self, at: int, single: Single, grouped: dict[str, list[Any]]) -> list[Any]:
        if not isinstance(single, FieldAggregate):
            return grouped["count_all"]
        values = grouped.get(f"value{at}_list")
        if values is not None:
            return values
        if isinstance(single, AvgAggregate):
            totals, numbers = grouped[f"value{at}_sum"], grouped[f"value{at}_count"]
            return [(total or 0, number) for total, number in zip(totals, numbers, strict=True)]
        return grouped[f"value{at}_{single.kind}"]


RECORDS_INSIDE: Final = "numRecordsInsidePartials"
"""Counts the records that partials stand for, less the partials, which are counted as records."""
HELD_RECORDS: Final = 1_000_000
"""After so many records the columns that wait are grouped, at any watermark."""


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
        """Adds records."""
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
        """Groups records where columns cannot be grouped, one window at a time."""
        values, timestamps = batch.values, batch.timestamps
        assigner, panes = self._spec.assigner, self._panes
        if timestamps is None:
            raise missing_timestamp(assigner, values[0])
        if NO_TIMESTAMP in timestamps:
            raise missing_timestamp(assigner, values[timestamps.index(NO_TIMESTAMP)])
        records = iter(values)
        with user_code(self._spec.name, values, records, before="the key selector"):
            keys = results_of(self._spec.selector, values, records)
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
    window: WindowParts  # The operator as the program said it.

    def build(self) -> OperatorLogic:
        return WindowLogic(self.window, PartialPath)


class PartialPath(AlignedPath):
    """Adds partials to windows; state, timers and results are those of the row path."""

    def __init__(self, logic: WindowLogic) -> None:
        super().__init__(logic)
        assert isinstance(logic.parts.contents, AggregateContents)
        self._panes = _panes_of(self.windows)
        function = logic.evaluated.function()
        # Accumulators into which parts go instead of records.
        self._contents = Aggregated(logic.context, function, add=partial(take, function))
        logic.contents = logic.evaluated = self._contents
        self._inside = logic.context.metrics.counter(RECORDS_INSIDE)

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        by_target: dict[Target, tuple[list[Any], list[Any], list[int]]] = {}
        self._inside.inc(sum(count for _, count, _ in values) - len(values))
        for (target, count, part), key in zip(values, keys, strict=True):
            found = by_target.get(target)
            if found is None:
                found = by_target[target] = ([], [], [])
            found[0].append(key)
            found[1].append(part)
            found[2].append(count)
        for target, (of_keys, parts, counts) in by_target.items():
            self._add_to(target, of_keys, parts, counts)

    def _add_to(self, target: Target, keys: list[Any], parts: list[Any], counts: list[int]) -> None:
        starts = target if isinstance(target, tuple) else self._panes.windows_of(target)
        is_late = True
        for start in starts:
            window = self.window_at(start)
            if window[1] - 1 > self.logic.watermark:
                is_late = False
                self.firing.add_timers(self._contents.add_each(window, keys, parts), window)
        if is_late:
            self.logic.late_records.inc(sum(counts))
