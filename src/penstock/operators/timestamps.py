"""`assign_timestamps_and_watermarks` as an operator of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.times import MAX_WATERMARK
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.operators.watermark_tracker import WatermarkTracker

if TYPE_CHECKING:
    from penstock.core.records import Batch


@dataclass(frozen=True)
class TimestampsAndWatermarksSpec(OperatorSpec):
    """New timestamps and watermarks for a stream; those it had are replaced."""

    strategy: WatermarkStrategy

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, WatermarkStrategy):
            raise ProgramError(
                f"assign_timestamps_and_watermarks() takes a WatermarkStrategy, but got "
                f"{type(self.strategy).__name__}. Begin with "
                "WatermarkStrategy.for_monotonous_timestamps()."
            )

    def build(self) -> OperatorLogic:
        return TimestampsAndWatermarksLogic(self.strategy)


class TimestampsAndWatermarksLogic(OperatorLogic):
    """Watermarks and idleness from upstream end here, but for the end of input."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self) -> None:
        self._tracker = WatermarkTracker(self._strategy, self.context.name)
        self._is_idle = False

    def restore(self, state: Any) -> None:
        self._tracker.restore(state)
        self._is_idle = self._tracker.is_idle

    def snapshot(self) -> Any:
        return self._tracker.snapshot()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        count = len(batch)
        if not count:
            return
        batch, emissions = self._tracker.take(batch, ends_read=not self.context.clock.mid_read)
        if self._is_idle:
            self._is_idle = False
            self.output.emit_idle(idle=False)
        start = 0
        for end, watermark in emissions:
            if end > start:
                self.output.emit(batch if end - start == count else batch.part(start, end))
            self._emit_watermark(watermark)
            start = end
        if start < count:
            self.output.emit(batch.part(start, count) if start else batch)
        self._tell_status()

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self._emit_watermark(watermark)

    def advance_input_status(self, *, idle: bool) -> None:
        pass

    def is_idle_behind(self, before: bool) -> bool:
        return self._is_idle

    def advance_processing_time(self, now_ms: int) -> None:
        # What rose within a micro-batch goes out before the next one comes.
        self._emit_watermark(self._tracker.watermark)
        self._tell_status()

    def end_of_epoch(self) -> None:
        if self.watermark == MAX_WATERMARK:
            return
        watermark = self._tracker.on_periodic(self.context.clock.now_ms)
        if watermark is not None:
            self._emit_watermark(watermark)
        self._tell_status()

    def next_processing_timer(self) -> int | None:
        return None if self.watermark == MAX_WATERMARK else self._tracker.next_check()

    def _emit_watermark(self, watermark: int) -> None:
        if watermark > self.watermark and (
            not self.context.clock.mid_batch or watermark == MAX_WATERMARK
        ):
            self.watermark = watermark
            self.output.emit_watermark(watermark)

    def _tell_status(self) -> None:
        if self._tracker.is_idle != self._is_idle and not self.context.clock.mid_batch:
            self._is_idle = self._tracker.is_idle
            self.output.emit_idle(idle=self._is_idle)
