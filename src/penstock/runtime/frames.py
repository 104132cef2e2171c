"""Frames: what crosses an exchange. Spark sees a target number and opaque bytes.

A data frame holds some thousand records for one subtask, pickled at once, without a memo where they
are small (`docs/decisions/0008`). Frames live for one epoch only.
"""

from __future__ import annotations

import pickle
from array import array
from enum import IntEnum
from typing import Any, Final, NamedTuple

from penstock.core import codec
from penstock.core.errors import ProgramError, shorten
from penstock.core.records import Batch
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP


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
