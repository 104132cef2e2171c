"""The first operator of a source stage: reads splits, makes event time, emits.

Each split has a watermark generator of its own; the subtask's watermark is the minimum over its
active splits, as Flink does per split. A finished split no longer holds it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.source import READ_RECORDS, Budget, ReadResult, Split
from penstock.core.columns import ColumnBatch, NotColumnar
from penstock.core.records import BATCH_RECORDS, Batch
from penstock.core.times import MAX_WATERMARK
from penstock.operators.logic import OperatorLogic
from penstock.operators.watermarks import SourceWatermarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.runtime.records import SourceAssignment, SubtaskReport
    from penstock.runtime.specs import SourceSpec

COLUMN_READS: Final = 8
"""So many of these are read at once as columns, where each call costs more."""


class SourceLogic(OperatorLogic):
    """Reads the splits of one subtask."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._rescaled: list[Any] = []
        """Generators of former subtasks, until it is known which splits are read here now."""

    def open(self) -> None:
        self._reader = self._spec.source.create_reader()

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
        """Reads within the budget; yields after each batch so that frames can be handed on."""
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
        left = assignment.budget.max_records
        side_by_side = sum(
            split.concurrent and split.split_id not in self._paused
            for split, _ in assignment.splits
        )
        unfinished = 0
        for split, position in () if assignment.stop else assignment.splits:
            if split.split_id in self._paused:
                unfinished += 1
                continue
            finished = False
            # Splits that are read side by side share the budget; one with a backlog must not starve
            # those behind it. What it leaves goes to the next.
            allowed = -(-left // side_by_side) if split.concurrent else left
            side_by_side -= split.concurrent
            while allowed > 0 and not finished:
                result = self._reader.read(split, position, self._slice(assignment.budget, allowed))
                position, finished = result.position, result.finished  # noqa: PLW2901
                allowed -= result.count
                left -= result.count
                report.records_read += result.count
                self._hand_on(split, result)
                yield
                if not result.has_more or self._is_beyond(assignment.limit, split):
                    break
            report.positions[split.split_id] = position
            if finished:
                report.finished_splits.append(split.split_id)
                self._watermarks.finish_split(split.split_id)
                self._advance()
            else:
                unfinished += 1
                report.backlog = report.backlog or allowed <= 0
        if assignment.stop or (assignment.is_last and not unfinished):
            report.input_ended = True
            self._end()
        yield

    def _is_beyond(self, limit: int | None, split: Split) -> bool:
        if limit is None:
            return False
        watermark = self._watermarks.of_splits().get(split.split_id)
        return watermark is not None and watermark > limit

    def _slice(self, budget: Budget, allowed: int) -> Budget:
        strategy = self._spec.strategy
        is_aligned = strategy is not None and strategy.alignment is not None
        reads = COLUMN_READS if self._spec.reads_columns and not is_aligned else 1
        return replace(
            budget,
            max_records=min(allowed, reads * READ_RECORDS),
            max_bytes=reads * budget.max_bytes,
            reads=reads,
        )

    def _hand_on(self, split: Split, result: ReadResult) -> None:
        if not self._spec.reads_columns:
            self._hand_on_records(split, result)
            return
        # Cut where records would have been read, so that watermarks are the same.
        for start in range(0, result.count, READ_RECORDS):
            if result.columns is not None:
                self._hand_on_columns(split, result.columns.slice(start, READ_RECORDS))
            else:
                part = result.values[start : start + READ_RECORDS]
                self._hand_on_records(split, ReadResult(part, None))

    def _hand_on_columns(self, split: Split, columns: ColumnBatch) -> None:
        try:
            batch = self._watermarks.assign_columns(split.split_id, columns)
        except NotColumnar:
            self._hand_on_records(split, ReadResult(columns.values, None))
            return
        self._tell_active()
        self.output.emit(batch)
        self._advance()

    def _hand_on_records(self, split: Split, result: ReadResult) -> None:
        for values, timestamps, _ in self._watermarks.assign(split.split_id, result):
            if values:
                self._tell_active()
                self._emit(values, timestamps)
            self._advance()

    def _emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        if len(values) <= BATCH_RECORDS:
            self.output.emit(Batch(values, timestamps))
            return
        clock = self.context.clock
        last = (len(values) - 1) // BATCH_RECORDS * BATCH_RECORDS
        for start in range(0, last + 1, BATCH_RECORDS):
            clock.mid_read = start < last
            end = start + BATCH_RECORDS
            stamps = None if timestamps is None else timestamps[start:end]
            self.output.emit(Batch(values[start:end], stamps))

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
        self._reader.close()
