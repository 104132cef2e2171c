"""Kills a job that writes to a table, and the server of the table, and checks every row.

The oracle reads the table with a client of its own and shares no code with the job: of each
key there must be the counts 1, 2, 3 … once, in order. As a program it draws faults:

    PYTHONPATH=tests:tests/e2e python tests/e2e/tables/table_kills.py --kills 60
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

from kill_campaign import Fault, Tally, all_points
from kill_oracle import PATIENCE_S, check_counts, checkpoints, log_of, waited
from table_targets import (
    LAKES,
    Database,
    FollowedLake,
    FollowedMariaDb,
    FollowedTable,
    Numbers,
    SearchIndex,
    Target,
)

import mariadb_server
import postgres_server
from opensearch_server import Server as OpenSearch

PROGRAM: Final = Path(__file__).with_name("table_kill_job.py")
KEYS: Final = 20
CONNECTORS: Final = ("kafka.", "jdbc.", "delta.", "iceberg.")
"""How the fault points of connectors begin; a job reaches those of its own only."""
SERVERS: Final[dict[str, tuple[Any, type[FollowedTable]]]] = {
    "postgresql": (postgres_server.Server, FollowedTable),
    "mariadb": (mariadb_server.Server, FollowedMariaDb),
}
"""Databases to write to and to follow."""
_REACHED_S: Final = 10.0
"""A fault that was not reached by then is none; the process is killed where it is."""


def random_fault(rng: random.Random, target: Target) -> Fault:
    """Draws a fault; the points of the connector are as likely as all others together."""
    chance = rng.random()
    if chance < 0.1 and target.has_server:
        return Fault("", "server", rng.randint(1, 3))
    if chance < 0.2:
        return Fault("", "zombie", rng.randint(1, 3))
    if chance < 0.35:
        return Fault("", "kill", rng.randint(1, 4))
    points = [
        point
        for point in all_points()
        if not point.startswith(("storage.write", *CONNECTORS)) or point.startswith(target.points)
    ]
    if chance < 0.8:
        points = [point for point in all_points() if point.startswith(target.points)]
    kind = rng.choices(["kill", "exit", "hang", "raise"], [70, 10, 10, 10])[0]
    return Fault(rng.choice(points), kind, rng.randint(1, 4))


class TableRun:
    """One job that is killed again and again while records keep coming.

    Args:
        directory: Empty.
        target: Where it writes.
        rng: Chooses settings.
        tally: Is added to.
        numbers: The numbers that the job reads; unless given, a file's bytes.
        reached_s: A fault that was not reached by then is none.
    """

    def __init__(
        self,
        directory: Path,
        target: Target,
        rng: random.Random,
        tally: Tally,
        numbers: Numbers | None = None,
        reached_s: float = PATIENCE_S,
    ) -> None:
        self.directory, self.target, self.tally = directory, target, tally
        self._reached_s = reached_s
        self._epoch = 0
        self._jobs: list[subprocess.Popen[bytes]] = []
        self._settings = {
            # In the committables, or in files that have to be in the checkpoint storage.
            "padding": rng.choice(["0", "2000"]),
            "execution.checkpointing.incremental": rng.choice(["true", "false"]),
            "execution.checkpointing.num-retained": rng.choice(["1", "2"]),
            "state.backend.type": rng.choice(["hashmap", "rocksdb"]),
        }
        self._parallelism = rng.choice([1, 2, 3])
        self._numbers = numbers or Numbers(directory / "input")
        self._settings["follows"] = self._numbers.url
        self._is_fed = threading.Event()
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._feeding.start()
        tally.runs += 1

    def _feed(self) -> None:
        while not self._is_fed.wait(0.05):
            self._numbers.add()
        self._numbers.end()

    # -- faults -----------------------------------------------------------------------------------

    def suffer(self, fault: Fault) -> None:
        """Has a process of the job, or its database, fail in this way."""
        once = self.directory / f"struck-{self._epoch}"
        job = self._job(fault.armed(once))
        name = fault.kind
        if fault.point:
            name = f"{fault.point}={fault.kind}"
            if not waited(lambda: once.exists() or job.poll() is not None, self._reached_s):
                self.tally.missed += 1
                name = "progress=kill"
            elif fault.kind == "raise":
                # It goes on by itself, or ends with the error, and another process goes on.
                self._progress(job, 1, may_end=True)
        else:
            self._progress(job, fault.nth)
        if fault.kind == "server":
            self.target.restart()
            self._progress(job, 1)
        elif fault.kind == "zombie":
            # Another process takes over while this one stands still; then both go on.
            os.kill(job.pid, signal.SIGSTOP)
            other = self._started("")
            self._jobs = [other, job]
            self._progress(other, 1)
            os.kill(job.pid, signal.SIGCONT)
            self._progress(other, 2)
            _kill(job)
            self._jobs = [other]
        elif fault.kind != "raise":
            _kill(job)
            self._jobs = []
        self.tally.struck[name] += 1

    def _job(self, faults: str) -> subprocess.Popen[bytes]:
        """Returns the process of the job: a new one, where faults are armed or none is there."""
        if self._jobs and not faults and self._jobs[0].poll() is None:
            return self._jobs[0]
        for job in self._jobs:
            _kill(job)
        return self._started(faults)

    def _started(self, faults: str) -> subprocess.Popen[bytes]:
        self._epoch += 1
        self.tally.starts += 1
        more = [str(self._parallelism), str(self._epoch), json.dumps(self._settings)]
        with (self.directory / "log.txt").open("ab") as log:
            job = subprocess.Popen(
                [sys.executable, PROGRAM, self.directory, self.target.url, *more],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PENSTOCK_FAULT_POINTS": faults},
            )
        self._jobs = [job]
        return job

    def _progress(
        self, job: subprocess.Popen[bytes], number: int, *, may_end: bool = False
    ) -> None:
        """Waits for new checkpoints."""
        known = max(checkpoints(self.directory), default=0)
        assert waited(
            lambda: (
                job.poll() is not None
                or max(checkpoints(self.directory), default=0) >= known + number
            ),
            PATIENCE_S,
        ), f"the job stands still: {log_of(self.directory)}"
        assert may_end or job.poll() is None, f"the job ended: {log_of(self.directory)}"

    # -- the oracle -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Lets the job come to the end of its input, restarts it once more, and checks it all."""
        self._is_fed.set()
        self._feeding.join()
        expected = Counter(number % KEYS for number in self._numbers.all())
        total = expected.total()
        self._job("")
        assert waited(lambda: self.target.written() >= total, PATIENCE_S), (
            f"{self.target.written()} of {total} rows: {log_of(self.directory)}"
        )
        for job in self._jobs:
            _kill(job)
        self._progress(self._started(""), 1)
        self.close()
        verify(self.target, expected)

    def close(self) -> None:
        self._is_fed.set()
        for job in self._jobs:
            _kill(job)
        self._feeding.join(PATIENCE_S)


