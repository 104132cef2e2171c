"""Writes and reads `_metadata`: a manifest as msgpack in a sealed envelope, checked both times.

Every version that was ever released keeps its reader here; `tests/formats` holds snapshots of
each. No reader runs code: the body is data only. A manifest can come from anywhere, so nothing in
it may lead outside the snapshot's directory.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint.manifest import FORMAT_VERSION, Manifest
from penstock.checkpoint.paths import created_by
from penstock.core.codec import DamagedError, from_extension, seal, to_stored, unseal
from penstock.files.contract import check_key
from penstock.files.errors import StorageError

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import OperatorRecord, StoredHandle, StoredKeyedState

METADATA_MAGIC: Final = b"\x93PENSMET"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*")

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


def check_manifest(manifest: Manifest, what: str) -> Manifest:
    """Returns the manifest.

    Raises:
        DamagedError: It contradicts itself; the text lists everything found.
    """
    problems = list(_problems(manifest))
    if problems:
        shown = "".join(f"\n  - {problem}" for problem in problems[:20])
        more = f"\n  … and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise DamagedError(f"{what} contradicts itself:{shown}{more}")
    return manifest


def _problems(manifest: Manifest) -> Iterator[str]:
    if not _JOB_ID.fullmatch(manifest.job_id):
        yield f"the job id {manifest.job_id!r} is not 32 hex digits"
    if manifest.checkpoint_id < 1:
        yield f"the checkpoint id is {manifest.checkpoint_id}; ids start at 1"
    if manifest.parent_id is not None and not 0 < manifest.parent_id < manifest.checkpoint_id:
        yield f"its parent is {manifest.parent_id}, not below its own id {manifest.checkpoint_id}"
    for field in ("epoch", "leader_epoch"):
        if getattr(manifest, field) < 0:
            yield f"{field} is negative"
    uids = [operator.uid for operator in manifest.operators]
    for uid in sorted({uid for uid in uids if uids.count(uid) > 1}):
        yield f"operator {uid!r} appears {uids.count(uid)} times"
    for operator in manifest.operators:
        for problem in _operator_problems(operator):
            yield f"operator {operator.uid!r}: {problem}"
    for uid, handles in manifest.pending.items():
        for handle in handles:
            for problem in _handle_problems(handle):
                yield f"output of sink {uid!r}: file {handle.name!r}: {problem}"
    if manifest.kind.is_savepoint and manifest.shared_files:
        yield f"a savepoint names shared files, such as {next(iter(manifest.shared_files))!r}"
    yield from _file_problems(manifest)


def _operator_problems(operator: OperatorRecord) -> Iterator[str]:
    if not 0 < operator.parallelism <= operator.max_parallelism:
        yield (
            f"parallelism {operator.parallelism} is not between 1 and the max parallelism "
            f"{operator.max_parallelism}"
        )
    if len(operator.subtasks) != operator.parallelism:
        yield f"{len(operator.subtasks)} subtasks, but parallelism {operator.parallelism}"
    for index, subtask in enumerate(operator.subtasks):
        names = [chunk.name for chunk in subtask.chunks]
        if len(set(names)) != len(names):
            yield f"subtask {index}: chunk names repeat: {names}"
        if subtask.keyed is not None:
            for problem in _keyed_problems(subtask.keyed, operator.max_parallelism):
                yield f"subtask {index}: {problem}"
        for handle in subtask.handles:
            for problem in _handle_problems(handle):
                yield f"subtask {index}: file {handle.name!r}: {problem}"


def _keyed_problems(keyed: StoredKeyedState, max_parallelism: int) -> Iterator[str]:
    if len(keyed.deltas) != len(keyed.delta_ids):
        yield f"{len(keyed.deltas)} changes, but {len(keyed.delta_ids)} ids for them"
    if not 0 <= keyed.first_key_group <= keyed.last_key_group < max_parallelism:
        yield (
            f"key groups {keyed.first_key_group} to {keyed.last_key_group} do not lie within "
            f"0 to {max_parallelism - 1}"
        )


def _handle_problems(handle: StoredHandle) -> Iterator[str]:
    if not _SHA256.fullmatch(handle.sha256):
        yield f"{handle.sha256!r} is not a SHA-256"
    if handle.size_bytes < 0:
        yield f"its length is {handle.size_bytes}"
    if "/" in handle.name or handle.name in ("", ".", ".."):
        yield "its name is not the name of a file"
    if (handle.inline is None) == (handle.path is None):
        yield "it has neither bytes nor a path, or both"
    if handle.inline is not None:
        if len(handle.inline) != handle.size_bytes:
            yield f"{len(handle.inline):,} bytes inline, expected {handle.size_bytes:,}"
        elif hashlib.sha256(handle.inline).hexdigest() != handle.sha256:
            yield "its inline bytes have another SHA-256"
        if handle.shared:
            yield "inline bytes cannot be shared"
    if handle.path is not None:
        yield from _path_problems(handle.path, shared=handle.shared)
        if handle.shared and not posixpath.basename(handle.path).startswith(handle.sha256):
            yield f"the name of {handle.path!r} has another SHA-256"


def _path_problems(path: str, *, shared: bool) -> Iterator[str]:
    inside = path
    if shared:
        start = _SCHEME.match(path)
        inside = path[start.end() :] if start is not None else path
        if not inside.startswith("/") or posixpath.normpath(inside) != inside:
            yield f"the shared path {path!r} is not absolute"
            return
        # Shared files get deleted one day, so only names that we give ourselves are believed.
        above, name = posixpath.split(inside)
        if posixpath.basename(above) != "shared" or created_by(name) is None:
            yield f"{path!r} is not the place of a shared file of a checkpoint"
        inside = inside[1:]
    try:
        check_key(inside)
    except StorageError as error:
        yield f"its path is refused: {error}"
    if not shared and inside == "_metadata":
        yield "its path is the manifest itself"


def _file_problems(manifest: Manifest) -> Iterator[str]:
    """One file has one length and one checksum, whatever names it."""
    seen: dict[str, tuple[int, str]] = {}
    for handle in manifest.handles:
        if handle.path is not None:
            found = handle.size_bytes, handle.sha256
            if seen.setdefault(handle.path, found) != found:
                yield f"{handle.path!r} is named with two different contents"
