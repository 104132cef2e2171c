"""The dispatcher among others: it acts when it leads, and asks who does at every question."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from penstock.jobmanager.dispatcher import DispatcherSettings, JobDispatcher
from penstock.jobmanager.dispatching import Leadership, NotLeaderError
from penstock.jobmanager.job_records import Command, CommandKind, Submission

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.jobmanager.job_directory import JobDirectory
    from penstock.jobmanager.job_records import JobRecord
    from penstock.jobmanager.processes import Child

_ids = itertools.count(1)


class NoLauncher:
    """Nothing is started: the dispatcher's thread does not run in these tests."""

    def start(self, directory: JobDirectory, attempt: int, interpreter: str | None) -> Child:
        raise AssertionError


class FixedClock:
    def wall_ms(self) -> int:
        return 99

    def monotonic_ms(self) -> int:
        return 0


@dataclass
class Shared:
    """The cluster, as the test wants it."""

    now: Leadership = field(default_factory=lambda: Leadership(False, 0, "http://other:8081"))
    story: list[str] = field(default_factory=list)
    on_add: Callable[[], None] = lambda: None

    def add(self, record: JobRecord, submission: Submission, package: bytes) -> None:
        self.story.append(f"add {record.job_id}")
        self.on_add()

    def request_cancel(self, job_id: str, now_ms: int) -> None:
        self.story.append(f"cancel {job_id}")

    def end(self, record: JobRecord) -> None:
        self.story.append(f"end {record.job_id}")

    def confirmed(self, own: Leadership) -> Leadership:
        return own if own.is_leader and self.now.epoch == own.epoch else self.now


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def dispatcher(shared: Shared, tmp_path: Path) -> JobDispatcher:
    made = JobDispatcher(
        DispatcherSettings(tmp_path),
        NoLauncher(),
        FixedClock(),
        new_id=lambda: f"{next(_ids):032x}",
        random=lambda: 0.5,
        shared=shared,
    )
    made.url = "http://me:8081"
    return made


def lead(dispatcher: JobDispatcher, shared: Shared, epoch: int) -> None:
    shared.now = Leadership(True, epoch, "http://me:8081")
    dispatcher.lead(epoch, [])


SUBMISSION = Submission(program="job.py"), b"zip"


def test_a_standby_sends_everybody_to_the_leader(dispatcher: JobDispatcher, shared: Shared) -> None:
    with pytest.raises(NotLeaderError, match="ask http://other:8081") as raised:
        dispatcher.jobs()
    assert raised.value.leader_url == "http://other:8081"
    with pytest.raises(NotLeaderError):
        dispatcher.submit(*SUBMISSION)
    shared.now = Leadership(False, 0, None)
    with pytest.raises(NotLeaderError, match="no leader is known"):
        dispatcher.jobs()
    assert shared.story == []


def test_a_leader_whose_time_has_run_out_refuses_before_it_was_told(
    dispatcher: JobDispatcher, shared: Shared
) -> None:
    lead(dispatcher, shared, 3)
    assert dispatcher.leadership() == Leadership(True, 3, "http://me:8081")
    job_id = dispatcher.submit(*SUBMISSION)
    shared.now = Leadership(False, 0, "http://other:8081")
    with pytest.raises(NotLeaderError):
        dispatcher.submit(*SUBMISSION)
    with pytest.raises(NotLeaderError):
        dispatcher.trigger(job_id, Command(CommandKind.CANCEL))
    assert shared.story == [f"add {job_id}"]


def test_what_is_kept_is_accepted_though_the_leadership_ends(
    dispatcher: JobDispatcher, shared: Shared
) -> None:
    lead(dispatcher, shared, 3)
    shared.on_add = lambda: setattr(shared, "now", Leadership(False, 0, "http://other:8081"))
    job_id = dispatcher.submit(*SUBMISSION)
    assert shared.story == [f"add {job_id}"]
    # The next leader runs it, and not this one.
    dispatcher.stand_by()
    lead(dispatcher, shared, 5)
    assert dispatcher.jobs() == []


def test_a_cancellation_is_kept_before_anything_is_done(
    dispatcher: JobDispatcher, shared: Shared, tmp_path: Path
) -> None:
    lead(dispatcher, shared, 3)
    job_id = dispatcher.submit(*SUBMISSION)

    def refuse(_job_id: str, _now_ms: int) -> None:
        raise NotLeaderError("epoch 4 has begun")

    shared.request_cancel = refuse  # type: ignore[method-assign]
    with pytest.raises(NotLeaderError, match="epoch 4"):
        dispatcher.trigger(job_id, Command(CommandKind.CANCEL))
    assert not list((tmp_path / "jobs" / job_id / "commands").iterdir())


def test_jobs_are_handed_over_and_come_back(dispatcher: JobDispatcher, shared: Shared) -> None:
    lead(dispatcher, shared, 3)
    job_id = dispatcher.submit(*SUBMISSION)
    (job,) = dispatcher._jobs.values()
    # Its driver said that a later leader has taken over, before this process knew it.
    job._supervisor.has_ended = True
    dispatcher.stand_by()
    shared.now = Leadership(True, 7, "http://me:8081")
    dispatcher.lead(7, [job.record])
    (summary,) = dispatcher.jobs()
    assert (summary.job_id, summary.status.name) == (job_id, "RECONCILING")