def verify(target: Target, expected: Counter[int]) -> None:
    """Compares the table with what a plain loop gives: each count once, in order by key."""
    found: dict[int, list[int]] = {}
    for key, count in target.counts():
        found.setdefault(key, []).append(count)
    for key, total in expected.items():
        counts = found.pop(key, [])
        counts = counts if target.has_order else sorted(counts)
        check_counts(key, counts, target.expected(total))
    assert not found, f"no record has the keys {list(found)}"


def _kill(job: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--target", choices=[*SERVERS, "sqlite", "elasticsearch", *LAKES], default="postgresql"
    )
    parser.add_argument("--follow", choices=[*SERVERS, "delta", "iceberg"], help="a source")
    arguments = parser.parse_args()
    rng, tally, name = random.Random(arguments.seed), Tally(), arguments.target
    with contextlib.ExitStack() as stack:
        servers: dict[str | None, Any] = {
            kind: stack.enter_context(made())
            for kind, (made, _) in SERVERS.items()
            if kind in (name, arguments.follow)
        }
        search = None
        if name == "elasticsearch":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            search = stack.enter_context(OpenSearch(Path(folder)))
        while tally.kills < arguments.kills:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            target: Target
            if search is not None:
                target = SearchIndex(search)
            elif name in LAKES:
                target = LAKES[name](directory)
            else:
                target = Database(directory, servers.get(name))
            numbers: Numbers | None = None
            if arguments.follow in servers:
                numbers = SERVERS[arguments.follow][1](servers[arguments.follow])
            elif arguments.follow:
                numbers = FollowedLake(directory, arguments.follow)
            run = TableRun(directory, target, rng, tally, numbers, _REACHED_S)
            try:
                for _ in range(min(15, arguments.kills - tally.kills)):
                    run.suffer(random_fault(rng, target))
                run.finish()
            finally:
                run.close()
            print(f"{tally.kills} kills, {tally.missed} missed: all rows once", flush=True)
    print(dict(tally.struck))


if __name__ == "__main__":
    main()
