"""Snapshots of format version 1, frozen: every later version reads exactly this out of them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from pathlib import Path

import pytest

from penstock.checkpoint.codec import encode_manifest
from penstock.checkpoint.manifest import ChunkCodec, ManifestKind
from penstock.checkpoint.pointer import CheckpointIdCounter, JobPointer
from penstock.checkpoint.snapshot_load import load_completed, load_snapshot
from penstock.files.contract import Content
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from penstock.files.urls import Storages
from penstock.inspection.verify import verify_snapshot

JOB = "40dcc6d2ba90f13930abce295de8d038"
FILES = Path(__file__).parent / "v1" / "files.json"

SST = b"sorted strings of checkpoint 2\n" * 4
DELTA = b"changes since\n" * 7
BIG = b"operator state\n" * 9


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def storage() -> MemoryStorage:
    found = MemoryStorage("memory://golden")
    for key, data in json.loads(FILES.read_text()).items():
        found.put_if_absent(key, Content.of_bytes(base64.b64decode(data)))
    return found


@pytest.fixture
def storages(storage: MemoryStorage) -> Storages:
    return Storages(openers={"memory": lambda url: storage})


def test_the_checkpoint(storages: Storages) -> None:
    manifest = load_snapshot(storages, f"memory://golden/{JOB}/chk-3").manifest
    assert (manifest.job_id, manifest.job_name) == (JOB, "word count")
    assert (manifest.checkpoint_id, manifest.parent_id, manifest.epoch) == (3, 2, 7)
    assert manifest.kind is ManifestKind.CHECKPOINT
    assert (manifest.created_ms, manifest.leader_epoch) == (1_700_000_000_000, 2)
    assert manifest.penstock_version == "0.1.0"
    properties = manifest.properties
    assert (properties.trigger, properties.retention) == ("manual", "RETAIN_ON_CANCELLATION")
    assert (properties.incremental, properties.drained) == (True, False)
    assert properties.new_bytes == len(DELTA) + len(BIG) + 26

    count, numbers = manifest.operators
    assert (count.uid, count.uid_hash, count.name) == ("count", "0f" * 16, "Count words")
    assert (count.parallelism, count.max_parallelism) == (2, 128)
    assert count.key_schema == "STRING"
    total, seen = count.states
    assert (total.name, total.kind, total.ttl, total.schema) == ("total", "value", "1 h", "LONG")
    assert (seen.name, seen.kind, seen.key_codec, seen.value_codec) == (
        "seen",
        "map",
        "pickle",
        "msgpack",
    )
    first, second = count.subtasks
    assert first.keyed is not None
    assert (first.keyed.backend, first.keyed.version_id) == ("rocksdb", "e7-s1.0-a1")
    assert (first.keyed.base_id, first.keyed.delta_ids) == ("e5-s1.0-a1", ("e7-s1.0-a1",))
    assert (first.keyed.first_key_group, first.keyed.last_key_group) == (0, 63)
    (sst,), (delta,) = first.keyed.base, first.keyed.deltas
    assert (sst.name, sst.size_bytes, sst.sha256) == ("000012.sst", len(SST), sha256(SST))
    assert sst.path == f"memory://golden/{JOB}/shared/{sha256(SST)}-2-leader1"
    assert (sst.shared, sst.created_by, sst.inline) == (True, 2, None)
    assert (delta.name, delta.sha256, delta.created_by) == ("e7-delta", sha256(DELTA), 3)
    marks, state = first.chunks
    assert (marks.name, marks.codec) == ("watermarks", ChunkCodec.MSGPACK)
    assert marks.handle.inline == b"\x82\xa9watermark\xcf\x00\x00\x01\x8b\xcf\xe5g\xff\xa4idle\xc2"
    assert (state.name, state.codec) == ("operator-state", ChunkCodec.PICKLE)
    assert (state.handle.path, state.handle.shared) == (f"{sha256(BIG)}-3-leader2", False)
    assert second.keyed is not None
    assert (second.keyed.first_key_group, second.keyed.last_key_group) == (64, 127)
    assert second.handles == ()
    assert (numbers.uid, numbers.subtasks[0].keyed) == ("numbers", None)


def test_plain_data(storages: Storages) -> None:
    manifest = load_snapshot(storages, f"memory://golden/{JOB}/chk-3").manifest
    assert manifest.sources == {
        "numbers": {
            "state": None,
            "complete": True,
            "positions": {"split-0": (12, "a.csv"), "split-1": 1_180_591_620_717_411_303_424},
            "bytes": b"\x00\xff",
            "by index": {0: ("x",), 1: ()},
        }
    }
    assert manifest.sinks == {"files": [("part-0-1", 17, True), {"undecodable": "a\udcff.txt"}]}
    assert manifest.job == {
        "ended": frozenset({(0, 1)}),
        "rates": [0.5, 0.0, 1e300],
        "nested": {"set": {1, 2}},
    }
    assert math.copysign(1, manifest.job["rates"][1]) == -1
    assert type(manifest.sinks["files"][0]) is tuple
    assert type(manifest.job["ended"]) is frozenset
    assert type(manifest.job["nested"]["set"]) is set


def test_the_savepoint(storages: Storages) -> None:
    directory = "memory://golden/savepoint-40dcc6-bb0df1c3a1f2"
    manifest = load_snapshot(storages, f"{directory}/_metadata").manifest
    assert (manifest.kind, manifest.checkpoint_id) == (ManifestKind.SAVEPOINT_CANONICAL, 4)
    assert manifest.parent_id is None
    assert (manifest.properties.trigger, manifest.properties.drained) == ("stop", True)
    (count,) = manifest.operators
    (subtask,) = count.subtasks
    assert subtask.keyed is not None
    (total,) = subtask.keyed.base
    assert subtask.keyed.backend == "canonical"
    assert (total.path, total.shared) == ("5f4dcc3b-5aa7-45d6-81d8-327deb882cf9", False)
    raw, table = subtask.chunks
    assert (raw.codec, raw.handle.inline) == (ChunkCodec.RAW, b"")
    assert (table.codec, table.handle.inline) == (ChunkCodec.ARROW, b"ARROW1")


def test_all_files_are_whole(storages: Storages, storage: MemoryStorage) -> None:
    checkpoint = verify_snapshot(storages, f"memory://golden/{JOB}/chk-3")
    assert (checkpoint["problems"], checkpoint["files"], checkpoint["inline_bytes"]) == ([], 4, 26)
    savepoint = verify_snapshot(storages, "memory://golden/savepoint-40dcc6-bb0df1c3a1f2")
    assert (savepoint["problems"], savepoint["files"]) == ([], 2)
    assert storage.read(f"{JOB}/shared/{sha256(SST)}-2-leader1") == SST


def test_pointer_and_counter(storages: Storages, storage: MemoryStorage) -> None:
    record = open_record(storage, f"{JOB}/pointer")
    version = record.read()
    assert version is not None
    assert (version.version, version.leader_epoch) == (2, 2)
    assert version.holds("first")
    pointer = JobPointer(record, 3, lambda: "new").read()
    (entry,), (old,) = pointer.completed, pointer.subsumed
    assert (entry.checkpoint_id, entry.is_savepoint, entry.is_owned) == (3, False, True)
    assert (old.checkpoint_id, old.is_savepoint, old.is_owned) == (2, True, False)
    (loaded,) = load_completed(storages, pointer)
    assert loaded.manifest.checkpoint_id == 3
    assert loaded.entry(is_owned=True) == entry
    counter = CheckpointIdCounter(open_record(storage, f"{JOB}/counter"), 3, lambda: "new")
    assert counter.last() == 4
    assert counter.reserve() == 5


def test_this_version_still_writes_the_same_bytes(
    storages: Storages, storage: MemoryStorage
) -> None:
    """Goes when version 2 comes; until then a change of the bytes is a change of the format."""
    for directory in (f"{JOB}/chk-3", "savepoint-40dcc6-bb0df1c3a1f2"):
        manifest = load_snapshot(storages, f"memory://golden/{directory}").manifest
        assert encode_manifest(manifest) == storage.read(f"{directory}/_metadata")
