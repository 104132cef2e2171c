"""Sealed bytes: a header says what they are, a trailer finds every damage.

    magic (8 bytes) · version (u16) · body · length of the body (u64) · SHA-256 of all before

Numbers are big-endian. The envelope never changes and only the format of the body has
versions; so whether bytes are whole is decided before their version is believed, and a flipped bit
in the version is reported as damage, not as a newer format.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from penstock.core.errors import StateError

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
