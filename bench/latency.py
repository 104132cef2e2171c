"""How long an event waits at a steady 10,000 events a second, in Penstock.

Two figures. The *epoch*: from the beginning of one to the beginning of the next, which follows at
once. The *event*: from the moment it is due to the moment the second stage has it; the wait for the
epoch that reads it is part of that.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import data
from bench.contenders import PROGRAMS
from bench.environments import WORK, environment_of, python_of
from bench.measure import RunError, run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 10_000
WARM_UP_SECONDS = 15
"""Left out: the first epochs start the workers and make up for the events due meanwhile."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds: of epochs, and of events."""

    seconds: int
    epochs: tuple[int, int]
    events: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"| epoch | {self.epochs[0]} ms | {self.epochs[1]} ms |\n"
            f"| event, due to seen | {self.events[0]} ms | {self.events[1]} ms |\n"
        )


def percentiles(values: Sequence[int]) -> tuple[int, int]:
    """The median and the 99th percentile, as the nearest rank."""
    ranked = sorted(values)
    return ranked[len(ranked) // 2], ranked[min(len(ranked) - 1, len(ranked) * 99 // 100)]


def measure_latency(*, quick: bool) -> Latency:
    """Runs the program and reads its lines."""
    seconds = 30 if quick else 90
    folder = WORK / "run" / "latency"
    shutil.rmtree(folder, ignore_errors=True)
    output = folder / "output"
    run_program(
        [str(python_of("penstock")), str(PROGRAMS / "latency.py"), str(output), str(seconds)],
        environment=environment_of("penstock"),
        folder=folder,
        timeout_seconds=seconds + 120,
    )
    rows = [
        tuple(map(int, line.split("\t")))
        for path in data.result_files(output)
        for line in path.read_text().splitlines()
    ]
    if sorted(row[0] for row in rows) != list(range(RATE * seconds)):
        raise RunError(f"latency: {len(rows)} lines for {RATE * seconds} events")
    shutil.rmtree(folder)

    # The schedule begins with the epoch that read event 0.
    first = min(epoch for _, epoch, _ in rows)
    steady = [row for row in rows if row[0] >= RATE * WARM_UP_SECONDS]
    begins = sorted({epoch for _, epoch, _ in steady})
    return Latency(
        seconds - WARM_UP_SECONDS,
        percentiles([later - begin for begin, later in itertools.pairwise(begins)]),
        percentiles([seen - (first + index * 1000 // RATE) for index, _, seen in steady]),
    )
