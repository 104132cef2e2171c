"""Snapshots as an attacker writes them: whole, sealed, and naming what is not theirs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.manifest import (
    Manifest,
    ManifestKind,
    OperatorRecord,
    StoredHandle,
    StoredKeyedState,
    SubtaskRecord,
)

if TYPE_CHECKING:
    from pathlib import Path

ATTACKER_JOB = "a" * 32


def handle(path: str, data: bytes, *, shared: bool = False) -> StoredHandle:
    """Names a file with exactly this content."""
    return StoredHandle(
        name=path.rpartition("/")[2],
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        path=path,
        shared=shared,
        created_by=1,
    )


def write_snapshot(
    directory: Path, *files: StoredHandle, kind: ManifestKind = ManifestKind.SAVEPOINT_NATIVE
) -> str:
    """Writes `_metadata` that names some files; returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    keyed = StoredKeyedState(
        backend="rocksdb",
        version_id="e1-s0-a1",
        base_id="e1-s0-a1",
        base=files,
        deltas=(),
        delta_ids=(),
        first_key_group=0,
        last_key_group=127,
    )
    operator = OperatorRecord(
        uid="count",
        uid_hash="0" * 32,
        name="Count",
        parallelism=1,
        max_parallelism=128,
        states=(),
        subtasks=(SubtaskRecord(keyed=keyed),),
    )
    manifest = Manifest(
        checkpoint_id=1,
        kind=kind,
        operators=(operator,),
        job_id=ATTACKER_JOB,
        job_name="a plain job",
        created_ms=1_700_000_000_000,
        leader_epoch=1,
        epoch=1,
        penstock_version="0.1.0",
    )
    (directory / "_metadata").write_bytes(encode_manifest(manifest))
    return str(directory)
