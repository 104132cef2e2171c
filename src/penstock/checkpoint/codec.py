"""Writes and reads `_metadata`: a manifest as msgpack in a sealed envelope.

Every version that was ever released has a reader here for ever; `tests/formats` holds snapshots of
each. No reader runs code: the body is data only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.checkpoint.manifest import FORMAT_VERSION, Manifest
from penstock.checkpoint.manifest_check import check_manifest
from penstock.core.envelope import DamagedError, seal, unseal
from penstock.core.plain_data import from_extension, to_stored

METADATA_MAGIC: Final = b"\x93PENSMET"

_encoder = msgspec.msgpack.Encoder()
_decoder_v1 = msgspec.msgpack.Decoder(Manifest, ext_hook=from_extension)


def encode_manifest(manifest: Manifest, what: str = "the manifest") -> bytes:
    """Returns the bytes of `_metadata`.

    Raises:
        DamagedError: The manifest contradicts itself.
        ProgramError: A source, sink or the job gave something that is not plain data.
    """
    check_manifest(manifest, what)
    stored = msgspec.structs.replace(
        manifest,
        sources={
            uid: to_stored(value, f"the progress of source {uid!r}")
            for uid, value in manifest.sources.items()
        },
        sinks={
            uid: to_stored(value, f"the prepared output of sink {uid!r}")
            for uid, value in manifest.sinks.items()
        },
        job={name: to_stored(value, f"the job's {name!r}") for name, value in manifest.job.items()},
    )
    return seal(METADATA_MAGIC, FORMAT_VERSION, _encoder.encode(stored))


def decode_manifest(data: bytes, what: str) -> Manifest:
    """Reads `_metadata` of any version.

    Args:
        data: Its bytes.
        what: Where they are from, for errors.

    Raises:
        DamagedError: They are not what was written.
        NewerFormatError: A newer Penstock wrote them.
    """
    version, body = unseal(data, magic=METADATA_MAGIC, newest=FORMAT_VERSION, what=what)
    try:
        manifest = _READERS[version](body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError) as error:
        raise DamagedError(f"{what} is whole but malformed: {error}.") from error
    return check_manifest(manifest, what)


_READERS: Final[dict[int, Callable[[memoryview], Manifest]]] = {1: _decoder_v1.decode}
