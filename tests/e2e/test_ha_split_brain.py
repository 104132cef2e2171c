"""Split brain: a driver falls asleep at a step of the commit protocol, and another takes over.

When it wakes up it goes on from exactly there, believing that nothing has happened. Nobody tells
it: here are no job managers, only two attempts under two leader epochs. What both wrote is read by
plain code: nothing is lost, nothing is there twice, and the sleeper ends by itself.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from service_kit import PROGRAM, expected, lines, open_gate, wait_for

from penstock.jobmanager.dispatcher import attempt_epoch
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.job_intake import store
from penstock.jobmanager.job_records import JobRecord, ProcessRecord, Submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e
JOB = "0123456789abcdef" * 2
END = 3_000
STEPS = {
    "P6": "checkpoint.metadata.before",
    "P7": "checkpoint.pointer.before",
    "P9": "sink.commit.before",
    "P11": "checkpoint.delete.before",
}


class Case:
    """Two attempts of one job, and the step at which the first one falls asleep."""

    def __init__(self, directory: Path, point: str) -> None:
        directory.mkdir()
        self.directory = directory
        self.asleep = directory / "asleep"
        self.point = point
        open_gate(directory, 1_000)
        self.old = self.start("old", 1)
        self.new: subprocess.Popen[bytes] | None = None

    def start(self, name: str, leader_epoch: int) -> subprocess.Popen[bytes]:
        """Starts a driver as the job manager of this leader epoch would."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as package:
            package.writestr(PROGRAM.name, PROGRAM.read_text())
        submission = Submission(
            program=PROGRAM.name,
            arguments=(str(self.directory), str(END)),
            configuration={
                "penstock.spark.master": "in-process",
                "penstock.epoch.max-records": "100",
                "execution.checkpointing.interval": "30 ms",
                "execution.checkpointing.dir": str(self.directory / "checkpoints"),
                "io.tmp.dirs": str(self.directory / "tmp"),
            },
            package_sha256=hashlib.sha256(packed.getvalue()).hexdigest(),
        )
        root = self.directory / name / "jobs"
        root.mkdir(parents=True)
        store(root, JobRecord(job_id=JOB, submitted_ms=0), submission, packed.getvalue())
        job = JobDirectory(root / JOB)
        epoch = attempt_epoch(leader_epoch, 1)
        job.process.write(ProcessRecord(attempt=1, leader_epoch=epoch))
        # It says that it is there, and then stays there until it has been put to sleep.
        faults = f"{self.point}#4=note:{self.asleep};{self.point}#4=sleep:8"
        with job.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "penstock.job.driver_process", str(job.path), "1"],
                stdout=log,
                stderr=log,
                env={**os.environ, "PENSTOCK_FAULT_POINTS": faults if name == "old" else ""},
                start_new_session=True,
            )

    def said(self) -> str:
        logs = self.directory.glob("*/jobs/*/log.txt")
        return "\n".join(f"{path}\n{path.read_text()[-3000:]}" for path in logs)

    def newest(self) -> int:
        found = self.directory.glob(f"checkpoints/{JOB}/chk-*/_metadata")
        return max((int(path.parent.name.removeprefix("chk-")) for path in found), default=0)

    def wait_for_new(self) -> None:
        before = self.newest()
        wait_for(lambda: self.newest() > before + 1, self.said)

    def end(self, name: str) -> str:
        directory = JobDirectory(self.directory / name / "jobs" / JOB)
        wait_for(directory.end.read, self.said)
        end = directory.end.read()
        assert end is not None
        return end.status.name


@pytest.fixture
def cases(tmp_path: Path) -> Iterator[list[Case]]:
    """All at once: they wait for each other's sleep most of the time."""
    made = [Case(tmp_path / name, point) for name, point in STEPS.items()]
    started = [case.old for case in made]
    yield made
    started += [case.new for case in made if case.new is not None]
    for process in started:
        process.kill()
        process.wait()


def test_a_sleeper_changes_nothing_any_more(cases: list[Case]) -> None:
    for case in cases:
        wait_for(case.asleep.exists, case.said)
        case.old.send_signal(signal.SIGSTOP)
    for case in cases:
        case.new = case.start("new", 2)
    for case in cases:
        open_gate(case.directory, 2_000)
        case.wait_for_new()
        case.old.send_signal(signal.SIGCONT)
    for case in cases:
        assert case.end("old") == "SUSPENDED", case.said()
        assert case.old.wait(240) == 0
        # The other one does not notice any of it.
        case.wait_for_new()
        open_gate(case.directory, END)
    for case in cases:
        assert case.end("new") == "FINISHED", case.said()
        assert lines(case.directory) == expected(END), case.point
