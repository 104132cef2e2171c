"""Timestamps and watermarks of one split or one operator: a strategy at work.

1. `take` gives timestamps to a batch (`assign`), and tells which watermarks follow, and behind
   which record (`on_batch`). It looks at columns instead of records where these say the same.
2. `on_periodic`, at the end of each epoch, asks periodic generators and looks for idleness.

The built-in generators need one `max` per batch. What a user's generator emits in `on_event` keeps
its place among the records.
"""

from __future__ import annotations

import functools
import importlib
import logging
import math
import operator
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import repeat
from typing import Any, Final

from penstock.core.errors import ProgramError, shorten
from penstock.core.records import Batch, ColumnBatch, NotColumnar
from penstock.core.times import MIN_WATERMARK, NO_TIMESTAMP
from penstock.operators.errors import user_code
from penstock.operators.watermark_strategy import (
    TimestampColumn,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    name_of,
    timestamp_function,
    to_timestamp,
)

_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}


@cache
def _arrow() -> Any:
    importlib.import_module("pyarrow.compute")
    return importlib.import_module("pyarrow")


def stamps_of(column: Any) -> Any:
    """Returns a column as milliseconds since 1970, in int64.

    Raises:
        NotColumnar: There are nulls, or values that are no timestamps.
    """
    arrow = _arrow()
    kind = column.type
    if column.null_count:
        raise NotColumnar("there are records without a timestamp")
    if kind == arrow.int64():
        return column
    try:
        if arrow.types.is_integer(kind):
            return column.cast(arrow.int64())
        if arrow.types.is_timestamp(kind):
            return _milliseconds(column.cast(arrow.int64()), kind.unit)
    except arrow.ArrowInvalid as error:
        raise NotColumnar(f"timestamps do not fit: {error}") from error
    raise NotColumnar(f"timestamps are of type {kind}")


def _milliseconds(numbers: Any, unit: str) -> Any:
    compute = _arrow().compute
    if unit == "ms" or not len(numbers):
        return numbers
    if unit == "s":
        return compute.multiply_checked(numbers, 1_000)
    # Counted from the smallest nothing is negative, so that truncation is rounding down.
    per = _PER_MS[unit]
    lowest = compute.min(numbers).as_py() // per
    moved = compute.divide(compute.subtract_checked(numbers, lowest * per), per)
    return compute.add(moved, lowest)


def newest_of(batch: ColumnBatch) -> int:
    """Returns the highest timestamp of a batch that has some."""
    return _arrow().compute.max(batch.stamps).as_py()  # type: ignore[no-any-return]


CHECK_INTERVAL_MS: Final = 200
"""Flink's `pipeline.auto-watermark-interval`: how soon after a record idleness is looked for."""

_OTHER_UNITS: Final = {
    range(1_000_000_000 * per_second, 4_000_000_000 * per_second): (when, unit, cure)
    for per_second, when, unit, cure in (
        (1, "in January 1970", "seconds", "Multiply by 1000"),
        (10**6, "after the year 30,000", "microseconds", "Divide by 1000 (// 1000)"),
        (10**9, "after the year 30,000", "nanoseconds", "Divide by a million (// 1_000_000)"),
    )
}
"""Times of this century in units that timestamps do not have; no events are where they lie."""

_log = logging.getLogger("penstock.timestamps")

Emission = tuple[int, int]
"""Number of records before the watermark, and the watermark."""


