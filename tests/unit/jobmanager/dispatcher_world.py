"""A dispatcher's world: processes that are made up, files that are real."""

from __future__ import annotations

import io
import threading
import zipfile
from typing import TYPE_CHECKING, Any

from penstock.core.job import JobStatus
from penstock.core.times import SystemClock
from penstock.jobmanager.dispatcher import DispatcherSettings, JobDispatcher
from penstock.jobmanager.job_records import JobRecord, Submission

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.jobmanager.job_directory import JobDirectory


class Child:
    """A process that lives until the test says otherwise."""

    pid = 2**30
    status: int | None = None

    def poll(self) -> int | None:
        return self.status


class Launcher:
    def __init__(self) -> None:
        self.children: dict[tuple[str, int], Child] = {}
        self.directories: dict[str, JobDirectory] = {}
        self.interpreters: list[str | None] = []

    def start(self, directory: JobDirectory, attempt: int, interpreter: str | None) -> Child:
        child = self.children[directory.job_id, attempt] = Child()
        self.directories[directory.job_id] = directory
        self.interpreters.append(interpreter)
        return child

    def _record(self, job_id: str, status: str, attempt: int, **more: Any) -> JobRecord:
        # As a driver does: it goes on with the failures of the processes before.
        process = self.directories[job_id].process.read()
        assert process is not None
        known: dict[str, Any] = {"failures": process.failures, **more}
        return JobRecord(job_id=job_id, status=JobStatus[status], attempt=attempt, **known)

    def report(self, job_id: str, status: str, attempt: int = 1, **more: Any) -> None:
        record = self._record(job_id, status, attempt, name="named", **more)
        self.directories[job_id].status.write(record)

    def end(self, job_id: str, status: str, attempt: int = 1, **more: Any) -> None:
        self.say_end(job_id, status, attempt, **more)
        self.children[job_id, attempt].status = 0

    def say_end(
        self, job_id: str, status: str, attempt: int = 1, *, ended_ms: int = 1, **more: Any
    ) -> None:
        record = self._record(job_id, status, attempt, ended_ms=ended_ms, **more)
        self.directories[job_id].end.write(record)


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.launcher = Launcher()
        self.launcher.clean_up = self.clean
        self.made: list[JobDispatcher] = []
        self.ids = 0
        self.cleaned: list[tuple[str, str, int]] = []
        self.trouble: Exception | None = None

    def clean(self, directory: JobDirectory, status: JobStatus, epoch: int) -> None:
        self.cleaned.append((directory.job_id, status.name, epoch))
        if self.trouble is not None:
            raise self.trouble

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    def dispatcher(self, *, leads: bool = True, **settings: Any) -> JobDispatcher:
        made = JobDispatcher(
            DispatcherSettings(self.directory, look_ms=10, **settings),
            self.launcher,
            SystemClock(),
            new_id=self.new_id,
            random=lambda: 0.5,
        )
        made.start()
        if leads:
            made.lead()
        self.made.append(made)
        return made

    def wait(self, condition: Callable[[], Any]) -> None:
        pause = threading.Event()
        for _ in range(20_000):
            if condition():
                return
            pause.wait(0.005)
        raise AssertionError("it did not come")


def package() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        written.writestr(zipfile.ZipInfo("app.py"), "")
    return packed.getvalue()


def submit(dispatcher: JobDispatcher, **changes: Any) -> str:
    given: dict[str, Any] = {"program": "app.py", **changes}
    return dispatcher.submit(Submission(**given), package())


def started(world: World, dispatcher: JobDispatcher, **changes: Any) -> str:
    job_id = submit(dispatcher, **changes)
    world.wait(lambda: (job_id, 1) in world.launcher.children)
    world.launcher.report(job_id, "RUNNING")
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.RUNNING)
    return job_id
