"""A member of a cluster: what it recovers, what it keeps, and when it stands by."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.core.job import JobStatus
from penstock.files.errors import StorageError
from penstock.files.memory import MemoryStorage
from penstock.files.records import open_record
from penstock.jobmanager import job_intake
from penstock.jobmanager.dispatching import Leadership, NotLeaderError
from penstock.jobmanager.high_availability.cluster import ClusterJobs
from penstock.jobmanager.high_availability.coordination import HaServices, HaSettings
from penstock.jobmanager.high_availability.job_store import HaJobStore, StoredJob
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.job_records import JobRecord, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

JOB, OTHER = "a" * 32, "b" * 32
_ids = itertools.count(1)


class FixedClock:
    def wall_ms(self) -> int:
        return 99

    def monotonic_ms(self) -> int:
        return 0


@dataclass
class Dispatcher:
    """Remembers what it was told."""

    story: list[object] = field(default_factory=list)

    def lead(self, epoch: int, jobs: Iterable[JobRecord]) -> None:
        found = {record.job_id[0]: record.status.name for record in jobs}
        self.story.append((epoch, found))

    def stand_by(self) -> None:
        self.story.append("stand by")


NO_SETTINGS = HaSettings("memory://ha", "default", 500)


@dataclass
class Election:
    """Says what the test says about the leadership of a member."""

    member: Member

    def start(self, listener: object, address: str) -> None:
        assert listener is self.member.jobs

    def stop(self) -> None: ...

    def leadership(self) -> Leadership:
        return self.member.now


class Member:
    """A member whose leadership the test decides."""

    def __init__(self, storage: MemoryStorage, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.now = Leadership(False, 0, "http://other")
        self.forgotten: list[str] = []
        self.store = HaJobStore(
            storage,
            "default",
            open_record(storage, "default/execution-plans"),
            lambda: f"{next(_ids):012x}" + "0" * 20,
        )
        self.election = Election(self)
        services = HaServices(NO_SETTINGS, self.election, self.store, self.forget, lambda: None)
        self.jobs = ClusterJobs(services, root, FixedClock(), history=10)
        self.dispatcher = Dispatcher()
        self.forgot = threading.Event()
        self.jobs.start(self.dispatcher, "http://me")

    def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)
        self.forgot.set()

    def lead(self, epoch: int) -> None:
        self.now = Leadership(True, epoch, "http://me")
        self.jobs.granted(epoch)

    def step_down(self, epoch: int) -> None:
        self.now = Leadership(False, 0, "http://other")
        self.jobs.revoked(epoch)

    def submit(self, job_id: str) -> JobRecord:
        record = JobRecord(job_id=job_id, name="words", submitted_ms=7)
        submission = Submission(program="job.py", package_sha256="0" * 64)
        self.jobs.add(record, submission, b"zip")
        job_intake.store(self.root, record, submission, b"zip")
        return record

    def ended(self, record: JobRecord, status: str) -> JobRecord:
        found = msgspec.structs.replace(record, status=JobStatus[status], ended_ms=19)
        JobDirectory(self.root / record.job_id).job.write(found)
        return found


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def pair(storage: MemoryStorage, tmp_path: Path) -> Iterator[tuple[Member, Member]]:
    members = Member(storage, tmp_path / "a"), Member(storage, tmp_path / "b")
    yield members
    for member in members:
        member.jobs.stop()


def test_a_successor_fetches_what_its_directory_lacks(pair: tuple[Member, Member]) -> None:
    first, second = pair
    first.lead(1)
    first.submit(JOB)
    second.lead(2)
    assert second.dispatcher.story == [(2, {"a": "INITIALIZING"})]
    directory = JobDirectory(second.root / JOB)
    assert directory.package.read_bytes() == b"zip"
    assert directory.submission.read() == JobDirectory(first.root / JOB).submission.read()
    record = directory.job.read()
    assert record is not None
    assert (record.name, record.submitted_ms, record.attempt) == ("words", 7, 0)


def test_one_that_comes_back_goes_on_with_its_own_numbers(pair: tuple[Member, Member]) -> None:
    first, _ = pair
    first.lead(1)
    record = first.submit(JOB)
    running = msgspec.structs.replace(record, status=JobStatus.RUNNING, attempt=4)
    JobDirectory(first.root / JOB).job.write(running)
    first.step_down(1)
    first.lead(3)
    assert first.dispatcher.story == [(1, {}), "stand by", (3, {"a": "RUNNING"})]
    again = JobDirectory(first.root / JOB).job.read()
    assert again is not None
    assert again.attempt == 4


def test_ends_are_noted_for_all(pair: tuple[Member, Member]) -> None:
    first, second = pair
    first.lead(1)
    record = first.submit(JOB)
    first.jobs.end(first.ended(record, "FINISHED"))
    assert first.forgot.wait(200)
    assert first.forgotten == [JOB]
    second.lead(2)
    assert second.dispatcher.story == [(2, {"a": "FINISHED"})]
    known = JobDirectory(second.root / JOB).job.read()
    assert known is not None
    assert (known.status, known.ended_ms, known.name) == (JobStatus.FINISHED, 19, "words")


def test_a_job_that_was_running_here_and_ended_elsewhere(pair: tuple[Member, Member]) -> None:
    first, second = pair
    first.lead(1)
    record = first.submit(JOB)
    second.lead(2)
    second.jobs.end(second.ended(record, "CANCELED"))
    assert second.forgot.wait(200)
    first.lead(3)
    assert first.dispatcher.story[-1] == (3, {"a": "CANCELED"})
    known = JobDirectory(first.root / JOB).job.read()
    assert known is not None
    assert known.status is JobStatus.CANCELED


def test_an_end_that_could_not_be_noted_before_the_crash(pair: tuple[Member, Member]) -> None:
    first, _ = pair
    first.lead(1)
    first.ended(first.submit(JOB), "FAILED")
    # The process died here, and is the next leader too.
    first.lead(2)
    assert first.dispatcher.story[-1] == (2, {"a": "FAILED"})
    result = first.store.results.get(JOB)
    assert result is not None
    assert result.status is JobStatus.FAILED


def test_a_cancellation_reaches_the_successor(pair: tuple[Member, Member]) -> None:
    first, second = pair
    first.lead(1)
    first.submit(JOB)
    first.jobs.request_cancel(JOB, 12)
    second.lead(2)
    record = JobDirectory(second.root / JOB).job.read()
    assert record is not None
    assert record.cancel_requested_ms == 12


def test_whoever_leads_no_more_changes_nothing(pair: tuple[Member, Member]) -> None:
    first, second = pair
    first.lead(1)
    first.submit(JOB)
    second.lead(2)
    # It does not know yet, as after a long sleep: the store refuses.
    with pytest.raises(NotLeaderError, match="epoch 2"):
        first.submit(OTHER)
    with pytest.raises(NotLeaderError):
        first.jobs.request_cancel(JOB, 1)
    # It knows, though its dispatcher was not told: asked before anything is tried.
    first.now = Leadership(False, 0, "http://other")
    with pytest.raises(NotLeaderError, match="does not lead any more"):
        first.submit(OTHER)


def test_who_leads_is_asked_at_every_question(pair: tuple[Member, Member]) -> None:
    first, _ = pair
    first.lead(1)
    own = Leadership(True, 1, "http://me")
    assert first.jobs.confirmed(own) == own
    first.now = Leadership(False, 0, "http://other")
    assert first.jobs.confirmed(own) == Leadership(False, 0, "http://other")
    # A later leadership of its own, whose jobs are not recovered yet.
    first.now = Leadership(True, 3, "http://me")
    assert first.jobs.confirmed(own) == Leadership(False, 0, None)


def test_a_leadership_that_ended_during_the_recovery_begins_nothing(
    pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair

    def slow(_: int) -> dict[str, object]:
        first.step_down(1)
        return {}

    monkeypatch.setattr(first.store, "take_over", slow)
    first.lead(1)
    assert first.dispatcher.story == ["stand by"]


def test_a_store_that_does_not_answer_is_asked_again(
    pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    monkeypatch.setattr("penstock.jobmanager.high_availability.cluster._RETRY_SECONDS", 0.001)
    original = first.store.take_over
    answers = iter([StorageError("no answer"), StorageError("no answer"), None])

    def take_over(epoch: int) -> object:
        error = next(answers)
        if error is not None:
            raise error
        return original(epoch)

    monkeypatch.setattr(first.store, "take_over", take_over)
    first.lead(1)
    assert first.dispatcher.story == [(1, {})]


def test_an_end_is_noted_when_the_store_answers_again(
    pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    monkeypatch.setattr("penstock.jobmanager.high_availability.cluster._RETRY_SECONDS", 0.001)
    first.lead(1)
    record = first.submit(JOB)
    original = first.store.end
    answers = iter([StorageError("no answer"), StorageError("no answer"), None])

    def end(epoch: int, result: object) -> None:
        error = next(answers)
        if error is not None:
            raise error
        original(epoch, result)  # type: ignore[arg-type]

    monkeypatch.setattr(first.store, "end", end)
    first.jobs.end(first.ended(record, "FINISHED"))
    assert first.forgot.wait(200)
    assert first.store.results.get(JOB) is not None


def test_a_job_whose_submission_is_gone_fails_and_the_others_go_on(
    pair: tuple[Member, Member], storage: MemoryStorage
) -> None:
    first, second = pair
    first.lead(1)
    first.submit(JOB)
    plan = next(key for key in storage.files if "submittedExecutionPlan" in key)
    first.submit(OTHER)
    del storage.files[plan]
    second.lead(2)
    assert second.dispatcher.story == [(2, {"a": "FAILED", "b": "INITIALIZING"})]
    record = JobDirectory(second.root / JOB).job.read()
    assert record is not None
    assert "what was submitted is gone" in (record.error or "")


def test_the_job_of_an_application_is_left_to_its_own_processes(
    pair: tuple[Member, Member], caplog: pytest.LogCaptureFixture
) -> None:
    application, manager = pair
    application.lead(1)
    record = JobRecord(job_id=JOB, name="words", submitted_ms=7)
    program = Submission(program="job.py")
    application.store.add(1, StoredJob(record=record, submission=program, package=b""))
    leading = threading.Thread(target=manager.lead, args=(2,))
    leading.start()
    try:
        while "is that of an application, which runs job" not in caplog.text:
            leading.join(0.01)
            assert leading.is_alive()
    finally:
        manager.step_down(2)
        leading.join()
    assert manager.dispatcher.story == ["stand by"]
    assert not (manager.root / JOB).exists()
