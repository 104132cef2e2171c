"""Elections between real processes: killed, stopped beyond the lease and continued, many at once.

What each of them wrote as leader is compared afterwards, by plain reading of their logs.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).with_name("ha_candidate.py")
LEASE_SECONDS = 1.5
Found = TypeVar("Found")
pytestmark = pytest.mark.e2e


class Cluster:
    """Candidates on one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.settings = {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(directory / "ha"),
            "penstock.high-availability.lease-timeout": f"{LEASE_SECONDS * 1000:.0f} ms",
        }

    def start(self, name: str) -> None:
        with (self.directory / "errors.txt").open("ab") as errors:
            self.processes[name] = subprocess.Popen(
                [
                    sys.executable,
                    str(PROGRAM),
                    json.dumps(self.settings),
                    str(self.directory / "work"),
                    str(self.directory / f"{name}.log"),
                ],
                stdout=errors,
                stderr=errors,
            )

    def lines(self, name: str) -> list[list[str]]:
        path = self.directory / f"{name}.log"
        text = path.read_text() if path.exists() else ""
        # A killed process may have left half a line.
        return [line.split() for line in text.rpartition("\n")[0].splitlines()]

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.directory.glob("*.log"))

    def granted(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name in self.names():
            for line in self.lines(name):
                if line[0] == "granted":
                    found.setdefault(int(line[1]), []).append(name)
        return found

    def leader(self, after: tuple[int, str] = (0, "")) -> tuple[int, str]:
        """Waits for a leadership that has begun to write, of another candidate in a later epoch.

        One that gets no time for a while may lose the lease and take it again: it is the name of
        the leader before that counts, which may have led in later epochs than the given one.
        """
        return self.wait(partial(self.writing, *after))

    def writing(self, above: int, other: str) -> tuple[int, str] | None:
        for epoch, (name, *_) in sorted(self.granted().items(), reverse=True):
            wrote = ["wrote", str(epoch)]
            if epoch <= above or name == other or name not in self.processes:
                continue
            if any(line[:2] == wrote for line in self.lines(name)):
                return epoch, name
        return None

    def wait(self, condition: Callable[[], Found | None]) -> Found:
        deadline = time.monotonic() + 200
        while not (found := condition()):
            errors = (self.directory / "errors.txt").read_text()[-2000:]
            assert time.monotonic() < deadline, f"{self.granted()}\n{errors}"
            time.sleep(0.02)
        return found

    def writes(self) -> list[tuple[int, int]]:
        """Version and epoch of every write that its writer knows to be committed, in order."""
        found = [
            (int(line[2]), int(line[1]))
            for name in self.names()
            for line in self.lines(name)
            if line[0] == "wrote" and len(line) == 3
        ]
        return sorted(found)

    def has(self, name: str, line: list[str]) -> bool:
        return line in self.lines(name)

    def has_written(self, version: int) -> bool:
        return self.writes()[-1][0] >= version

    def verify(self) -> None:
        granted = self.granted()
        assert all(len(names) == 1 for names in granted.values()), granted
        writes = self.writes()
        versions = [version for version, _ in writes]
        assert len(versions) == len(set(versions)), "a version was written twice"
        epochs = [epoch for _, epoch in writes]
        assert epochs == sorted(epochs), "an old leader wrote after a newer one"

    def signal(self, name: str, what: signal.Signals) -> None:
        os.kill(self.processes[name].pid, what)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def test_a_killed_leader_is_followed(cluster: Cluster) -> None:
    cluster.start("a")
    first = cluster.leader()
    cluster.start("b")
    cluster.kill("a")
    second = cluster.leader(after=first)
    assert (first[1], second[1]) == ("a", "b")
    # One that ends in order does not make others wait for the lease to run out.
    cluster.start("c")
    cluster.signal("b", signal.SIGTERM)
    assert cluster.leader(after=second)[1] == "c"
    cluster.wait(partial(cluster.has, "b", ["ended"]))
    assert ["revoked", str(second[0])] in cluster.lines("b")
    cluster.verify()


def test_a_leader_that_was_stopped_beyond_its_lease_writes_nothing_more(cluster: Cluster) -> None:
    cluster.start("a")
    leader = cluster.leader()
    cluster.start("b")
    for _ in range(3):
        old_epoch, old = leader
        revoked = ["revoked", str(old_epoch)]
        cluster.signal(old, signal.SIGSTOP)
        leader = cluster.leader(after=leader)
        newest = cluster.writes()[-1][0]
        cluster.signal(old, signal.SIGCONT)
        cluster.wait(partial(cluster.has, old, revoked))
        cluster.wait(partial(cluster.has_written, newest + 5))
        later = [written for version, written in cluster.writes() if version > newest]
        assert min(later) >= leader[0]
        leader = cluster.leader()
    cluster.verify()


def test_many_candidates_and_many_accidents(cluster: Cluster) -> None:
    chance = random.Random(3)
    for number in range(6):
        cluster.start(f"p{number}")
    born = 6
    leader = cluster.leader()
    for _ in range(4):
        before, name = leader, leader[1]
        if chance.random() < 0.5:
            cluster.kill(name)
            cluster.start(f"p{born}")
            born += 1
            leader = cluster.leader(after=before)
        else:
            cluster.signal(name, signal.SIGSTOP)
            leader = cluster.leader(after=before)
            cluster.signal(name, signal.SIGCONT)
    cluster.verify()
