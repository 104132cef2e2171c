"""Snapshots made by hand, for the tests of this folder."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.manifest import (
    ChunkCodec,
    JobSnapshot,
    Manifest,
    ManifestKind,
    OperatorRecord,
    StateRecord,
    StoredChunk,
    StoredHandle,
    StoredKeyedState,
    SubtaskRecord,
)
from penstock.checkpoint.paths import layout_of
from penstock.checkpoint.upload_plan import UploadPlan
from penstock.files.contract import Content

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.files.contract import Storage

JOB = "40dcc6d2ba90f13930abce295de8d038"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def inline(name: str, data: bytes) -> StoredHandle:
    return StoredHandle(name=name, size_bytes=len(data), sha256=sha256(data), inline=data)


def shared(name: str, data: bytes, created_by: int, root: str = "/ckpt/job") -> StoredHandle:
    return StoredHandle(
        name=name,
        size_bytes=len(data),
        sha256=sha256(data),
        path=f"{root}/shared/{sha256(data)}-{created_by}-writer",
        shared=True,
        created_by=created_by,
    )


def own(name: str, data: bytes, created_by: int = 3) -> StoredHandle:
    return StoredHandle(
        name=name,
        size_bytes=len(data),
        sha256=sha256(data),
        path=f"{sha256(data)}-{created_by}-writer",
        created_by=created_by,
    )


def keyed(
    *handles: StoredHandle, deltas: tuple[StoredHandle, ...] = (), version: str = "e7-s0-a1"
) -> StoredKeyedState:
    return StoredKeyedState(
        backend="rocksdb",
        version_id=version,
        base_id="e5-s0-a1",
        base=handles,
        deltas=deltas,
        delta_ids=tuple(f"e{6 + i}-s0-a1" for i in range(len(deltas))),
        first_key_group=0,
        last_key_group=127,
    )


def operator(
    uid: str, *subtasks: SubtaskRecord, states: tuple[StateRecord, ...] = ()
) -> OperatorRecord:
    return OperatorRecord(
        uid=uid,
        uid_hash=sha256(uid.encode())[:32],
        name=uid.title(),
        parallelism=len(subtasks),
        max_parallelism=128,
        states=states,
        subtasks=subtasks,
    )


def manifest(
    checkpoint_id: int = 3,
    *operators: OperatorRecord,
    kind: ManifestKind = ManifestKind.CHECKPOINT,
    **fields: object,
) -> Manifest:
    values: dict[str, object] = {
        "job_id": JOB,
        "job_name": "word count",
        "created_ms": 1_700_000_000_000,
        "leader_epoch": 1,
        "epoch": 7,
        "penstock_version": "0.1.0",
        **fields,
    }
    return Manifest(checkpoint_id=checkpoint_id, kind=kind, operators=operators, **values)  # type: ignore[arg-type]


def full_manifest() -> Manifest:
    """One of everything."""
    chunk = StoredChunk(name="watermark", codec=ChunkCodec.MSGPACK, handle=inline("w", b"\x05"))
    return manifest(
        3,
        operator(
            "count",
            SubtaskRecord(
                keyed=keyed(shared("000012.sst", b"s" * 90, 2), deltas=(own("delta", b"d" * 70),)),
                chunks=(chunk,),
            ),
            SubtaskRecord(),
            states=(StateRecord(name="total", kind="value", value_codec="pickle", ttl="1 h"),),
        ),
        parent_id=2,
        sources={"numbers": {"position": (1, None), "splits": ["a", b"b"]}},
        sinks={"out": [("part-1", 17)]},
        job={"ended": frozenset({(0, 1)})},
    )


@dataclass
class LocalFiles:
    """A job's local directory in memory: names are given once."""

    files: dict[str, bytes] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def handle(self, name: str, data: bytes) -> StoredHandle:
        assert self.files.setdefault(name, data) == data, "a local name is never reused"
        return StoredHandle(name=name, size_bytes=len(data), sha256=sha256(data))

    def chunk(self, name: str, data: bytes, file_name: str = "") -> StoredChunk:
        handle = self.handle(file_name or name, data)
        return StoredChunk(name=name, codec=ChunkCodec.RAW, handle=handle)

    def open_content(self, handle: StoredHandle) -> Content:
        self.opened.append(handle.name)
        if handle.inline is not None:
            return Content.of_bytes(handle.inline)
        data = self.files[handle.name]
        return Content(handle.size_bytes, handle.sha256, lambda: iter((data,)))


def job_snapshot(
    *handles: StoredHandle, epoch: int = 7, chunks: tuple[StoredChunk, ...] = ()
) -> JobSnapshot:
    """A job with one keyed operator in one subtask."""
    subtask = SubtaskRecord(keyed=keyed(*handles, version=f"e{epoch}"), chunks=chunks)
    return JobSnapshot(
        epoch=epoch,
        operators=(operator("count", subtask),),
        sources={"numbers": {"position": epoch}},
    )


def ids(prefix: str = "id") -> Callable[[], str]:
    """Names that are unique for ever."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}{next(numbers):030x}"


def upload_of(storage: Storage, written: Manifest, *keys: str) -> UploadPlan:
    """The upload of a checkpoint with these files."""
    directory = layout_of(JOB).checkpoint(written.checkpoint_id)
    puts = dict.fromkeys(keys, inline("file", b"x"))
    return UploadPlan(storage, directory, written, puts, CheckpointFigures())
