"""How values become bytes: pickles, plain data in msgpack, and sealed envelopes.

Values that a program's functions made are pickled. Plain pickle is the fastest, but cannot name a
class of a notebook's cell or of a function's body. A library that pickles such a class by value is
registered here.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.errors import ProgramError, StateError

PROTOCOL: Final = 5
_ATOMS: Final = frozenset((int, float, bool, complex, type(None)))
_LEVELS: Final = 7
_SMALL: Final = 1_000
"""Characters of a text, or fields."""

_by_value: list[Callable[[Any], bytes]] = []


def register_by_value_pickler(dumps: Callable[[Any], bytes]) -> None:
    """Sets what is tried when plain pickle fails, for example `cloudpickle.dumps`."""
    _by_value[:] = [dumps]


def dumps(value: Any) -> bytes:
    """Returns the bytes of a value; raises what plain pickle raises."""
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        for by_value in _by_value:
            try:
                return by_value(value)
            except (pickle.PicklingError, AttributeError, TypeError):
                break
        raise


def are_small(*lists: Sequence[Any]) -> bool:
    """Whether a sample of the items of these lists is made of few built-in values.

    Pickle looks every object up in its memo, in case it comes again, which takes longer than
    writing it: 261 instead of 99 ns for a tuple of three. Small values are better written again. A
    wrong guess costs bytes, nothing else.
    """
    return all(
        _is_small(item, _LEVELS) for items in lists for item in items[:: len(items) // 8 + 1]
    )


def _is_small(value: Any, levels: int) -> bool:
    kind = type(value)
    if kind in (str, bytes):
        return len(value) <= _SMALL
    if kind in (tuple, list, dict) and levels:
        parts = chain.from_iterable(value.items()) if kind is dict else value
        return len(value) <= _SMALL and all(_is_small(part, levels - 1) for part in parts)
    return kind in _ATOMS


def dumps_without_memo(value: Any) -> bytes:
    """Returns the bytes of a value, in which what comes twice is written twice.

    Raises:
        ValueError: The value holds itself, or whatever plain pickle raises.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, PROTOCOL)
    pickler.fast = True
    pickler.dump(value)
    return buffer.getvalue()


# Plain data in msgpack: what goes in comes out equal and of the same type, or is refused.
#
# msgpack has no tuples, sets or large integers, no keys of such types, and no text with lone
# surrogates (which file names on Linux may hold). They travel as extension types; everything else
# of a type not listed here is refused by name, never changed silently and never pickled.
#
#       ext 1 tuple · ext 2 large integer · ext 3 text with surrogates · ext 4 set · ext 5 frozenset
#       ext 6 dict with keys that are not all text, as a list of pairs


if TYPE_CHECKING:
    More = Callable[[Any], msgspec.msgpack.Ext | None]

_TUPLE: Final = 1
_INTEGER: Final = 2
_TEXT: Final = 3
_SET: Final = 4
_FROZENSET: Final = 5
_DICT: Final = 6
_MAX_DEPTH: Final = 100
_SIMPLE: Final = frozenset({type(None), bool, float, bytes})

_encoder = msgspec.msgpack.Encoder()


def to_stored(value: Any, what: str, more: More | None = None) -> Any:
    """Returns `value` in the form that msgpack can hold.

    Args:
        value: The data.
        what: What it is, for the error.
        more: Writes further types as extensions; None for those that it does not know either.

    Raises:
        ProgramError: A part of it is not plain data; the text names `what`.
    """
    return _to_stored(value, what, more, 0)


def _to_stored(  # noqa: PLR0911 - one branch per type
    value: Any, what: str, more: More | None, depth: int
) -> Any:
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is str:
        return _text(value)
    if kind is int:
        if -(2**63) <= value < 2**64:
            return value
        length = value.bit_length() // 8 + 1
        return msgspec.msgpack.Ext(_INTEGER, value.to_bytes(length, "big", signed=True))
    if depth >= _MAX_DEPTH:
        raise ProgramError(f"{what} holds data nested deeper than {_MAX_DEPTH} levels.")
    if kind is list:
        return [_to_stored(part, what, more, depth + 1) for part in value]
    if kind is dict:
        parts = {key: _to_stored(part, what, more, depth + 1) for key, part in value.items()}
        if all(type(key) is str and _text(key) is key for key in parts):
            return parts
        keys = [_to_stored(key, what, more, depth + 1) for key in parts]
        return _extension(_DICT, [*zip(keys, parts.values(), strict=True)])
    if kind is tuple:
        return _extension(_TUPLE, [_to_stored(part, what, more, depth + 1) for part in value])
    if kind is set or kind is frozenset:
        # Sorted by their bytes, so that equal sets give equal manifests.
        members = (_to_stored(part, what, more, depth + 1) for part in value)
        code = _SET if kind is set else _FROZENSET
        return _extension(code, sorted(members, key=_encoder.encode))
    found = None if more is None else more(value)
    if found is not None:
        return found
    raise ProgramError(
        f"{what} holds a {kind.__module__}.{kind.__qualname__}, which is not plain data. Use None, "
        "bool, int, float, str, bytes, list, tuple, dict, set and frozenset; for a dataclass: "
        "dataclasses.astuple()."
    )


