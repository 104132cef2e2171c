"""Versioned records wherever job managers keep them: one suite, every kind of record a row.

ZooKeeper is a real server; `long` records are longer than what a node is to hold.
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from penstock.core.codec import DamagedError
from penstock.core.versioned import Committed, Rejected, VersionedRecord
from penstock.files.errors import StorageError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from penstock.jobmanager.high_availability.coordination import CoordinationRecords, HaSettings
from penstock.jobmanager.high_availability.zookeeper import (
    INLINE_BYTES,
    ZooKeeper,
    ZooKeeperRecord,
    ZooKeeperSettings,
)

sys.path.append(str(Path(__file__).resolve().parents[1]))
from zookeeper_quorum import Quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Opener = Callable[[str], VersionedRecord]

ROWS = [
    "files",
    "swapped",
    pytest.param("zookeeper", marks=pytest.mark.e2e),
    pytest.param("zookeeper-long", marks=pytest.mark.e2e),
]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    quorum = Quorum(tmp_path_factory.mktemp("zookeeper"), servers=1)
    try:
        quorum.start()
        yield quorum
    finally:
        quorum.close()


def connect(quorum: Quorum) -> ZooKeeper:
    return ZooKeeper(ZooKeeperSettings(quorum.hosts, "/flink", 10_000, 10_000, 500, 3))


@pytest.fixture
def zookeeper(server: Quorum) -> Iterator[ZooKeeper]:
    opened = connect(server)
    yield opened
    opened.close()


def in_node(zookeeper: ZooKeeper, files: LocalStorage, path: str) -> VersionedRecord:
    return VersionedRecord(
        ZooKeeperRecord(zookeeper, path, files, "record", lambda: f"{next(_numbers):012x}")
    )


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def opener(row: str, tmp_path: Path, request: pytest.FixtureRequest) -> Opener:
    """Opens a record by name; the same name is the same record."""
    if row == "files":
        files = LocalStorage(str(tmp_path / "records"))
        return lambda name: open_record(files, name)
    if row == "swapped":
        memory = MemoryStorage()
        return lambda name: open_record(memory, name)
    zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
    files = LocalStorage(str(tmp_path / "files"))
    top = f"/suite/{next(_numbers)}"
    return lambda name: in_node(zookeeper, files, f"{top}/{name}")


@pytest.fixture
def padding(row: str) -> bytes:
    return b"." * INLINE_BYTES if row == "zookeeper-long" else b""


def test_versions_rise_and_the_late_one_loses(opener: Opener, padding: bytes) -> None:
    record = opener("pointer")
    assert record.read() is None
    current = None
    for number in range(1, 12):
        outcome = record.compare_and_set(
            current, b"%d" % number + padding, leader_epoch=1, write_id=f"w{number}"
        )
        assert isinstance(outcome, Committed)
        stale, current = current, outcome.current
        assert (current.version, current.value) == (number, b"%d" % number + padding)
        late = record.compare_and_set(
            stale, b"late" + padding, leader_epoch=1, write_id=f"late{number}"
        )
        assert late == Rejected(current, fenced=False)
    assert opener("pointer").read() == current
    assert opener("another").read() is None


def test_a_fence_keeps_the_value_and_locks_the_old_leader_out(
    opener: Opener, padding: bytes
) -> None:
    old, new = opener("pointer"), opener("pointer")
    first = old.compare_and_set(None, b"first" + padding, leader_epoch=1, write_id="a")
    assert isinstance(first, Committed)
    fenced = new.fence(leader_epoch=2, write_id="b")
    assert isinstance(fenced, Committed)
    assert fenced.current.value == b"first" + padding
    late = old.compare_and_set(first.current, b"late" + padding, leader_epoch=1, write_id="c")
    assert late == Rejected(fenced.current, fenced=True)
    assert old.fence(leader_epoch=1, write_id="d") == Rejected(fenced.current, fenced=True)


def test_a_write_that_arrived_without_a_reply_is_recognised(opener: Opener, padding: bytes) -> None:
    record = opener("pointer")
    done = record.compare_and_set(None, b"one" + padding, leader_epoch=1, write_id="a")
    again = record.compare_and_set(None, b"one" + padding, leader_epoch=1, write_id="a")
    assert done == again
    assert isinstance(done, Committed)
    assert done.current.version == 1


def test_increments_of_many_are_not_lost(opener: Opener, padding: bytes) -> None:
    ids = itertools.count()
    record = opener("counter")

    def add(_: int) -> None:
        def next_value(value: bytes | None) -> bytes:
            return b"%d" % (int((value or b"0").rstrip(b".")) + 1) + padding

        outcome = record.update(next_value, leader_epoch=1, new_write_id=lambda: f"w{next(ids)}")
        assert isinstance(outcome, Committed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(24)))
    current = record.read()
    assert current is not None
    assert current.value == b"24" + padding


@pytest.mark.e2e
def test_long_records_are_files_and_the_former_one_goes(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    files = LocalStorage(str(tmp_path))
    record = in_node(zookeeper, files, f"/suite/{next(_numbers)}/pointer")
    current = None
    for number in range(5):
        value = b"%d" % number * INLINE_BYTES
        outcome = record.compare_and_set(current, value, leader_epoch=1, write_id=str(number))
        assert isinstance(outcome, Committed)
        current = outcome.current
        assert len(list(tmp_path.iterdir())) == 1
    late = record.compare_and_set(None, b"x" * INLINE_BYTES, leader_epoch=1, write_id="late")
    assert isinstance(late, Rejected)
    short = record.compare_and_set(current, b"short", leader_epoch=1, write_id="short")
    assert isinstance(short, Committed)
    assert not list(tmp_path.iterdir())


@pytest.mark.e2e
def test_a_node_that_is_forbidden(server: Quorum, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    path = f"/suite-{next(_numbers)}"
    owner = KazooClient(server.hosts)
    owner.start()
    owner.create(path, b"", acl=[make_digest_acl("owner", "secret", all=True)])
    owner.stop()
    owner.close()
    files = LocalStorage(str(tmp_path))
    with pytest.raises(StorageError, match=f"cannot read .*{path}: its access list forbids it"):
        in_node(zookeeper, files, path).read()
    # One below it cannot be made, and that is certain.
    with pytest.raises(StorageError, match=r"forbids it. Give this client"):
        zookeeper.create(f"{path}/below", b"")


@pytest.mark.e2e
def test_a_damaged_node_and_a_missing_file_are_named(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    path = f"/suite/{next(_numbers)}/pointer"
    record = in_node(zookeeper, LocalStorage(str(tmp_path)), path)
    zookeeper.create(path, b"not a record")
    with pytest.raises(DamagedError, match=f"{path} does not begin like one"):
        record.read()
    zookeeper.remove(path)
    assert record.read() is None
    record.compare_and_set(None, b"x" * INLINE_BYTES, leader_epoch=1, write_id="a")
    (file,) = tmp_path.iterdir()
    file.unlink()
    with pytest.raises(Exception, match=f"{file.name}: it does not exist"):
        record.read()


@pytest.mark.e2e
def test_nothing_is_left_of_a_job_that_has_ended(server: Quorum, tmp_path: Path) -> None:
    """Also not the files of records that were too long for a node."""
    settings = ZooKeeperSettings(server.hosts, "/flink", 10_000, 10_000, 500, 3)
    records = CoordinationRecords(HaSettings(str(tmp_path), "group", 10_000, settings), {})
    try:
        for job_id in ("a" * 32, "b" * 32):
            opened = records.open_of_job(job_id)
            for record in (opened.pointer, opened.counter):
                value = b"x" * 2 * INLINE_BYTES
                outcome = record.compare_and_set(None, value, leader_epoch=1, write_id="w")
                assert isinstance(outcome, Committed)
        assert len(list((tmp_path / "group").iterdir())) == 4
        records.forget("a" * 32)
        records.forget("c" * 32)
        assert len(list((tmp_path / "group").iterdir())) == 2
        assert records.open_of_job("a" * 32).pointer.read() is None
        assert records.open_of_job("b" * 32).pointer.read() is not None
    finally:
        records.close()
