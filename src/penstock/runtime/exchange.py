"""An exchange: batches in on the sending side, frames for the target subtasks out.

Spark sees a target number and opaque bytes. A data frame holds some thousand records for one
subtask, pickled at once, without a memo where they are small (`docs/decisions/0008`). Frames live
for one epoch only.

A writer keeps records back until a frame is worth sending, and sends what it holds before each
watermark, so that a channel keeps the order of records and watermarks. A frame ends after some
records or bytes, whichever comes first: the JVM holds each in one piece, and several at a time.
"""

from __future__ import annotations

import pickle
from array import array
from enum import IntEnum
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core import codec
from penstock.core.errors import ProgramError, shorten
from penstock.core.records import BATCH_RECORDS, Batch, mean_bytes
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP, NO_TIMESTAMP
from penstock.graph.nodes import PartialAggregates
from penstock.operators.windows.partials import PartialAggregator
from penstock.runtime.partitioners import ByKeyGroup, ChannelSelector

if TYPE_CHECKING:
    from penstock.graph.job_graph import Edge


class FrameKind(IntEnum):
    """What a frame holds."""

    DATA = 0
    WATERMARK = 1
    IDLE = 2
    ACTIVE = 3
    REPORT = 4


class Frame(NamedTuple):
    """One message on a channel.

    Attributes:
        kind: A `FrameKind`.
        stage: Target stage; for reports the sender's.
        subtask: Target subtask.
        edge: Edge that the channel belongs to.
        channel: Sending subtask.
        sequence: Position on the channel, from 0 in each epoch.
        attempt: Attempt of the task that sent it.
        payload: Bytes, or the watermark itself.
    """

    kind: int
    stage: int
    subtask: int
    edge: int
    channel: int
    sequence: int
    attempt: int
    payload: Any


class BatchCodec:
    """Turns batches into payloads.

    Args:
        names: Behind a `key_by`: key by number; batches to encode then carry numbers for keys.

    Attributes:
        takes_keys: Batches carry the keys themselves.
    """

    def __init__(self, names: list[Any] | None = None) -> None:
        self._names = names
        self.takes_keys = False
        self._repeats = self._small = False

    def encode(self, batch: Batch, *, small: bool | None = None) -> bytes:
        """Returns the payload; `small` is what `codec.are_small` says of the values."""
        self._small = codec.are_small(batch.values) if small is None else small
        timestamps = batch.timestamps
        times = None if timestamps is None else _packed(timestamps, batch.values)
        numbers = batch.keys
        if self._names is None or numbers is None:
            return self._dump(batch.values, times, None, None, None)
        if self.takes_keys:
            return self._dump(batch.values, times, numbers, None, None)
        name = self._names.__getitem__
        distinct = set(numbers)
        if len(distinct) * 4 > len(numbers):
            # Few keys repeat: a dictionary would only add to them.
            return self._dump(batch.values, times, list(map(name, numbers)), None, None)
        # Repeated keys come out of the frame as one object each, whose hash Python has cached.
        order = list(distinct)
        return self._dump(
            batch.values,
            times,
            list(map(name, order)),
            array("I", order).tobytes(),
            array("I", numbers).tobytes(),
        )

    def _dump(self, values: list[Any], times: Any, keys: Any, order: Any, numbers: Any) -> bytes:
        content = (values, times, keys, order, numbers)
        if self._small and not self._repeats and codec.are_small(keys or ()):
            try:
                payload = codec.dumps_without_memo(content)
            except Exception:
                # One of them is of another kind than those that were looked at.
                pass
            else:
                self._repeats = len(payload) > _LARGE_BYTES
                return payload
        try:
            return codec.dumps(content)
        except Exception as error:
            raise _not_picklable([*values, *(keys or ())], error) from None


_LARGE_BYTES: Final = 8 << 20
"""A frame that is larger may hold one thing many times, which only a memo finds out."""


def _not_picklable(items: list[Any], error: Exception) -> ProgramError:
    for item in items:
        try:
            codec.dumps(item)
        except Exception as cause:
            return ProgramError(
                f"the record {shorten(item)} cannot be sent to the next operator: {cause}. Emit "
                "plain values or instances of classes defined in a module, and keep connections, "
                "locks and files out of records."
            )
    return ProgramError(f"{len(items)} records cannot be sent to the next operator: {error}.")


def decode_batch(payload: bytes) -> Batch:
    """Reads what `BatchCodec.encode` wrote."""
    values, times, keys, order, numbers = pickle.loads(payload)
    batch = Batch(values)
    if times is not None:
        batch.timestamps = _integers("q", times)
    if order is not None:
        names = dict(zip(_integers("I", order), keys, strict=True))
        keys = list(map(names.__getitem__, array("I", numbers)))
    batch.keys = keys
    return batch


def _integers(kind: str, data: bytes) -> list[int]:
    return array(kind, data).tolist()


def _packed(timestamps: list[int], values: list[Any]) -> bytes:
    try:
        return array("q", timestamps).tobytes()
    except (OverflowError, TypeError):
        for timestamp, value in zip(timestamps, values, strict=True):
            if not isinstance(timestamp, int) or not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
                raise ProgramError(
                    f"the record {shorten(value)} has the timestamp {timestamp!r}; it must be an "
                    "int of 64 bits: milliseconds since 1970."
                ) from None
        raise


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
        small = codec.are_small(batch.values)
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
        timestamps += part.timestamps or repeat(NO_TIMESTAMP, len(part))
    return Batch(values, timestamps, keys)


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
