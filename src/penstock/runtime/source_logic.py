"""The first operator of a source stage: reads splits, makes event time, emits.

Each split has a watermark generator of its own; the subtask's watermark is the minimum over its
active splits, as Flink does per split. A finished split no longer holds it back.

An epoch reads until its budget of records, bytes or time is used up. Records are read a few at a
time, as many as take some tens of milliseconds on their way through the chain, so that a slow
function ends an epoch in time. What is late must not depend on that: periodic watermarks rise
where a read of `READ_RECORDS` would end.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import (
    READ_RECORDS,
    Budget,
    MeteredReader,
    ReadResult,
    Split,
)
from penstock.core.records import BATCH_RECORDS, Batch, ColumnBatch
from penstock.core.times import MAX_WATERMARK
from penstock.operators.logic import OF_SOURCES, OperatorLogic
from penstock.operators.source_watermarks import SourceWatermarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.runtime.lowering import SourceSpec
    from penstock.runtime.records import SourceAssignment, SubtaskReport

COLUMN_READS: Final = 8
"""So many of these are read at once as columns, where each call costs more."""

READ_MS: Final = 50.0
"""How long a read and what follows it should take: the epoch ends that much late at most."""

_GROWTH: Final = 8


class ReadSize:
    """How many records to read at once, learnt from how long the reads before took.

    What the chain does is taken as work for each record. A read may cost the same however much it
    gives (a request to a server), and is never made smaller then: reads of different sizes tell.

    Attributes:
        records: How many to read next.
    """

    def __init__(self, least: int = 1) -> None:
        self.records = self._least = least
        self._worked_records = self._worked_ms = 0.0
        self._last_records = 0
        self._last_read_ms = 0.0
        self._per_read_record_ms = 0.0

    def within(self, left_ms: float) -> int:
        """Returns how many to read when so much time is left."""
        cost = self._per_read_record_ms + self._work_ms
        if cost * self.records <= left_ms:
            return self.records
        # Nothing may be known of the cost when the time is over, as where many subtasks share it.
        return self._bounded(left_ms / cost) if cost else self._least

    @property
    def _work_ms(self) -> float:
        return self._worked_ms / self._worked_records if self._worked_records else 0.0

    def learn(self, records: int, read_ms: float, work_ms: float) -> None:
        """Takes in what a read and the work on its records took."""
        if not records:
            return
        self._worked_records = self._worked_records / 2 + records
        self._worked_ms = self._worked_ms / 2 + work_ms
        more = records - self._last_records
        if self._last_records and abs(more) * 2 >= self._last_records:
            self._per_read_record_ms = max((read_ms - self._last_read_ms) / more, 0.0)
        elif self._last_records and read_ms > READ_MS + 4 * self._last_read_ms:
            # It was quick before: smaller reads will show whether that helps.
            self._per_read_record_ms = read_ms / records
        each_ms = self._per_read_record_ms = min(self._per_read_record_ms, read_ms / records)
        self._last_records, self._last_read_ms = records, read_ms
        fixed_ms = read_ms - each_ms * records
        wanted = min(
            READ_MS / max(self._work_ms, 1e-9), max(READ_MS, fixed_ms) / max(each_ms, 1e-9)
        )
        self.records = self._bounded(min(wanted, self.records * _GROWTH))

    def _bounded(self, records: float) -> int:
        return max(self._least, min(int(records), COLUMN_READS * READ_RECORDS))


class _Room:
    """The bytes that a subtask may still read and send in an epoch.

    Splits that are read side by side share them, and something is read of each in every epoch,
    however large; of others something of the first.
    """

    def __init__(self, max_bytes: int, reader: MeteredReader, report: SubtaskReport) -> None:
        self._max_bytes = max_bytes
        self._reader = reader
        self._report = report
        self._read_before = reader.bytes_read
        self._sent_before = 0
        self._ends_at = max_bytes
        self._has_read = False

    def open(self, side_by_side: int) -> None:
        """Begins a split, which shares what is left with those behind it that are read too."""
        moved = self._moved()
        self._ends_at = moved + max(self._max_bytes - moved, 0) // max(side_by_side, 1)
        if side_by_side:
            self._has_read = False

    def is_full(self) -> bool:
        """Whether no more should be read of the split."""
        return self._has_read and self._moved() >= self._ends_at

    def took(self, records: int) -> None:
        """Takes in what was read, once its frames have been handed on."""
        self._has_read |= records > 0
        self._report.bytes_read = self._reader.bytes_read - self._read_before
        sent = self._report.bytes_sent
        self._reader.emitted(records, sent - self._sent_before)
        self._sent_before = sent

    def _moved(self) -> int:
        return self._report.bytes_read + self._report.bytes_sent


class SourceLogic(OperatorLogic):
    """Reads the splits of one subtask.

    Args:
        spec: What to read.
        monotonic_s: Says how time goes by.
    """

    def __init__(
        self, spec: SourceSpec, monotonic_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._spec = spec
        self._monotonic_s = monotonic_s
        self._rescaled: list[Any] = []
        """Generators of former subtasks, until it is known which splits are read here now."""
        self._first: str | None = None
        """The split that the last epoch had no time for."""

    def open(self) -> None:
        reader = self._spec.source.create_reader()
        self._metrics = self.context.metrics.add_group(OF_SOURCES)
        reader.register_metrics(self._metrics)
        self._reader = MeteredReader(reader, knows_bytes=self._spec.reads_columns)
        self._size = ReadSize(self.at_once)

    def restore(self, state: Any) -> None:
        # An epoch that failed may have ended in the middle of a read.
        self.context.clock.mid_read = False
        self._watermarks = self._new_watermarks()
        self._watermarks.restore(state)
        self._rescaled = []

    def _new_watermarks(self) -> SourceWatermarks:
        return SourceWatermarks(
            self._spec.strategy,
            name=self.context.name,
            source_emits=self._spec.source.emits_watermarks,
        )

    def restore_rescaled(self, states: list[Any]) -> None:
        self._watermarks = self._new_watermarks()
        self._rescaled = states

    def snapshot(self) -> Any:
        return self._watermarks.snapshot()

    def read(self, assignment: SourceAssignment, report: SubtaskReport) -> Iterator[None]:
        """Reads within the budget; yields after each read so that frames can be handed on."""
        if self._rescaled:
            ids = [split.split_id for split, _ in assignment.splits]
            self._watermarks.restore_rescaled(self._rescaled, ids)
            self._rescaled = []
        for split, _ in assignment.splits:
            # Partitions of a log are read side by side: none may run ahead of one without records.
            # Ranges of a file follow each other, so a range counts once its turn comes.
            if split.concurrent:
                self._watermarks.add_split(split.split_id)
        self._paused = assignment.paused
        self._report = report
        budget = assignment.budget
        left = budget.max_records
        ends_s = self._monotonic_s() + budget.max_ms / 1000
        side_by_side = sum(
            split.concurrent and split.split_id not in self._paused
            for split, _ in assignment.splits
        )
        unfinished = 0
        self._room = _Room(budget.max_bytes, self._reader, report)
        for split, position in () if assignment.stop else self._in_turn(assignment.splits):
            if split.split_id in self._paused:
                unfinished += 1
                continue
            # Splits that are read side by side share the budget; one with a backlog must not starve
            # those behind it. What it leaves goes to the next.
            allowed, stops_s = left, ends_s
            self._room.open(side_by_side if split.concurrent else 0)
            if split.concurrent:
                now_s = self._monotonic_s()
                allowed = -(-left // side_by_side)
                stops_s = now_s + max(ends_s - now_s, 0.0) / side_by_side
                side_by_side -= 1
            before = report.records_read
            yield from self._read_split(split, position, assignment, allowed, stops_s)
            left -= report.records_read - before
            unfinished += split.split_id not in report.finished_splits
        self.context.clock.mid_read = False
        if assignment.stop or (assignment.is_last and not unfinished):
            report.input_ended = True
            self._end()
        yield

    def _in_turn(self, splits: tuple[tuple[Split, Any], ...]) -> tuple[tuple[Split, Any], ...]:
        """Returns the splits in the order in which they are read now."""
        first, self._first = self._first, None
        for at, (split, _) in enumerate(splits):
            if split.concurrent and split.split_id == first:
                return splits[at:] + splits[:at]
        return splits

    def _read_split(
        self,
        split: Split,
        position: Any,
        assignment: SourceAssignment,
        allowed: int,
        stops_s: float,
    ) -> Iterator[None]:
        """Reads up to so many records until then; something in every epoch, however slow."""
        report, room = self._report, self._room
        finished = is_late = is_full = False
        since_rise = 0
        before = report.records_read
        while allowed > 0 and not finished:
            began_s = self._monotonic_s()
            is_late = began_s >= stops_s and bool(report.positions or report.records_read)
            is_full = room.is_full()
            if is_late or is_full:
                break
            left_ms = (stops_s - began_s) * 1000
            size = self._slice(
                assignment.budget, min(allowed, self._size.within(left_ms)), since_rise
            )
            result = self._reader.read(split, position, size)
            read_s = self._monotonic_s()
            position, finished = result.position, result.finished
            allowed -= result.count
            report.records_read += result.count
            goes_on = result.has_more and allowed > 0 and not finished
            since_rise = self._hand_on(split, result, since_rise, goes_on=goes_on)
            worked_s = self._monotonic_s() - read_s
            self._size.learn(result.count, (read_s - began_s) * 1000, worked_s * 1000)
            yield
            room.took(result.count)
            if not result.has_more or self._is_beyond(assignment.limit, split):
                break
        if (is_late or is_full) and report.records_read == before and self._first is None:
            self._first = split.split_id
        report.positions[split.split_id] = position
        if finished:
            report.finished_splits.append(split.split_id)
            self._watermarks.finish_split(split.split_id)
            self._advance()
        else:
            report.backlog = report.backlog or is_late or is_full or allowed <= 0
            report.cut_short = report.cut_short or is_late or is_full

    def _is_beyond(self, limit: int | None, split: Split) -> bool:
        if limit is None:
            return False
        watermark = self._watermarks.of_splits().get(split.split_id)
        return watermark is not None and watermark > limit

    def _slice(self, budget: Budget, wanted: int, since_rise: int) -> Budget:
        """Returns the budget of one read, which ends where a watermark rises if not before."""
        strategy = self._spec.strategy
        is_aligned = strategy is not None and strategy.alignment is not None
        reads = 1
        if self._spec.reads_columns and not is_aligned and not since_rise:
            reads = max(1, wanted // READ_RECORDS)
        return replace(
            budget,
            max_records=min(wanted, reads * READ_RECORDS - since_rise),
            reads=reads,
        )

    def _hand_on(self, split: Split, result: ReadResult, since_rise: int, *, goes_on: bool) -> int:
        """Hands on what was read; returns how many records wait for a watermark to rise."""
        count = result.count
        for tag, (values, timestamps) in result.rejected.items():
            self._tell_active()
            self._metrics.counter("numRecordsInErrors").inc(len(values))
            for at in range(0, len(values), BATCH_RECORDS):
                end = at + BATCH_RECORDS
                self.output.emit_side(tag, Batch(values[at:end], timestamps[at:end]))
        if not self._spec.reads_columns:
            rises = not goes_on or since_rise + count >= READ_RECORDS
            own = list(result.punctuated)
            if result.watermark is not None:
                own.append((count, result.watermark))
            self._hand_on_part(split, Batch(result.values, result.timestamps), own, rises=rises)
            return 0 if rises else since_rise + count
        # Cut where records would have been read, so that watermarks are the same.
        batch = Batch(result.values) if result.columns is None else result.columns
        start = 0
        while start < count:
            end = min(count, start + READ_RECORDS - since_rise)
            rises = since_rise + end - start >= READ_RECORDS or (end == count and not goes_on)
            since_rise = 0 if rises else since_rise + end - start
            self._hand_on_part(split, batch.part(start, end), [], rises=rises)
            start = end
        return since_rise

    def _hand_on_part(
        self, split: Split, batch: Batch, own: list[tuple[int, int]], *, rises: bool
    ) -> None:
        parts = self._watermarks.assign(split.split_id, batch, own, ends_read=rises)
        for part, watermark in parts:
            if len(part):
                self._tell_active()
                self._emit(part, ends_read=rises or watermark is not None)
            self._advance()

    def _emit(self, batch: Batch, *, ends_read: bool) -> None:
        clock, count = self.context.clock, len(batch)
        clock.mid_read = not ends_read
        if count <= BATCH_RECORDS or isinstance(batch, ColumnBatch):
            self.output.emit(batch)
            return
        for start in range(0, count, BATCH_RECORDS):
            end = start + BATCH_RECORDS
            clock.mid_read = end < count or not ends_read
            self.output.emit(batch.part(start, end))

    def end_of_epoch(self) -> None:
        if self.watermark != MAX_WATERMARK:
            self._watermarks.on_epoch(self.context.clock.now_ms, self._paused)
            self._advance()
            self._tell_idle()
            if self._spec.strategy is not None and self._spec.strategy.alignment is not None:
                self._report.split_watermarks = self._watermarks.of_splits()

    def is_idle_behind(self, before: bool) -> bool:
        return self._watermarks.told_idle

    def next_processing_timer(self) -> int | None:
        return None if self.watermark == MAX_WATERMARK else self._watermarks.next_check()

    def _tell_active(self) -> None:
        if self._watermarks.status_change() is False:
            self.output.emit_idle(idle=False)

    def advance_processing_time(self, now_ms: int) -> None:
        # What rose within a micro-batch goes out before the next one is read.
        self._advance()
        self._tell_idle()

    def _tell_idle(self) -> None:
        """Behind the watermark, which would not count any more."""
        if not self.context.clock.mid_batch and self._watermarks.status_change():
            self.output.emit_idle(idle=True)

    def _advance(self) -> None:
        watermark = self._watermarks.current()
        if watermark > self.watermark and not self.context.clock.mid_batch:
            self.watermark = watermark
            self.output.emit_watermark(watermark)

    def _end(self) -> None:
        if self.watermark != MAX_WATERMARK:
            self.watermark = MAX_WATERMARK
            self.output.emit_watermark(MAX_WATERMARK)

    def close(self) -> None:
        # An interruption may have come before there was a reader.
        reader = getattr(self, "_reader", None)
        if reader is not None:
            reader.close()
