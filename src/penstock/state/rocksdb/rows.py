"""Rows of the `rocksdb` backend.

    row key    key group (2 bytes, big-endian) | key | state name | namespace | rest
    row value  content | owner, if the row key cannot say it | flags (1 byte)

Key, name and namespace are framed by their length, so a prefix of a row key up to any of them is
the prefix of no other. `rest` is empty for values, the map key for map entries and a rising number
for chunks of lists. Rows start with the key group, so any range of groups is one scan.

`row_values` says what the content is. Pickle stops at its own end, so what follows it costs nothing
to a reader who does not want it. The owner (key and namespace as objects) is left out where the row
key can be read back: text and integer keys without a namespace.
"""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from penstock.core import keygroups
from penstock.core.errors import ProgramError
from penstock.core.keygroups import canonical_bytes, murmur
from penstock.state.plain_serializer import (
    Pickles,
    decode_body,
    decode_column,
    encode_body,
    encode_column,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMER_PREFIX: Final = b"\xff\xfe"
"""Key groups end at 32767, so rows of timers sort behind all others."""

HAS_OWNER: Final = 1
IS_TIMED: Final = 2
GENERATION_SHIFT: Final = 2
"""The other bits of the flags are a number, see `row_values`."""

_GROUP: Final = struct.Struct(">H")
_LENGTH: Final = struct.Struct(">I")
_CHUNK: Final = struct.Struct(">II")


def frame(part: bytes) -> bytes:
    """Returns the bytes behind their length."""
    return b"%d:" % len(part) + part


def stable_bytes(value: Any) -> bytes:
    """Returns bytes for a namespace or map key, equal for equal values.

    What has no canonical bytes is pickled without memo, since a memo depends on object identity.
    """
    try:
        return b"c" + canonical_bytes(value)
    except ProgramError:
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, 4)
        pickler.fast = True
        pickler.dump(value)
        return b"p" + buffer.getvalue()


def chunk_number(folds: int, position: int) -> bytes:
    """Returns the row key part of a chunk of a list, which sorts by fold, then by position."""
    return _CHUNK.pack(folds, position)


class RowKeys:
    """Makes row keys of one state."""

    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._last_ns: Any = None
        self._last_ns_frame = b"0:"
        # Compared by identity: the accesses to one key come in a row.
        self._last_key: Any = self
        self._last_start = b""

    def of_key(self, key: Any) -> bytes:
        """Returns the start of all rows of a key."""
        if key is not self._last_key:
            canonical = canonical_bytes(key)
            group = murmur(zlib.crc32(canonical)) % self._max_parallelism
            self._last_start = _GROUP.pack(group) + b"%d:" % len(canonical) + canonical
            self._last_key = key
        return self._last_start

    def of_keys(self, keys: Sequence[Any]) -> list[bytes]:
        """Returns `of_key` of each key."""
        if len(keys) < 64 or keygroups.numpy_if_there() is None:
            return [self.of_key(key) for key in keys]
        canonicals = _canonicals(keys)
        codes = list(map(zlib.crc32, canonicals))
        found = keygroups.key_groups_of_codes(codes, self._max_parallelism)
        groups = found.astype(">u2").tobytes()
        frames = [b"%d:" % length for length in range(max(map(len, canonicals)) + 1)]
        starts = [groups[place : place + 2] for place in range(0, len(groups), 2)]
        return [
            start + frames[len(canonical)] + canonical
            for start, canonical in zip(starts, canonicals, strict=True)
        ]

    def of_namespace(self, ns: Any) -> bytes:
        """Returns the frame of a namespace."""
        if ns is not self._last_ns:
            self._last_ns_frame = b"0:" if ns is None else frame(stable_bytes(ns))
            self._last_ns = ns
        return self._last_ns_frame


def _canonicals(keys: Sequence[Any]) -> list[bytes]:
    """Returns the canonical bytes of keys; the loop for the commonest type has no calls."""
    if set(map(type, keys)) == {int}:
        return [b"i%d" % key for key in keys]
    return list(map(canonical_bytes, keys))


def has_plain_owner(keys: Sequence[Any], ns: Any) -> bool:
    """Returns whether the row keys alone say whose the rows are."""
    return ns is None and _READABLE.issuperset(map(type, keys))


def flagged(  # noqa: PLR0913, PLR0917 - a row value and whose it is
    data: bytes, key: Any, ns: Any, flags: int, pickles: Pickles, what: str
) -> bytes:
    """Returns the bytes of a row value: content, owner if the row key cannot say it, flags."""
    if ns is None and type(key) in _READABLE:
        return data + _FLAGS[flags]
    return data + _owner_tail(key, ns, flags, pickles, what)


def content_of(data: bytes) -> memoryview:
    """Returns the bytes of the content of a row value."""
    if data[-1] & HAS_OWNER:
        (length,) = _LENGTH.unpack_from(data, len(data) - 5)
        return memoryview(data)[: -5 - length]
    return memoryview(data)[:-1]


def encode_timer(key: Any, ns: Any, pickles: Pickles = Pickles.ALLOW) -> bytes:
    """Returns the value of a timer row, which is its owner only."""
    return _owner_tail(key, ns, 0, pickles, "a timer")


_last_namespace: tuple[Any, Pickles, Any] = (None, Pickles.ALLOW, [None])


def _owner_tail(key: Any, ns: Any, flags: int, pickles: Pickles, what: str) -> bytes:
    global _last_namespace  # noqa: PLW0603 - rows of one namespace come together
    named = f"a key or namespace of {what}"
    if _last_namespace[0] is not ns or pickles is not _last_namespace[1]:
        _last_namespace = ns, pickles, encode_column([ns], pickles, named)
    columns = [encode_column([key], pickles, named), _last_namespace[2]]
    owner = encode_body(columns, what)
    return b"".join((owner, _LENGTH.pack(len(owner)), _FLAGS[flags | HAS_OWNER]))


_READABLE: Final = {int, str}
"""Types of keys that the row key gives back."""

_FLAGS: Final = [bytes((number,)) for number in range(256)]


def owner_of(row: bytes, data: bytes, pickles: Pickles = Pickles.ALLOW) -> tuple[Any, Any]:
    """Returns (key, namespace) of a row.

    Raises:
        StateError: It is pickled and no pickles may be read.
    """
    if data[-1] & HAS_OWNER:
        (length,) = _LENGTH.unpack_from(data, len(data) - 5)
        owner = data[-5 - length : -5]
        (key,), (ns,) = (decode_column(part, pickles, "a key") for part in decode_body(owner))
        return key, ns
    canonical, _ = _unframe(row, 2)
    if canonical[:1] == b"i":
        return int(canonical[1:]), None
    return canonical[1:].decode("utf-8", "surrogatepass"), None


def name_of(row: bytes) -> str:
    """Returns the state name in a row key."""
    _, end = _unframe(row, 2)
    return _unframe(row, end)[0].decode()


def _unframe(row: bytes, start: int) -> tuple[bytes, int]:
    colon = row.index(b":", start)
    end = colon + 1 + int(row[start:colon])
    return row[colon + 1 : end], end


def end_of_prefix(prefix: bytes) -> bytes:
    """Returns the least row key above all that start with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def group_start(group: int) -> bytes:
    """Returns where the rows of a key group begin."""
    return _GROUP.pack(group)