class WatermarkTracker:
    """Watermarks of one sequence of records.

    Attributes:
        watermark: The last one that it gave.
        is_idle: Whether it had no records for longer than the strategy's timeout.
    """

    def __init__(self, strategy: WatermarkStrategy | None, name: str = "source") -> None:
        self._strategy = strategy or WatermarkStrategy.no_watermarks()
        self._name = name
        self._assigner = self._strategy.timestamp_assigner
        if self._assigner is not None:
            self._function, self._arity = timestamp_function(self._assigner)
        self._bound_ms = self._strategy.bound_ms
        self._output = _Recorder()
        self._reset()

    def _reset(self) -> None:
        self.watermark = MIN_WATERMARK
        self.is_idle = False
        self._max_timestamp = MIN_WATERMARK + (self._bound_ms or 0) + 1
        self._newest = MIN_WATERMARK
        self._had_records = False
        self._quiet_since: int | None = None
        self._checked_ms: int | None = None
        self._generator = self._make_generator()

    def _make_generator(self) -> WatermarkGenerator | None:
        factory = self._strategy.generator_factory
        if factory is None:
            return None
        with user_code(self._name, what="the factory of for_generator()"):
            generator = factory()
        if not isinstance(generator, WatermarkGenerator):
            raise ProgramError(
                f"the factory of for_generator() in '{self._name}' returned "
                f"{type(generator).__name__}; it must return a WatermarkGenerator."
            )
        return generator

    # -- records ------------------------------------------------------------------------------

    def take(self, batch: Batch, *, ends_read: bool = True) -> tuple[Batch, list[Emission]]:
        """Returns the batch with its timestamps, and the watermarks within and behind it.

        Args:
            batch: Records or columns; columns stay columns where that is possible.
            ends_read: Whether a read of the source ends here; periodic watermarks wait for that.
        """
        if isinstance(batch, ColumnBatch):
            with suppress(NotColumnar):
                return self._take_columns(batch, ends_read=ends_read)
        values = batch.values
        timestamps = self.assign(values, batch.timestamps)
        return Batch(values, timestamps), self.on_batch(values, timestamps, ends_read=ends_read)

    def assign(self, values: list[Any], timestamps: list[int] | None) -> list[int] | None:
        """Returns the timestamps of the records."""
        if self._assigner is None:
            return timestamps
        function = self._function
        records = iter(values)
        with user_code(self._name, values, records):
            if self._arity == 1:
                assigned = [function(value) for value in records]
            elif timestamps is None:
                assigned = [function(value, NO_TIMESTAMP) for value in records]
            else:
                assigned = [
                    function(value, timestamp)
                    for timestamp, value in zip(timestamps, records, strict=True)
                ]
        if not set(map(type, assigned)) <= {int}:
            assigned = [
                stamp if type(stamp) is int else self._as_int(stamp, value)
                for stamp, value in zip(assigned, values, strict=True)
            ]
        for unusual in _OTHER_UNITS:
            if assigned and assigned[0] in unusual:
                _warn_of_unit(self._name, *_OTHER_UNITS[unusual])
        return assigned

    def _as_int(self, stamp: Any, value: Any) -> int:
        if isinstance(self._assigner, TimestampColumn):
            stamp = to_timestamp(stamp)
        if isinstance(stamp, float) and math.isfinite(stamp):
            return int(stamp)  # As PyFlink does: `moment.timestamp() * 1000` is a float.
        if not isinstance(stamp, bool):
            try:
                return operator.index(stamp)
            except TypeError:
                pass
        raise ProgramError(
            f"the timestamp assigner {name_of(self._assigner)} of '{self._name}' returned "
            f"{type(stamp).__name__} {shorten(stamp)} for record {shorten(value)}; a timestamp is "
            "an int in milliseconds since 1970. For seconds: int(seconds * 1000); for a datetime: "
            "int(moment.timestamp() * 1000)."
        )

    def on_batch(
        self, values: list[Any], timestamps: list[int] | None, *, ends_read: bool = True
    ) -> list[Emission]:
        """Returns the watermarks that rise within and behind these records, in order."""
        if not values:
            return []
        self._had_records = True
        self.is_idle = False
        if self._generator is not None:
            return self._ask_generator(self._generator, values, timestamps, ends_read=ends_read)
        if self._bound_ms is None or timestamps is None:
            return []
        newest = max(timestamps)
        self._newest = max(self._newest, newest)
        return self._advance_to(self._newest, len(values)) if ends_read else []

    def _advance_to(self, newest: int, count: int) -> list[Emission]:
        assert self._bound_ms is not None
        if newest <= self._max_timestamp:
            return []
        self._max_timestamp = newest
        self.watermark = newest - self._bound_ms - 1
        return [(count, self.watermark)]

    def _take_columns(
        self, batch: ColumnBatch, *, ends_read: bool
    ) -> tuple[ColumnBatch, list[Emission]]:
        """Does what `take` does without a look at the records.

        Raises:
            NotColumnar: They must be looked at; nothing has changed.
        """
        if self._assigner is not None or batch.stamps is None:
            if not isinstance(self._assigner, TimestampColumn) or self._generator is not None:
                raise NotColumnar("timestamps or watermarks are made by a function")
            batch = batch.with_stamps(stamps_of(batch.column(self._assigner.column)))
        if not len(batch):
            return batch, []
        self._had_records = True
        self.is_idle = False
        if self._bound_ms is None:
            return batch, []
        self._newest = max(self._newest, newest_of(batch))
        return batch, self._advance_to(self._newest, len(batch)) if ends_read else []

    def _ask_generator(
        self,
        generator: WatermarkGenerator,
        values: list[Any],
        timestamps: list[int] | None,
        *,
        ends_read: bool,
    ) -> list[Emission]:
        on_event, output = generator.on_event, self._output
        records = iter(values)
        output.begin(self, len(values), records)
        with user_code(self._name, values, records):
            for timestamp, value in zip(timestamps or repeat(NO_TIMESTAMP), records, strict=False):
                on_event(value, timestamp, output)
            if ends_read:
                generator.on_periodic_emit(output)
        return output.take()

    # -- time ---------------------------------------------------------------------------------

    def on_periodic(self, now_ms: int) -> int | None:
        """Checks for idleness and asks a periodic generator; returns a watermark that rose."""
        if self._is_quiet(now_ms):
            self.is_idle = True
            return None
        if self._generator is None:
            # The last batch of a read may have lost all its records to a filter.
            risen = [] if self._bound_ms is None else self._advance_to(self._newest, 0)
            return risen[0][1] if risen else None
        self._output.begin(self, 0, iter(()))
        with user_code(self._name, what="on_periodic_emit()"):
            self._generator.on_periodic_emit(self._output)
        emissions = self._output.take()
        return emissions[-1][1] if emissions else None

    def _is_quiet(self, now_ms: int) -> bool:
        """Flink's idleness timer: the time runs from the first check that sees no record."""
        timeout_ms = self._strategy.idle_timeout_ms
        if timeout_ms is None:
            return False
        checked_ms, self._checked_ms = self._checked_ms, now_ms
        if self._had_records:
            self._had_records = False
            self._quiet_since = None
        elif self._quiet_since is None or (
            # The last look is long ago: the job was down, which says nothing about its input.
            checked_ms is not None and now_ms - checked_ms > 2 * timeout_ms + 10_000
        ):
            self._quiet_since = now_ms
        else:
            return now_ms - self._quiet_since > timeout_ms
        return False

    def next_check(self) -> int | None:
        """Returns when `on_periodic` is due although no record came, or None."""
        timeout_ms = self._strategy.idle_timeout_ms
        if timeout_ms is None or self.is_idle or self._checked_ms is None:
            return None
        if self._quiet_since is None:
            return self._checked_ms + CHECK_INTERVAL_MS
        return self._quiet_since + timeout_ms + 1

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Returns plain data, and the attributes of a user's generator."""
        generator = None if self._generator is None else attributes_of(self._generator)
        return {
            "watermark": self.watermark,
            "max_timestamp": self._max_timestamp,
            "idle": self.is_idle,
            "had_records": self._had_records,
            "quiet_since": self._quiet_since,
            "checked": self._checked_ms,
            "generator": generator,
        }

    def restore(self, state: Any) -> None:
        """Takes back what `snapshot` returned, or None for the beginning.

        A program may change its strategy: the watermark never goes back, the rest starts again.
        """
        self._reset()
        if state is None:
            return
        self.watermark = state["watermark"]
        self.is_idle = state["idle"]
        self._had_records = state["had_records"]
        self._quiet_since = state["quiet_since"]
        self._checked_ms = state["checked"]
        if self._bound_ms is not None:
            # With another bound than before, the first watermark must still not go back.
            floor = self.watermark + self._bound_ms + 1
            self._max_timestamp = max(self._max_timestamp, state["max_timestamp"], floor)
        if self._generator is not None and state["generator"] is not None:
            set_attributes(self._generator, state["generator"])


