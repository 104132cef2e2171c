"""Documents of jobs whose driver died, or never spoke; savepoints that are disposed of."""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.job import JobStatus
from penstock.jobmanager.dispatching import JobSummary, Operation, OperationStatus
from penstock.jobmanager.documents import exceptions_document, job_document, result_document
from penstock.jobmanager.job_records import JobRecord
from penstock.jobmanager.operations import BaseDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOB = "a" * 32


def summary(status: JobStatus, ended_ms: int | None = None, restarts: int = 0) -> JobSummary:
    return JobSummary(JOB, "name", status, 1_000, ended_ms, restarts=restarts)


def shown(written: Any, job: JobSummary, timestamps: dict[str, int] | None = None) -> Any:
    data = None if written is None else json.dumps(written).encode()
    return json.loads(job_document(data, job, timestamps or {}, 5_000))


def test_a_job_without_a_word_from_its_driver() -> None:
    found = shown(None, summary(JobStatus.CREATED), {"CREATED": 1_100})
    assert (found["jid"], found["name"], found["state"]) == (JOB, "name", "CREATED")
    assert (found["start-time"], found["end-time"], found["duration"]) == (1_000, -1, 4_000)
    assert found["vertices"] == []
    assert found["timestamps"]["CREATED"] == 1_100
    assert found["timestamps"]["RUNNING"] == 0


def test_the_driver_tells_the_work_and_the_job_manager_the_life() -> None:
    written = {
        "state": "RUNNING",
        "start-time": 3_000,
        "timestamps": {"RUNNING": 3_100},
        "vertices": [{"status": "RUNNING", "start-time": 3_100, "end-time": -1}],
        "epoch": 77,
        "restarts": 0,
    }
    running = shown(written, summary(JobStatus.RUNNING, restarts=2), {"RUNNING": 2_000})
    assert running["start-time"] == 1_000
    assert running["restarts"] == 2
    assert running["timestamps"]["RUNNING"] == 3_100
    assert running["epoch"] == 77
    assert running["vertices"] == written["vertices"]
    dead = shown(written, summary(JobStatus.FAILED, 4_000))
    assert (dead["state"], dead["end-time"], dead["duration"]) == ("FAILED", 4_000, 3_000)
    assert dead["vertices"] == [
        {"status": "FAILED", "start-time": 3_100, "end-time": 4_000, "duration": 900}
    ]
    # What the driver has said of the end stays.
    ended = shown({**written, "state": "FAILED"}, summary(JobStatus.FAILED, 4_000))
    assert ended["vertices"] == written["vertices"]


def test_the_last_failure_is_shown_once() -> None:
    record = JobRecord(
        job_id=JOB, submitted_ms=1, ended_ms=9, attempt=4, error="E: why", error_type="E"
    )
    alone = json.loads(exceptions_document(None, record) or b"")
    (entry,) = alone["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["stacktrace"], entry["timestamp"]) == ("E", "E: why", 9)
    assert alone["root-exception"] == "E: why"
    again = json.loads(exceptions_document(json.dumps(alone).encode(), record) or b"")
    assert again == alone
    older = {**alone, "exceptionHistory": {"entries": [{"stacktrace": "old"}], "truncated": False}}
    both = json.loads(exceptions_document(json.dumps(older).encode(), record) or b"")
    assert [each["stacktrace"] for each in both["exceptionHistory"]["entries"]] == ["E: why", "old"]
    none = json.loads(exceptions_document(None, JobRecord(job_id=JOB, submitted_ms=1)) or b"")
    assert none["exceptionHistory"] == {"entries": [], "truncated": False}


def test_the_result_of_a_finished_job_tells_of_its_failed_program() -> None:
    finished = JobRecord(job_id=JOB, submitted_ms=1, status="FINISHED", error="E: why")
    failed = JobRecord(job_id=JOB, submitted_ms=1, status="FAILED", error="E: why")
    written = b'{"job-execution-result": {"net-runtime": 7}}'
    told = json.loads(result_document(written, finished) or b"")
    assert told == {"job-execution-result": {"net-runtime": 7, "program-failure": "E: why"}}
    assert result_document(written, failed) == written
    assert result_document(None, finished) is None


# -- disposal -------------------------------------------------------------------------------------


class Disposing(BaseDispatcher):
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
