"""Frames: what crosses an exchange. Spark sees a target number and opaque bytes.

A data frame holds some thousand records for one subtask. Values of built-in types are written with
`marshal`, which takes half of pickle's time; anything else is pickled. Frames live for
one epoch only and are read by the same interpreter version that wrote them, so neither format is
ever stored.
"""

from __future__ import annotations

import marshal
import pickle
from array import array
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core import pickling
from penstock.core.errors import ProgramError
from penstock.core.records import Batch
from penstock.operators.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    """Turns batches into payloads; remembers per exchange which values `marshal` cannot take.

    Args:
        names: Behind a `key_by`: key by number; batches to encode then carry numbers for keys.
    """

    def __init__(self, names: list[Any] | None = None) -> None:
        self._names = names
        self._marshal_values = True
        self._marshal_keys = True

    def encode(self, batch: Batch) -> bytes:
        values, self._marshal_values = _dump(batch.values, try_marshal=self._marshal_values)
        timestamps = batch.timestamps
        times = None if timestamps is None else array("q", timestamps).tobytes()
        numbers = batch.keys
        if self._names is None or numbers is None:
            return marshal.dumps((values, times, None, None, None))
        name = self._names.__getitem__
        distinct = set(numbers)
        if len(distinct) * 4 > len(numbers):
            # Few keys repeat: a dictionary would only add to them.
            keys, self._marshal_keys = _dump(
                list(map(name, numbers)), try_marshal=self._marshal_keys
            )
            return marshal.dumps((values, times, keys, None, None))
        # Repeated keys come out of the frame as one object each, whose hash Python has cached.
        order = list(distinct)
        keys, self._marshal_keys = _dump(list(map(name, order)), try_marshal=self._marshal_keys)
        return marshal.dumps(
            (values, times, keys, array("I", order).tobytes(), array("I", numbers).tobytes())
        )


_ATOMS: Final = frozenset((str, int, float, bool, bytes, complex, type(None)))
_SEQUENCES: Final = frozenset((tuple, list))
_PLAIN: Final = _ATOMS | _SEQUENCES
_LEVELS: Final = 8
"""Deeper values are pickled."""


def _dump(items: list[Any], *, try_marshal: bool) -> tuple[bytes, bool]:
    if try_marshal and _is_plain(items):
        try:
            return b"m" + marshal.dumps(items), True
        except ValueError:
            pass
    try:
        return b"p" + pickling.dumps(items), False
    except Exception as error:
        raise _not_picklable(items, error) from None


def _is_plain(items: Iterable[Any]) -> bool:
    """Whether everything in there is of a built-in type, and quicker to look at than to pickle.

    `marshal` itself would take more, and wrongly: what offers a buffer, such as a NumPy number or a
    bytearray, it writes as bytes.
    """
    kinds = set(map(type, items))
    for _ in range(_LEVELS):
        if kinds <= _ATOMS:
            return True
        if not kinds <= _PLAIN:
            return False
        if not kinds.isdisjoint(_ATOMS):
            items = [item for item in items if type(item) in _SEQUENCES]
        kinds = set(map(type, chain.from_iterable(items)))
        if not kinds <= _ATOMS:
            items = list(chain.from_iterable(items))
    return kinds <= _ATOMS


def _not_picklable(items: list[Any], error: Exception) -> ProgramError:
    for item in items:
        try:
            pickling.dumps(item)
        except Exception as cause:
            return ProgramError(
                f"the record {shorten(item)} cannot be sent to the next operator: {cause}. Emit "
                "plain values or instances of classes defined in a module, and keep connections, "
                "locks and files out of records."
            )
    return ProgramError(f"{len(items)} records cannot be sent to the next operator: {error}.")


def _load(data: bytes) -> list[Any]:
    view = memoryview(data)[1:]
    loaded: list[Any] = marshal.loads(view) if data[0] == ord("m") else pickle.loads(view)
    return loaded


def decode_batch(payload: bytes) -> Batch:
    """Reads what `BatchCodec.encode` wrote."""
    values, times, keys, order, numbers = marshal.loads(payload)
    batch = Batch(_load(values))
    if times is not None:
        batch.timestamps = _integers("q", times)
    if keys is not None:
        batch.keys = _load(keys)
        if order is not None:
            names = dict(zip(_integers("I", order), batch.keys, strict=True))
            batch.keys = list(map(names.__getitem__, array("I", numbers)))
    return batch


def _integers(kind: str, data: bytes) -> list[int]:
    return array(kind, data).tolist()