class _Recorder(WatermarkOutput):
    """Notes what a generator emits, and how many records it has seen by then."""

    def begin(self, tracker: WatermarkTracker, count: int, records: Iterator[Any]) -> None:
        self._tracker = tracker
        self._count = count
        self._records = records
        self._emissions: list[Emission] = []

    def emit_watermark(self, watermark: int) -> None:
        if type(watermark) is not int:
            raise ProgramError(
                f"emit_watermark() takes an int in milliseconds, but got "
                f"{type(watermark).__name__} {watermark!r:.80}."
            )
        if watermark > self._tracker.watermark:
            self._tracker.watermark = watermark
            position = self._count - operator.length_hint(self._records)
            self._emissions.append((position, watermark))

    def mark_idle(self) -> None:
        self._tracker.is_idle = True

    def mark_active(self) -> None:
        self._tracker.is_idle = False

    def take(self) -> list[Emission]:
        emissions, self._emissions = self._emissions, []
        # Of several behind one record only the last means anything.
        return list(dict(emissions).items())


def attributes_of(thing: Any) -> Any:
    """Returns an object's state without its class, which the program brings."""
    return thing.__getstate__()


def set_attributes(thing: Any, state: Any) -> None:
    """Puts back what `attributes_of` returned."""
    setter = getattr(thing, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for attributes in (plain, slots):
        for name, value in (attributes or {}).items():
            setattr(thing, name, value)


@functools.cache  # Once in each process.
def _warn_of_unit(name: str, when: str, unit: str, cure: str) -> None:
    _log.warning(
        "timestamps of '%s' lie %s: they look like %s, but are milliseconds. %s in the timestamp "
        "assigner.",
        name,
        when,
        unit,
        cure,
    )
