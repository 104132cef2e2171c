"""Kills one job again and again at chosen or random moments, and checks what it wrote in the end.

A fault is a named point with a kind (`penstock.core.fault_points`), or a kill once so many new
checkpoints are there. Everything follows from a seed, but for the moment at which a signal hits.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kill_oracle import (
    EXPECTED,
    PATIENCE_S,
    check_files,
    checkpoints,
    choose_shapes,
    latest,
    log_of,
    pace,
    shapes,
    start,
    verify,
)
from kill_processes import EXECUTOR, WORKER, kill_one

if TYPE_CHECKING:
    import random
    import subprocess

SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"
RECORDS = 60_000
TORN = ("torn:0", "torn:1", "torn:half", "torn:-1")
WRITTEN = ("_metadata", "/pointer/", "/counter/", "/shared/", "/chk-")
SURVIVED = ("raise", "enospc")
VICTIMS = {"worker": WORKER, "executor": EXECUTOR}
"""Processes of Spark; the job survives their death."""
MORE = {
    "execution__checkpointing__tolerable-failed-checkpoints": "20",
    "restart-strategy__type": "fixed-delay",
    "restart-strategy__fixed-delay__attempts": "20",
    "restart-strategy__fixed-delay__delay": "10 ms",
}


def all_points() -> list[str]:
    """Names of the fault points in the source, found without importing it."""
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        names += re.findall(r'= fault_point\("([a-z_.]+)"\)', text)
        for span in re.findall(r'= fault_span\("([a-z_.]+)"\)', text):
            names += [f"{span}.before", f"{span}.after"]
    return names


@dataclass(frozen=True)
class Fault:
    """One failure: `point` and `kind`, or without a point a kill after new checkpoints.

    The kinds `worker` and `executor` kill such a process instead of the job's.
    """

    point: str
    kind: str
    nth: int = 1
    text: str = ""

    @property
    def name(self) -> str:
        return f"{self.point}{'~' if self.text else ''}{self.text}#{self.nth}={self.kind}"

    def armed(self, once: Path) -> str:
        text = f"~{self.text}" if self.text else ""
        return f"{self.point}{text}#{self.nth}@{once}={self.kind}" if self.point else ""


@dataclass
class Tally:
    """What a campaign did."""

    runs: int = 0
    starts: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    """Faults armed that the job did not reach before it had finished."""

    @property
    def kills(self) -> int:
        return self.struck.total()


def random_fault(rng: random.Random, victims: list[str]) -> Fault:
    """Draws a fault; rare places have the same odds as common ones."""
    if victims and rng.random() < 0.4:
        return Fault("", rng.choice(victims), rng.randint(1, 2))
    chance = rng.random()
    if chance < 0.25:
        return Fault("", "kill", rng.randint(1, 3))
    if chance < 0.45:
        return Fault("storage.write", rng.choice(TORN), rng.randint(1, 6), rng.choice(WRITTEN))
    point = rng.choice([point for point in all_points() if point != "storage.write"])
    if chance < 0.50:
        return Fault("storage.write", "enospc", rng.randint(1, 6), rng.choice(WRITTEN))
    kind = rng.choices(["kill", "exit", "hang", "raise"], [70, 10, 10, 10])[0]
    return Fault(point, kind, rng.randint(1, 4))


class Run:
    """One job with several failures.

    Args:
        directory: Empty.
        rng: Chooses settings.
        tally: Is added to.
        master: Where it runs; workers and executors of Spark are killed too.
        starter: Starts the job's process, like `kill_oracle.start`.
    """

    def __init__(
        self,
        directory: Path,
        rng: random.Random,
        tally: Tally,
        *,
        master: str = "in-process",
        starter: Any = start,
    ) -> None:
        self.directory = directory
        self.rng = rng
        self.tally = tally
        self.master = master
        self.starter = starter
        self.victims = list(VICTIMS)[: 0 if master == "in-process" else 1 + ("cluster" in master)]
        self.backend = rng.choice(["hashmap", "rocksdb"])
        self.is_own = rng.random() < 0.5
        self.settings = {
            **MORE,
            "execution__checkpointing__incremental": rng.choice(["true", "false"]),
            "execution__checkpointing__data-inline-threshold": rng.choice(["0", "1 kb", "20 kb"]),
            "execution__checkpointing__num-retained": rng.choice(["1", "2", "3"]),
            # The sweep at each start takes what is older than a checkpoint may take.
            "execution__checkpointing__timeout": rng.choice(["3 s", "10 s", "10 min"]),
            "penstock__checkpoint__orphan-ttl": "0 ms",
        }
        if self.victims:
            # Where workers share no directory; the time-out is for machines that are fast enough.
            self.settings["penstock__state__local__shared"] = str("cluster" not in master).lower()
            self.settings["execution__checkpointing__timeout"] = "10 min"
        self.steered = "savepoints" if rng.random() < 0.3 else ""
        choose_shapes(directory, rng.sample(sorted(EXPECTED), rng.randint(0, 3)))
        self.epoch = 0
        self.seen: dict[int, bytes] = {}
        """Every checkpoint whose metadata was ever there, published or not."""
        self.start_from = ""
        self._job: subprocess.Popen[bytes] | None = None
        tally.runs += 1

    def suffer(self, fault: Fault) -> bool:
        """Starts the job, has it fail in this way; False when it finished before."""
        once = self.directory / f"struck-{self.epoch}"
        job = self._start(fault.armed(once))
        struck = self._progressed(job, fault.nth) if not fault.point else self._hit(job, once)
        if struck and fault.kind in VICTIMS:
            struck = kill_one(job, VICTIMS[fault.kind]) > 0
        if struck and (fault.kind in SURVIVED or fault.kind in VICTIMS):
            # It goes on by itself, or ends with the error; what matters is what it wrote.
            self._wait(job, lambda: False)
            self.tally.struck[f"{fault.point or 'progress'}={fault.kind}"] += 1
            return job.returncode != 0 and not self._was_over()
        if struck and fault.kind == "hang":
            time.sleep(0.05)
        self._end(job)
        if not struck:
            assert job.returncode == 0, f"{fault.name}: {log_of(self.directory)}"
            self.tally.missed += 1
            return False
        self.tally.struck[f"{fault.point or 'progress'}={fault.kind.partition(':')[0]}"] += 1
        self._check_numbers()
        check_files(self.directory)
        if self._was_over():
            self.tally.missed += 1
            return False
        return True

    def finish(self) -> None:
        """Lets the job come to its end, unless it has, and checks everything it wrote."""
        pace(self.directory, paced=False)
        job = self._start("")
        self._wait(job, lambda: False)
        assert job.returncode == 0, log_of(self.directory)
        self.check()

    def close(self) -> None:
        """Kills the last job, if the campaign ends before it."""
        if self._job is not None and self._job.poll() is None:
            self._end(self._job)

    def check(self) -> None:
        verify(self.directory, RECORDS)

    def _start(self, faults: str) -> subprocess.Popen[bytes]:
        self.epoch += 1
        self.tally.starts += 1
        if self.rng.random() < 0.5:
            # A worker's files are a cache: what counts is on durable storage.
            shutil.rmtree(self.directory / "tmp", ignore_errors=True)
        self.start_from = f"own:{self.epoch}" if self.is_own else latest(self.directory)
        self._job = self.starter(
            self.directory,
            RECORDS,
            self.master,
            self.backend,
            self.start_from,
            faults,
            steered=self.steered,
            **self.settings,
        )
        return self._job

    def _was_over(self) -> bool:
        """Whether the job had removed its checkpoints, because it had finished, when it died.

        What is left is the one it began from, which another job wrote. A job that finds its own
        pointer knows that it is over; whoever gives a path has to know that himself.
        """
        if self.is_own or latest(self.directory) != self.start_from:
            return False
        try:
            self.check()
        except AssertionError:
            return False
        return True

    def _check_numbers(self) -> None:
        """No number is used twice, nor one below those that were there."""
        highest = max(self.seen, default=0)
        for path in self.directory.glob("checkpoints/*/chk-*/_metadata"):
            number, content = int(path.parent.name.removeprefix("chk-")), path.read_bytes()
            assert number in self.seen or number > highest, f"{number} came after {highest}"
            assert self.seen.setdefault(number, content) == content, f"{number} came twice"

    def _end(self, job: subprocess.Popen[bytes]) -> None:
        """Kills the job, and what is left of it: processes of Spark outlive the driver a little."""
        if job.poll() is None or self.victims:
            kill_group(job.pid)
            job.wait()

    def _hit(self, job: subprocess.Popen[bytes], once: Path) -> bool:
        self._wait(job, once.exists)
        return once.exists()

    def _progressed(self, job: subprocess.Popen[bytes], number: int) -> bool:
        known = max(checkpoints(self.directory), default=0)
        goal = known + number
        self._wait(job, lambda: max(checkpoints(self.directory), default=0) >= goal)
        time.sleep(self.rng.random() * 0.05)
        return job.poll() is None

    def _wait(self, job: subprocess.Popen[bytes], condition: object) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while job.poll() is None and not condition():  # type: ignore[operator]
            if time.monotonic() > deadline:
                kill_group(job.pid)
                job.wait()
                raise AssertionError(f"the job hangs: {log_of(self.directory)}")
            time.sleep(0.002)


def kill_group(leader: int) -> None:
    """Kills all processes of a group that are still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def run_kills(run: Run, most: int) -> None:
    """One job with up to `most` random failures, and its check."""
    story = []
    try:
        for _ in range(most):
            fault = random_fault(run.rng, run.victims)
            story.append(fault.name)
            if not run.suffer(fault):
                run.check()
                return
        run.finish()
    except AssertionError as error:
        raise AssertionError(
            f"after {story} with {run.settings}, {run.backend}, {shapes(run.directory)}: {error}"
        ) from error
