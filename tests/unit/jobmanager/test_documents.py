"""Documents of jobs whose driver died, or never spoke; savepoints that are disposed of."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.job import JobStatus
from penstock.job.documents.current import current_exceptions, current_job, current_result
from penstock.jobmanager.dispatching import Dispatcher
from penstock.jobmanager.job_records import JobRecord, Operation, OperationStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOB = "a" * 32


def record(status: JobStatus, **more: Any) -> JobRecord:
    return JobRecord(job_id=JOB, name="name", status=status, submitted_ms=1_000, **more)


VERTEX = {
    "status": "RUNNING",
    "start-time": 3_100,
    "end-time": -1,
    "duration": 5,
    "tasks": {"RUNNING": 2},
}
WRITTEN = {
    "state": "RUNNING",
    "start-time": 3_000,
    "timestamps": {"RUNNING": 3_100},
    "vertices": [VERTEX],
    "tasks": {"total": 2, "running": 2},
    "last-checkpoint-timestamp": 3_500,
    "epoch": 77,
    "restarts": 0,
}


def test_a_job_without_a_word_from_its_driver() -> None:
    job = record(JobStatus.CREATED, timestamps={JobStatus.CREATED: 1_100})
    found = current_job(None, job, 5_000)
    assert (found["jid"], found["name"], found["state"]) == (JOB, "name", "CREATED")
    assert (found["start-time"], found["end-time"], found["duration"]) == (1_000, -1, 4_000)
    assert found["vertices"] == []
    assert found["timestamps"]["CREATED"] == 1_100
    assert found["timestamps"]["RUNNING"] == 0


def test_the_driver_tells_the_work_and_the_job_manager_the_life() -> None:
    job = record(JobStatus.RUNNING, restarts=2, timestamps={JobStatus.RUNNING: 2_000})
    running = current_job(WRITTEN, job, 5_000)
    assert running["start-time"] == 1_000
    assert running["restarts"] == 2
    assert running["timestamps"]["RUNNING"] == 3_100
    assert (running["epoch"], running["last-checkpoint-timestamp"]) == (77, 3_500)
    assert running["vertices"] == [VERTEX | {"duration": 1_900}]
    dead = current_job(WRITTEN, record(JobStatus.FAILED, ended_ms=4_000), 5_000)
    assert (dead["state"], dead["end-time"], dead["duration"]) == ("FAILED", 4_000, 3_000)
    (vertex,) = dead["vertices"]
    assert (vertex["status"], vertex["end-time"], vertex["duration"]) == ("FAILED", 4_000, 900)
    assert vertex["tasks"]["FAILED"] == 2
    # What the driver has said of the end stays.
    ended = current_job(
        WRITTEN | {"state": "FAILED"}, record(JobStatus.FAILED, ended_ms=4_000), 5_000
    )
    assert ended["vertices"][0]["status"] == "RUNNING"


def test_the_last_failure_is_shown_once() -> None:
    job = JobRecord(
        job_id=JOB, submitted_ms=1, ended_ms=9, attempt=4, error="E: why", error_type="E"
    )
    alone = current_exceptions(None, job)
    (entry,) = alone["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["stacktrace"], entry["timestamp"]) == ("E", "E: why", 9)
    assert alone["root-exception"] == "E: why"
    assert current_exceptions(alone, job) == alone
    old = {"stacktrace": "old", "timestamp": 3}
    older = {**alone, "exceptionHistory": {"entries": [old], "truncated": False}}
    both = current_exceptions(older, job)
    assert [each["stacktrace"] for each in both["exceptionHistory"]["entries"]] == ["E: why", "old"]
    assert (both["root-exception"], both["timestamp"]) == ("E: why", 9)
    none = current_exceptions(None, JobRecord(job_id=JOB, submitted_ms=1))
    assert none["exceptionHistory"] == {"entries": [], "truncated": False}


def test_the_result_of_a_finished_job_tells_of_its_failed_program() -> None:
    finished = record(JobStatus.FINISHED, ended_ms=1_009, error="E: why")
    failed = record(JobStatus.FAILED, ended_ms=1_009, error="E: why", error_type="E")
    written = {"status": {"id": "COMPLETED"}, "job-execution-result": {"net-runtime": 7}}
    told = current_result(written | {}, finished, current_exceptions(None, finished))
    assert told["job-execution-result"] == {"net-runtime": 7, "program-failure": "E: why"}
    # A driver that died has written nothing.
    silent = current_result(None, failed, current_exceptions(None, failed))["job-execution-result"]
    assert (silent["application-status"], silent["net-runtime"]) == ("FAILED", 9)
    assert silent["failure-cause"] == {"class": "E", "stack-trace": "E: why"}
    running = record(JobStatus.RUNNING)
    assert current_result(None, running, current_exceptions(None, running)) == {
        "status": {"id": "IN_PROGRESS"}
    }


# -- disposal -------------------------------------------------------------------------------------


class Disposing(Dispatcher):
    def __init__(self) -> None:
        numbers = itertools.count(1)
        super().__init__({}, lambda: f"{next(numbers):032x}")
        self.running: set[str] = set()

    def is_running(self, job_id: str) -> bool:
        return job_id in self.running

    def dispose(self, path: Path) -> Operation:
        trigger_id = self.dispose_savepoint(str(path))
        pause = threading.Event()
        for _ in range(20_000):
            found = self.disposal(trigger_id)
            assert found is not None
            if found.status is not OperationStatus.IN_PROGRESS:
                return found
            pause.wait(0.005)
        raise AssertionError("it did not end")


@pytest.fixture
def disposing() -> Iterator[Disposing]:
    made = Disposing()
    yield made
    made.end_disposals()


def test_what_is_no_snapshot_is_not_deleted(disposing: Disposing, tmp_path: Path) -> None:
    (tmp_path / "photo").write_text("")
    for path in (tmp_path, tmp_path / "photo", tmp_path / "missing"):
        done = disposing.dispose(path)
        assert done.status is OperationStatus.FAILED
        assert done.error
    (tmp_path / "_metadata").write_text("not ours")
    assert disposing.dispose(tmp_path).status is OperationStatus.FAILED
    assert {path.name for path in tmp_path.iterdir()} == {"photo", "_metadata"}


def test_the_same_trigger_is_one_disposal(disposing: Disposing, tmp_path: Path) -> None:
    first = disposing.dispose(tmp_path)
    disposing.dispose_savepoint(str(tmp_path / "elsewhere"), first.trigger_id)
    assert disposing.disposal(first.trigger_id) == first
    assert disposing.disposal("f" * 32) is None
