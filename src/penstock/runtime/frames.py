"""Frames: what crosses an exchange. Spark sees a target number and opaque bytes.

A data frame holds some thousand records for one subtask. Values of built-in types are written with
`marshal`, which takes a quarter of pickle's time; anything else is pickled. Frames live for
one epoch only and are read by the same interpreter version that wrote them, so neither format is
ever stored.
"""

from __future__ import annotations

import marshal
import pickle
from array import array
from enum import IntEnum
from typing import Any, NamedTuple

from penstock.core.records import Batch


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
    """Turns batches into payloads; remembers per exchange which values `marshal` cannot take."""

    def __init__(self) -> None:
        self._marshal_values = True
        self._marshal_keys = True

    def encode(self, batch: Batch) -> bytes:
        values, self._marshal_values = _dump(batch.values, try_marshal=self._marshal_values)
        timestamps = batch.timestamps
        times = None if timestamps is None else array("q", timestamps).tobytes()
        if batch.keys is None:
            return marshal.dumps((values, times, None, None))
        distinct, indexes = _dictionary(batch.keys)
        keys, self._marshal_keys = _dump(distinct, try_marshal=self._marshal_keys)
        return marshal.dumps((values, times, keys, indexes))


def _dump(items: list[Any], *, try_marshal: bool) -> tuple[bytes, bool]:
    if try_marshal:
        try:
            return b"m" + marshal.dumps(items), True
        except ValueError:
            pass
    return b"p" + pickle.dumps(items, pickle.HIGHEST_PROTOCOL), False


def _load(data: bytes) -> list[Any]:
    view = memoryview(data)[1:]
    loaded: list[Any] = marshal.loads(view) if data[0] == ord("m") else pickle.loads(view)
    return loaded


def _dictionary(keys: list[Any]) -> tuple[list[Any], bytes | None]:
    """Returns distinct keys and indexes into them, or all keys where few repeat.

    Repeated keys come out of the frame as one object each, whose hash Python then has cached.
    """
    distinct = dict.fromkeys(keys)
    if len(distinct) * 4 > len(keys):
        return keys, None
    numbers = dict(zip(distinct, range(len(distinct)), strict=True))
    return list(distinct), array("I", map(numbers.__getitem__, keys)).tobytes()


def decode_batch(payload: bytes) -> Batch:
    """Reads what `BatchCodec.encode` wrote."""
    values, times, keys, indexes = marshal.loads(payload)
    batch = Batch(_load(values))
    if times is not None:
        timestamps = array("q")
        timestamps.frombytes(times)
        batch.timestamps = timestamps.tolist()
    if keys is not None:
        distinct = _load(keys)
        if indexes is None:
            batch.keys = distinct
        else:
            numbers = array("I")
            numbers.frombytes(indexes)
            batch.keys = list(map(distinct.__getitem__, numbers))
    return batch
