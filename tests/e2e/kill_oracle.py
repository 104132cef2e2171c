"""Starts the job that gets killed, watches its checkpoints, and says whether its output is right.

Nothing here imports Penstock: what the job wrote is compared with what a plain loop gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

PROGRAM = Path(__file__).with_name("kill_job.py")
KEYS = 50
WINDOW_MS = 1_000
PATIENCE_S = 400


def start(
    directory: Path,
    end: int,
    master: str,
    backend: str,
    start_from: str,
    faults: str = "",
    steered: str = "",
    limits: dict[int, int] | None = None,
    log: str = "log.txt",
    **settings: str,
) -> subprocess.Popen[bytes]:
    """Starts the job's process.

    Args:
        directory: Where everything is.
        end: Number of records.
        master: Where the job runs.
        backend: Holds its state.
        start_from: As `kill_job.py` takes it.
        faults: Arms its fault points.
        steered: `savepoints` are taken all the time, or the job is `stopped` with one at once.
        limits: Resource limits of the process, by the numbers of `resource`.
        log: Takes what the process prints, in the directory or anywhere.
        settings: More configuration; two underscores stand for a dot.
    """
    environment = {**os.environ, "PENSTOCK_FAULT_POINTS": faults, "KILL_JOB_STEERED": steered}
    more = json.dumps({key.replace("__", "."): value for key, value in settings.items()})
    command = [sys.executable, PROGRAM, directory, end, master, backend, start_from, more]

    def limit() -> None:
        for number, value in (limits or {}).items():
            resource.setrlimit(number, (value, value))

    with (directory / log).open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
            preexec_fn=limit,
        )


def pace(directory: Path, *, paced: bool = True) -> None:
    """Keeps the job from its end until it has taken a checkpoint for each epoch's worth of input.

    Else a job whose storage is slow and whose processor is fast ends with hardly a checkpoint.
    """
    mark = directory / "paced"
    if paced:
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def is_paced(directory: Path) -> bool:
    return (directory / "paced").exists()


def log_of(directory: Path) -> str:
    return (directory / "log.txt").read_text()[-3000:]


def checkpoints(directory: Path) -> list[int]:
    """Numbers of the checkpoints that are there, ascending."""
    found = directory.glob("checkpoints/*/chk-*/_metadata")
    return sorted(int(path.parent.name.removeprefix("chk-")) for path in found)


def latest(directory: Path) -> str:
    """The newest checkpoint that is whole; numbers rise over all runs."""
    found = directory.glob("checkpoints/*/chk-*/_metadata")
    newest = max(found, key=lambda path: int(path.parent.name.removeprefix("chk-")), default=None)
    return "" if newest is None else str(newest.parent)


def waited(is_so: Callable[[], bool], patience_s: float) -> bool:
    """Waits until something is so; False if it is not in time."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def check_counts(key: int, found: list[int], wanted: list[int]) -> None:
    """Compares the counts of a key in the order in which they were written."""
    if found != wanted:
        seen = Counter(found)
        lost = [each for each in wanted if each not in seen][:5]
        doubled = [each for each, times in seen.items() if times > 1][:5]
        raise AssertionError(f"key {key}: lost {lost}, doubled {doubled}, or out of order")


def wait_for_new(directory: Path, number: int, job: subprocess.Popen[bytes]) -> bool:
    """Waits for checkpoints; False if the job ended before."""
    known = max(checkpoints(directory), default=0)
    deadline = time.monotonic() + PATIENCE_S
    while max(checkpoints(directory), default=0) < known + number:
        if job.poll() is not None:
            return False
        assert time.monotonic() < deadline, log_of(directory)
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


def check_files(directory: Path) -> None:
    """Every data file under its name holds what its name says, whatever was killed meanwhile."""
    for path in directory.glob("checkpoints/*/*/*"):
        digest, dash, _ = path.name.partition("-")
        if dash and len(digest) == 64:
            with contextlib.suppress(FileNotFoundError):
                found = hashlib.sha256(path.read_bytes()).hexdigest()
                assert found == digest, f"{path} is torn: {found}"


def choose_shapes(directory: Path, names: Iterable[str]) -> None:
    """Has the job do more, as `kill_shapes.py` says."""
    (directory / "shapes").write_text(" ".join(names))


def shapes(directory: Path) -> list[str]:
    path = directory / "shapes"
    return path.read_text().split() if path.exists() else []


def _seconds(end: int) -> Iterator[str]:
    counts = Counter((value % 20, value // 1_000) for value in range(end))
    return (f"{key},{second},{count}" for (key, second), count in counts.items())


def _debounced(end: int) -> Iterator[str]:
    for key in range(40):
        values = range(key, end, 40)
        yield f"{key},last {values[-1]}"
        yield f"{key},most {values[-1]},total {sum(values)}"


def _join(end: int) -> Iterator[str]:
    for left in range(0, end, 10):
        if left + 5 < end:
            yield f"{left},{left + 5}"
        # The number five below is in the hundred before, which has another key.
        if left % 100:
            yield f"{left},{left - 5}"


def _rules(end: int) -> Iterator[str]:
    yield from (str(value) for value in range(0, end, 50))
    yield from (f"{key},rules,{sum(range(100))}" for key in range(3))


EXPECTED: Final[dict[str, Callable[[int], Iterable[str]]]] = {
    "seconds": _seconds,
    "debounced": _debounced,
    "buffered": lambda end: (f"{value % 8},{value}" for value in range(end)),
    "lasting": lambda end: (
        f"{key},{count},{value}"
        for key in range(30)
        for count, value in enumerate(range(key, end, 30), 1)
    ),
    "sessions": lambda end: (
        str(sum(value for value in range(at, min(at + 300, end)) if value % 3 == key))
        for at in range(0, end, 1_000)
        for key in range(3)
    ),
    "join": _join,
    "rules": _rules,
    "slow": lambda end: (str(value) for value in range(end) if value % 500 < 2),
}
"""What each shape of `kill_shapes.py` writes, in any order."""


def verify(directory: Path, end: int) -> None:
    """Compares the whole output: nothing lost, nothing doubled, state and order per key kept."""
    found = Counter(lines(directory / "numbered"))
    # All numbers of one key lie in one split, so their order is known.
    expected = Counter(
        f"{key},{count},{value}"
        for key in range(KEYS)
        for count, value in enumerate(range(key, end, KEYS), 1)
    )
    lost, extra = expected - found, found - expected
    assert not lost, f"{lost.total()} of {end} records are lost or wrong: {sorted(lost)[:5]}"
    assert not extra, f"{extra.total()} records are doubled or wrong: {sorted(extra)[:5]}"
    for shape in shapes(directory):
        found, expected = Counter(lines(directory / shape)), Counter(EXPECTED[shape](end))
        assert found == expected, (
            f"{shape}: {sorted((expected - found).items())[:5]} are missing, "
            f"{sorted((found - expected).items())[:5]} are wrong or doubled"
        )
    sums = Counter(map(int, lines(directory / "sums")))
    windows = Counter(
        sum(value for value in range(at, min(at + WINDOW_MS, end)) if value % 3 == key)
        for at in range(0, end, WINDOW_MS)
        for key in range(3)
    )
    assert sums == windows, (sums - windows, windows - sums)
