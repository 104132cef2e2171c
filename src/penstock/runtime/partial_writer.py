"""The sending side of an exchange that aggregates before it sends (`operators/windows/partials`).

It has no state: what it keeps back goes out before the epoch ends, so snapshots know nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.partitioning import PartialAggregates
from penstock.operators.windows.partials import PartialAggregator
from penstock.runtime.exchange import ExchangeWriter

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.graph.job_graph import Edge
    from penstock.runtime.frames import Frame
    from penstock.runtime.partitioners import Partitioner


class PartialWriter(ExchangeWriter):
    """Sends partial aggregates of one edge's records from one subtask."""

    def __init__(self, edge: Edge, partitioner: Partitioner, targets: int, channel: int) -> None:
        super().__init__(edge, partitioner, targets, channel)
        assert isinstance(edge.partitioning, PartialAggregates)
        self._aggregator = PartialAggregator(edge.partitioning.aggregation)

    def begin_epoch(self, epoch: int, attempt: int, frames: list[Frame]) -> None:
        super().begin_epoch(epoch, attempt, frames)
        self._aggregator.reset()

    def write(self, batch: Batch) -> None:
        if len(batch):
            self._aggregator.add(batch)

    def write_watermark(self, watermark: int) -> None:
        for batch in self._aggregator.due(watermark):
            super().write(batch)
        super().write_watermark(watermark)

    def write_idle(self, *, idle: bool) -> None:
        self._send_everything()
        super().write_idle(idle=idle)

    def flush(self) -> None:
        self._send_everything()
        super().flush()

    def _send_everything(self) -> None:
        for batch in self._aggregator.everything():
            super().write(batch)


def make_writer(edge: Edge, partitioner: Partitioner, targets: int, channel: int) -> ExchangeWriter:
    """Makes the sending side of an edge."""
    aggregates = isinstance(edge.partitioning, PartialAggregates)
    kind = PartialWriter if aggregates else ExchangeWriter
    return kind(edge, partitioner, targets, channel)
