"""A dispatcher's world: processes that are made up, files that are real."""

from __future__ import annotations

import io
import threading
import zipfile
from typing import TYPE_CHECKING, Any

from penstock.core.clock import SystemClock
from penstock.core.job import JobStatus
from penstock.jobmanager.dispatcher import DispatcherSettings, JobDispatcher
from penstock.jobmanager.dispatching import Submission
from penstock.jobmanager.job_records import EndRecord, StatusRecord

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

    def report(self, job_id: str, status: str, attempt: int = 1, **more: Any) -> None:
        record = StatusRecord(attempt=attempt, status=status, name="named", **more)
        self.directories[job_id].write_status(record)

    def end(self, job_id: str, status: str, attempt: int = 1, **more: Any) -> None:
        record = EndRecord(attempt=attempt, status=status, ended_ms=1, **more)
        self.directories[job_id].write_end(record)
        self.children[job_id, attempt].status = 0


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.launcher = Launcher()
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
            clean=self.clean,
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


def submission(**changes: Any) -> Submission:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr(zipfile.ZipInfo("app.py"), "")
    given: dict[str, Any] = {"program": "app.py", "package": packed.getvalue(), **changes}
    return Submission(**given)


def started(world: World, dispatcher: JobDispatcher, **changes: Any) -> str:
    job_id = dispatcher.submit(submission(**changes))
    world.wait(lambda: (job_id, 1) in world.launcher.children)
    world.launcher.report(job_id, "RUNNING")
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.RUNNING)
    return job_id
