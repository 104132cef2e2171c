"""Wires the operators of a stage: whatever one emits goes straight into the next.

A chained call is one Python call per batch. Watermarks reach the main and all side outputs; the MAX
watermark is preceded by `end_input`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.copies import snapshots
from penstock.core.records import Batch
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.records import OperatorMetrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.job_graph import ChainedOperator
    from penstock.operators.logic import OperatorContext, OperatorLogic
    from penstock.runtime.exchange import ExchangeWriter


class ChainOutput:
    """The `Output` of one operator in a stage."""

    def __init__(self, object_reuse: bool = False) -> None:
        self._object_reuse = object_reuse
        self.metrics = OperatorMetrics()
        self.watermark = MIN_WATERMARK
        self._main: list[RunningOperator] = []
        self._main_exchanges: list[ExchangeWriter] = []
        self._sides: dict[str, list[RunningOperator]] = {}
        self._side_exchanges: dict[str, list[ExchangeWriter]] = {}

    def add_operator(self, target: RunningOperator, side_tag: str | None) -> None:
        if side_tag is None:
            self._main.append(target)
        else:
            self._sides.setdefault(side_tag, []).append(target)

    def add_exchange(self, writer: ExchangeWriter, side_tag: str | None) -> None:
        if side_tag is None:
            self._main_exchanges.append(writer)
        else:
            self._side_exchanges.setdefault(side_tag, []).append(writer)

    def emit(self, batch: Batch) -> None:
        count = len(batch)
        if not count:
            return
        self.metrics.records_out += count
        if len(self._main) == 1 and not self._main_exchanges:
            self._main[0].process(batch)
        else:
            self._hand_on(batch, self._main, self._main_exchanges)

    def emit_side(self, tag: str, batch: Batch) -> None:
        if not len(batch):
            return
        self._hand_on(batch, self._sides.get(tag, ()), self._side_exchanges.get(tag, ()))

    def _hand_on(
        self, batch: Batch, targets: Sequence[RunningOperator], writers: Sequence[ExchangeWriter]
    ) -> None:
        """Gives each operator records of its own, since it may change them; the last takes these.

        Writers only read, but keep records until a frame is full.
        """
        last = None if writers or not targets else targets[-1]
        for target in targets:
            target.process(batch if target is last or self._object_reuse else _copied(batch))
        for writer in writers:
            writer.write(batch)

    def emit_watermark(self, watermark: int) -> None:
        self.watermark = watermark
        for target in self._targets():
            target.advance_watermark(watermark)
        for writer in self._writers():
            writer.write_watermark(watermark)

    def repeat_progress(self, watermark: int, *, idle: bool) -> None:
        """Tells other stages once more how far this operator was, after a restore."""
        for writer in self._writers():
            if watermark != MIN_WATERMARK:
                writer.write_watermark(watermark)
            if idle:
                writer.write_idle(idle=True)

    def emit_idle(self, *, idle: bool) -> None:
        for target in self._targets():
            target.logic.advance_input_status(idle=idle)
        for writer in self._writers():
            writer.write_idle(idle=idle)

    def _targets(self) -> list[RunningOperator]:
        return self._main + [target for side in self._sides.values() for target in side]

    def _writers(self) -> list[ExchangeWriter]:
        return self._main_exchanges + [
            writer for side in self._side_exchanges.values() for writer in side
        ]


def _copied(batch: Batch) -> Batch:
    values = snapshots(batch.values)
    return batch if values is batch.values else Batch(values, batch.timestamps, batch.keys)


class RunningOperator:
    """One operator of a stage at work; what is emitted before it arrives here."""

    def __init__(
        self,
        operator: ChainedOperator,
        logic: OperatorLogic,
        context: OperatorContext,
        output: ChainOutput,
    ) -> None:
        self.operator = operator
        self.logic = logic
        self.context = context
        self.output = output

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.output.metrics.records_in += len(batch)
        self.logic.process(batch, input_index)

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self.logic.end_input()
        self.logic.advance_watermark(watermark)


def repeat_progress(chain: Sequence[RunningOperator], input_idle: bool) -> None:
    """Tells other stages, whose channels may be new, how far each operator was and if it is idle.

    Nothing else would: an operator that stays idle says so once.
    """
    idle: list[bool] = []
    for each in chain:
        producer = each.operator.producer
        idle.append(each.logic.is_idle_behind(input_idle if producer is None else idle[producer]))
        each.output.repeat_progress(each.logic.watermark, idle=idle[-1])
