"""Plain data in msgpack: what goes in comes out equal and of the same type, or is refused.

msgpack has no tuples, sets or large integers, no keys of such types, and no text with lone
surrogates (which file names on Linux may hold). They travel as extension types; everything else of
a type not listed here is refused by name, never changed silently and never pickled.

    ext 1 tuple · ext 2 large integer · ext 3 text with surrogates · ext 4 set · ext 5 frozenset
    ext 6 dict with keys that are not all text, as a list of pairs
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.errors import ProgramError

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
