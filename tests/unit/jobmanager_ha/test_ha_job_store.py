"""Submitted jobs and results: who may change them, and what a successor finds."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from penstock.core.codec import DamagedError
from penstock.core.errors import StateError
from penstock.core.job import JobStatus
from penstock.files.errors import StorageError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from penstock.jobmanager.dispatching import NotLeaderError, UnknownJobError
from penstock.jobmanager.high_availability.job_store import HaJobStore, StoredJob
from penstock.jobmanager.job_records import JobRecord, Submission

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.files.contract import Content, Storage

JOB = "0123456789abcdef" * 2
OTHER = "f" * 32
_ids = itertools.count(1)


def store_on(storage: Storage) -> HaJobStore:
    record = open_record(storage, "default/execution-plans")
    return HaJobStore(storage, "default", record, lambda: f"{next(_ids):012x}" + "0" * 20)


def job(job_id: str = JOB) -> StoredJob:
    submission = Submission(
        program="job.py", arguments=("-n", "3"), configuration={"a": "b"}, package_sha256="c" * 64
    )
    record = JobRecord(job_id=job_id, name="words", submitted_ms=7)
    return StoredJob(record=record, submission=submission, package=b"PK\0\xff")


def ended(status: str = "FINISHED", job_id: str = JOB) -> JobRecord:
    return JobRecord(
        job_id=job_id, status=JobStatus[status], name="words", submitted_ms=7, ended_ms=19
    )


def plans(storage: Storage) -> list[str]:
    names = [entry.key.rpartition("/")[2] for entry in storage.list("default")]
    return [name for name in names if name.startswith("submittedExecutionPlan")]


def test_a_successor_finds_what_was_submitted(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    first = store_on(storage)
    assert first.take_over(1) == {}
    first.add(1, job())
    second = store_on(storage)
    ((job_id, entry),) = second.take_over(2).items()
    assert job_id == JOB
    assert second.load(JOB, entry) == job()


def test_an_old_leader_changes_nothing_any_more() -> None:
    storage = MemoryStorage()
    old, new = store_on(storage), store_on(storage)
    old.take_over(1)
    old.add(1, job())
    before = new.take_over(2)
    with pytest.raises(NotLeaderError, match="leader epoch 2 decides about jobs now; epoch 1"):
        old.add(1, job(OTHER))
    with pytest.raises(NotLeaderError):
        old.end(1, ended("FAILED"))
    with pytest.raises(NotLeaderError):
        old.request_cancel(1, JOB, 5)
    with pytest.raises(NotLeaderError, match="epoch 2"):
        old.take_over(1)
    assert len(plans(storage)) == 1, "the file of the job that was refused stays"
    assert new.results.get(JOB) is None
    assert store_on(storage).take_over(3) == before


@pytest.mark.parametrize("status", ["FINISHED", "CANCELED", "FAILED"])
def test_an_ended_job_is_never_found_again(status: str) -> None:
    storage = MemoryStorage()
    store = store_on(storage)
    store.take_over(1)
    store.add(1, job())
    store.end(1, ended(status))
    store.end(1, ended(status))
    assert plans(storage) == []
    assert store_on(storage).take_over(2) == {}
    assert store_on(storage).results.get(JOB) == ended(status)


def test_the_result_file_reads_like_flinks(tmp_path: Path) -> None:
    store = store_on(LocalStorage(str(tmp_path)))
    store.take_over(1)
    store.add(1, job())
    store.end(1, ended("CANCELED"))
    written = json.loads((tmp_path / "job-result-store" / "default" / f"{JOB}.json").read_text())
    assert written["version"] == 1
    assert written["result"]["id"] == JOB
    assert written["result"]["application-status"] == "CANCELED"
    assert written["result"]["net-runtime"] == 12


def test_an_unknown_job_cannot_end() -> None:
    store = store_on(MemoryStorage())
    store.take_over(1)
    with pytest.raises(UnknownJobError, match=OTHER):
        store.end(1, ended(job_id=OTHER))


class Failing(MemoryStorage):
    """Fails at the n-th change, and then no more."""

    left = -1

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise StorageError("no space")

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        self.count()
        super().put_if_absent(key, content, deferred=deferred)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        self.count()
        super().swap(key, data, tag)


def test_an_end_that_broke_off_anywhere_is_finished_by_the_successor() -> None:
    reached = set()
    for fail_at in range(1, 10):
        storage = Failing()
        store = store_on(storage)
        store.take_over(1)
        store.add(1, job())
        storage.left = fail_at
        try:
            store.end(1, ended())
        except StorageError:
            reached.add(fail_at)
        storage.left = -1
        successor = store_on(storage)
        left = successor.take_over(2)
        if fail_at == 1:
            assert list(left) == [JOB], "nothing was noted: the job goes on"
        else:
            assert left == {}
            assert successor.results.get(JOB) == ended()
            assert plans(storage) == []
    assert reached == {1, 2, 3}


def test_a_result_outweighs_the_list_of_jobs() -> None:
    """As after the data of the coordination store went back to an older state."""
    storage = MemoryStorage()
    store = store_on(storage)
    store.take_over(1)
    store.add(1, job())
    store.results.add(ended())
    assert store_on(storage).take_over(2) == {}
    assert plans(storage) == []


def test_a_cancellation_is_remembered() -> None:
    storage = MemoryStorage()
    store = store_on(storage)
    store.take_over(1)
    store.add(1, job())
    store.request_cancel(1, JOB, 5)
    store.request_cancel(1, JOB, 9)
    store.request_cancel(1, OTHER, 9)
    (entry,) = store_on(storage).take_over(2).values()
    assert entry.cancel_requested_ms == 5


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    store = store_on(storage)
    store.take_over(1)
    store.add(1, job())
    (file,) = (tmp_path / "default").glob("submittedExecutionPlan*")
    damaged = bytearray(file.read_bytes())
    damaged[20] ^= 1
    file.write_bytes(damaged)
    ((_, entry),) = store.take_over(2).items()
    with pytest.raises(StateError, match=file.name):
        store.load(JOB, entry)
    (newest,) = sorted((tmp_path / "default" / "execution-plans").iterdir())[-1:]
    newest.write_bytes(b"rubbish")
    with pytest.raises(DamagedError, match="default/execution-plans does not begin like one"):
        store.take_over(3)


def test_results_are_listed_newest_first(tmp_path: Path) -> None:
    now = itertools.count()
    store = store_on(MemoryStorage(now_ms=lambda: next(now)))
    for number in range(5):
        store.results.add(ended(job_id=f"{number:032x}"))
    assert [int(result.job_id, 16) for result in store.results.newest(3)] == [4, 3, 2]


def test_a_wiped_coordination_store_starts_nothing() -> None:
    storage = MemoryStorage()
    store = store_on(storage)
    store.check_never_elected("zookeeper://zk:2181")
    store.take_over(1)
    with pytest.raises(StateError, match=r"zk:2181 holds no lease, yet .*/default/elected says"):
        store.check_never_elected("zookeeper://zk:2181")
