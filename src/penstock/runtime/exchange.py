"""The sending side of an exchange: batches in, frames for the target subtasks out.

A writer keeps records back until a frame is worth sending, and sends what it holds before each
watermark, so that a channel keeps the order of records and watermarks. A frame ends after some
records or bytes, whichever comes first: the JVM holds each in one piece, and several at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.core.codec import are_small
from penstock.core.errors import ProgramError, shorten
from penstock.core.records import BATCH_RECORDS, Batch, mean_bytes
from penstock.core.times import NO_TIMESTAMP
from penstock.graph.nodes import PartialAggregates
from penstock.operators.windows.partials import PartialAggregator
from penstock.runtime.frames import BatchCodec, Frame, FrameKind
from penstock.runtime.partitioners import ByKeyGroup, ChannelSelector

if TYPE_CHECKING:
    from penstock.graph.job_graph import Edge

FRAME_RECORDS: Final = BATCH_RECORDS
"""Records after which a frame is sent: while they are still in the processor's cache."""

FRAME_BYTES: Final = 1 << 20
"""Bytes after which a frame is sent, as far as they are known before it is made."""

MOST_FRAME_BYTES: Final = (2 << 30) - (1 << 20)
"""No array of a JVM, and so no frame and no record, is larger."""


class ExchangeWriter:
    """Sends one edge's records from one subtask; `frames` is where they go."""

    def __init__(
        self,
        edge: Edge,
        partitioner: ChannelSelector,
        targets: int,
        channel: int,
        most_bytes: int = MOST_FRAME_BYTES,
    ) -> None:
        self.edge = edge
        self._most_bytes = most_bytes
        self._partitioner = partitioner
        self._targets = targets
        self._channel = channel
        self._keys = partitioner if isinstance(partitioner, ByKeyGroup) else None
        self._codec = BatchCodec(None if self._keys is None else self._keys.book.names)
        self._pending: list[list[Batch]] = [[] for _ in range(targets)]
        self._pending_counts = [0] * targets
        self._frame_records = FRAME_RECORDS
        self._sent_bytes = 0.0
        """Of a record: the most in the frames before."""
        self._sequences = [0] * targets
        self._attempt = 0
        self._frames: list[Frame] = []

    def begin_epoch(self, epoch: int, attempt: int, frames: list[Frame]) -> None:
        """Starts an epoch; what an aborted one left is dropped."""
        self._attempt = attempt
        self._frames = frames
        self._sequences = [0] * self._targets
        self._pending = [[] for _ in range(self._targets)]
        self._pending_counts = [0] * self._targets
        self._partitioner.begin_epoch(epoch, self._channel)

    def write(self, batch: Batch) -> None:
        if not len(batch):
            return
        if self._keys is not None and self._keys.book.is_full:
            # What waits has numbers that are about to be forgotten.
            for target in range(self._targets):
                self._flush(target)
            self._codec.takes_keys = self._keys.forget_keys()
        for target, part in self._partitioner.split(batch):
            if not part.values:
                continue
            self._pending[target].append(part)
            self._pending_counts[target] += len(part)
            if self._pending_counts[target] >= self._frame_records:
                self._flush(target)

    def write_watermark(self, watermark: int) -> None:
        for target in range(self._targets):
            self._flush(target)
            self._send(FrameKind.WATERMARK, target, watermark)

    def write_idle(self, *, idle: bool) -> None:
        for target in range(self._targets):
            self._flush(target)
            self._send(FrameKind.IDLE if idle else FrameKind.ACTIVE, target, None)

    def flush(self) -> None:
        for target in range(self._targets):
            self._flush(target)

    def _flush(self, target: int) -> None:
        count = self._pending_counts[target]
        if not count:
            return
        batch = _concatenated(self._pending[target])
        self._pending[target] = []
        self._pending_counts[target] = 0
        small = are_small(batch.values)
        self._frame_records = FRAME_RECORDS
        if not small or self._sent_bytes * count > FRAME_BYTES:
            size = max(mean_bytes(batch.values), self._sent_bytes)
            self._frame_records = max(1, min(FRAME_RECORDS, int(FRAME_BYTES / size)))
        # What is a little larger need not be cut.
        step = count if count < 2 * self._frame_records else self._frame_records
        for start in range(0, count, step):
            part = batch if step == count else batch.part(start, start + step)
            payload = self._codec.encode(part, small=small)
            self._sent_bytes = max(len(payload) / len(part), self._sent_bytes * 0.8)
            if len(payload) > self._most_bytes:
                raise self._too_large(part, len(payload))
            self._send(FrameKind.DATA, target, payload)

    def _too_large(self, batch: Batch, size: int) -> ProgramError:
        return ProgramError(
            f"the record {shorten(max(batch.values, key=lambda value: mean_bytes([value])))} has "
            f"{size:,} bytes on its way to the next operator; Spark moves at most "
            f"{self._most_bytes:,} bytes in one piece. Split it into several records, or write it "
            "to storage and send its path."
        )

    def _send(self, kind: FrameKind, target: int, payload: Any) -> None:
        self._frames.append(
            Frame(
                int(kind),
                self.edge.target_stage,
                target,
                self.edge.edge_id,
                self._channel,
                self._sequences[target],
                self._attempt,
                payload,
            )
        )
        self._sequences[target] += 1


def _concatenated(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    values: list[Any] = []
    for part in parts:
        values += part.values
    keys: list[Any] | None = None
    if parts[0].keys is not None:
        keys = []
        for part in parts:
            keys += part.keys or ()
    if all(part.timestamps is None for part in parts):
        return Batch(values, None, keys)
    timestamps: list[int] = []
    for part in parts:
        timestamps += with_timestamps(part)
    return Batch(values, timestamps, keys)


def with_timestamps(batch: Batch) -> list[int]:
    """Returns one timestamp per record, `NO_TIMESTAMP` where there is none."""
    return [NO_TIMESTAMP] * len(batch) if batch.timestamps is None else batch.timestamps


def reading_order(edge: Edge) -> tuple[bool, int, int]:
    """Second inputs first: what connects to a stream (rules, control) is read before its records.

    Flink promises no order between inputs; this one is the least surprising for broadcast state.
    """
    return edge.input_index == 0, -edge.input_index, edge.edge_id


# The sending side of an exchange that aggregates before it sends (`operators/windows/partials`).
#
# It has no state: what it keeps back goes out before the epoch ends, so snapshots know nothing of
# it.


class PartialWriter(ExchangeWriter):
    """Sends partial aggregates of one edge's records from one subtask."""

    def __init__(
        self, edge: Edge, partitioner: ChannelSelector, targets: int, channel: int
    ) -> None:
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


def make_writer(
    edge: Edge, partitioner: ChannelSelector, targets: int, channel: int
) -> ExchangeWriter:
    """Makes the sending side of an edge."""
    aggregates = isinstance(edge.partitioning, PartialAggregates)
    kind = PartialWriter if aggregates else ExchangeWriter
    return kind(edge, partitioner, targets, channel)
