"""The job's process is killed with SIGKILL and started again from its latest checkpoint.

What it wrote is read by plain code that shares nothing with Penstock: nothing is lost, nothing is
there twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kill_job.py")
KEYS = 50
WINDOW_MS = 1_000
pytestmark = pytest.mark.e2e


def start(
    directory: Path, end: int, master: str, backend: str, start_from: str
) -> subprocess.Popen[bytes]:
    with (directory / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), str(directory), str(end), master, backend, start_from],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def checkpoints(directory: Path) -> list[int]:
    found = directory.glob("checkpoints/*/chk-*/_metadata")
    return sorted(int(path.parent.name.removeprefix("chk-")) for path in found)


def latest(directory: Path) -> str:
    """The newest checkpoint that is whole; numbers rise over all runs."""
    found = directory.glob("checkpoints/*/chk-*/_metadata")
    newest = max(found, key=lambda path: int(path.parent.name.removeprefix("chk-")), default=None)
    return "" if newest is None else str(newest.parent)


def wait_for_new(directory: Path, number: int, job: subprocess.Popen[bytes]) -> bool:
    """Waits for checkpoints; False if the job ended before."""
    known = max(checkpoints(directory), default=0)
    deadline = time.monotonic() + 120
    while max(checkpoints(directory), default=0) < known + number:
        if job.poll() is not None:
            return False
        assert time.monotonic() < deadline, (directory / "log.txt").read_text()[-3000:]
        time.sleep(0.002)
    return True


def lines(directory: Path) -> list[str]:
    """All records that a reader sees: hidden files are not output."""
    return [
        line
        for path in directory.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts[-2:])
        for line in path.read_text().splitlines()
    ]


def verify(directory: Path, end: int) -> None:
    found = Counter(lines(directory / "numbered"))
    doubled = {line: count for line, count in found.items() if count > 1}
    assert not doubled, f"{len(doubled)} lines twice: {list(doubled)[:5]}"
    values = Counter(int(line.split(",")[2]) for line in found)
    assert len(values) == end, f"{end - len(values)} records are lost"
    assert max(values.values()) == 1, "a record was counted twice"
    for key in range(KEYS):
        counts = sorted(int(line.split(",")[1]) for line in found if line.split(",")[0] == str(key))
        assert counts == list(range(1, len(range(key, end, KEYS)) + 1))
    sums = Counter(map(int, lines(directory / "sums")))
    expected = Counter(
        sum(value for value in range(at, min(at + WINDOW_MS, end)) if value % 3 == key)
        for at in range(0, end, WINDOW_MS)
        for key in range(3)
    )
    assert sums == expected, (sums - expected, expected - sums)


@pytest.mark.parametrize(
    ("master", "backend", "end"),
    [
        ("in-process", "hashmap", 200_000),
        ("in-process", "rocksdb", 200_000),
        pytest.param("local[2]", "hashmap", 100_000, marks=pytest.mark.spark),
    ],
)
def test_kills(tmp_path: Path, master: str, backend: str, end: int) -> None:
    kills, highest = 0, 0
    for wanted, delay_s in [(1, 0.0), (2, 0.013), (1, 0.03)]:
        job = start(tmp_path, end, master, backend, latest(tmp_path))
        if not wait_for_new(tmp_path, wanted, job):
            break
        time.sleep(delay_s)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        kills += 1
        # Numbers never come again.
        assert max(checkpoints(tmp_path)) > highest
        highest = max(checkpoints(tmp_path))
    assert kills == 3, (tmp_path / "log.txt").read_text()[-3000:]
    job = start(tmp_path, end, master, backend, latest(tmp_path))
    assert job.wait(200) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    verify(tmp_path, end)