def from_extension(code: int, data: memoryview) -> Any:
    """Reads an extension type; the hook of msgspec's decoder."""
    return read_extension(code, data, _decoder)


def read_extension(code: int, data: memoryview, inner: msgspec.msgpack.Decoder[Any]) -> Any:
    """Reads an extension type whose parts `inner` reads, which may know more types."""
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == _TEXT:
        return bytes(data).decode("utf-8", "surrogatepass")
    makers = {_TUPLE: tuple, _SET: set, _FROZENSET: frozenset, _DICT: dict}
    if code in makers:
        return makers[code](inner.decode(data))
    raise msgspec.ValidationError(f"extension type {code} is unknown")


_decoder = msgspec.msgpack.Decoder(ext_hook=from_extension)


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return msgspec.msgpack.Ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    return value


def _extension(code: int, parts: list[Any]) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encoder.encode(parts))


# Sealed bytes: a header says what they are, a trailer finds every damage.
#
#       magic (8 bytes) · version (u16) · body · length of the body (u64) · SHA-256 of all before
#
# Numbers are big-endian. The envelope never changes and only the format of the body has versions;
# so whether bytes are whole is decided before their version is believed, and a flipped bit in the
# version is reported as damage, not as a newer format.


MAGIC_BYTES: Final = 8
_HEADER: Final = struct.Struct(">8sH")
_LENGTH: Final = struct.Struct(">Q")
_DIGEST_BYTES: Final = 32
ENVELOPE_BYTES: Final = _HEADER.size + _LENGTH.size + _DIGEST_BYTES


class DamagedError(StateError):
    """Stored bytes are not what was written."""


class NewerFormatError(StateError):
    """Stored bytes are whole, but a newer Penstock wrote them."""


def seal(magic: bytes, version: int, body: bytes) -> bytes:
    """Returns `body` in its envelope."""
    assert len(magic) == MAGIC_BYTES
    head = _HEADER.pack(magic, version) + body + _LENGTH.pack(len(body))
    return head + hashlib.sha256(head).digest()


def unseal(
    data: bytes,
    *,
    magic: bytes,
    newest: int,
    what: str,
    advice: str = "choose another checkpoint",
) -> tuple[int, memoryview]:
    """Opens an envelope and returns version and body.

    Args:
        data: Bytes that `seal` made.
        magic: What they have to be.
        newest: Newest version that the caller can read.
        what: What is being read and from where, for errors.
        advice: What to do when it is damaged.

    Raises:
        DamagedError: The bytes are no envelope of this kind, too short, too long, or changed.
        NewerFormatError: They are whole, but of a version above `newest`.
    """
    if data[:MAGIC_BYTES] != magic[: len(data)]:
        raise DamagedError(
            f"{what} does not begin like one: found {bytes(data[:MAGIC_BYTES])!r}, expected "
            f"{magic!r}. It is another file or was damaged; {advice}."
        )
    if len(data) < ENVELOPE_BYTES:
        raise DamagedError(
            f"{what} is truncated: it has {len(data)} bytes, the shortest possible has "
            f"{ENVELOPE_BYTES}; {advice}."
        )
    view = memoryview(data)
    digest = hashlib.sha256(view[:-_DIGEST_BYTES]).digest()
    stored = bytes(view[-_DIGEST_BYTES:])
    (length,) = _LENGTH.unpack(view[-_DIGEST_BYTES - _LENGTH.size : -_DIGEST_BYTES])
    if digest != stored:
        raise DamagedError(
            f"{what} is damaged: found SHA-256 {digest.hex()}, expected {stored.hex()} "
            f"({len(data):,} bytes). It was truncated or changed; {advice}."
        )
    if length != len(data) - ENVELOPE_BYTES:
        raise DamagedError(
            f"{what} is damaged: its body has {len(data) - ENVELOPE_BYTES:,} bytes, its trailer "
            f"says {length:,}; {advice}."
        )
    _, version = _HEADER.unpack(view[: _HEADER.size])
    if version > newest:
        raise NewerFormatError(
            f"{what} has format version {version}, this Penstock reads up to version {newest}. "
            "Run the Penstock that wrote it, or a newer one."
        )
    if version < 1:
        raise DamagedError(f"{what} has format version {version}; versions start at 1.")
    return version, view[_HEADER.size : -_DIGEST_BYTES - _LENGTH.size]
