"""Runs one contender on its two sizes and checks what it wrote.

Start-up (JVMs, imports, the first batch) is part of every run and not of the rate:
rate = (large - small) / (time of large - time of small).
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import data
from bench.contenders import PROGRAMS, Contender, Output
from bench.environments import WORK, environment_of, ported, python_of
from bench.kafka import jars
from bench.measure import Run, run_program

if TYPE_CHECKING:
    from pathlib import Path

    from bench.kafka import Topics

TIMEOUT_SECONDS = 1200.0
CHECKED_RECORDS = 200_000


@dataclass(frozen=True, slots=True)
class Result:
    """What one contender achieved."""

    contender: Contender
    sizes: tuple[int, int]
    small: Run
    large: Run

    @property
    def rate(self) -> float:
        """Records a second without start-up; zero when the difference is lost in noise."""
        seconds = self.large.seconds - self.small.seconds
        return (self.sizes[1] - self.sizes[0]) / seconds if seconds > 0 else 0.0

    @property
    def startup_seconds(self) -> float:
        """What remains of the small run at that rate."""
        return self.small.seconds - self.sizes[0] / self.rate if self.rate else 0.0


class WrongResult(Exception):
    """A program wrote something else than it should; its speed is of no interest."""


def run_once(contender: Contender, records: int, arguments: tuple[str, ...], topics: Topics) -> Run:
    """One run; its results are checked, then deleted, unless the arguments drop them."""
    source = data.make_input(WORK / "data", records)
    folder = WORK / "run" / re.sub(r"\W+", "-", f"{contender.name} {records}")
    shutil.rmtree(folder, ignore_errors=True)
    program = PROGRAMS / contender.program
    names = {"input": str(source), "output": str(folder / "output")}
    if contender.output is Output.TOPIC:
        names = {"brokers": topics.broker.address, "input": topics.input_of(source)}
        names |= {"output": topics.new_output(), "jars": ",".join(jars(contender.environment))}
    command = [
        str(python_of(contender.environment)),
        str(ported(program) if contender.environment == "penstock" else program),
        *(text.format(**names) for text in arguments),
    ]
    run = run_program(
        command,
        environment=environment_of(contender.environment),
        folder=folder,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    if contender.output is Output.TOPIC:
        topics.write_results(names["output"], folder / "output")
    if arguments != contender.arguments or not contender.checked_arguments:
        wrong = find_wrong(contender, source, folder)
        if wrong:
            raise WrongResult(f"{contender.name}, {records} records: {wrong}")
    shutil.rmtree(folder)
    return run


def find_wrong(contender: Contender, source: Path, folder: Path) -> str:
    """Compares what a run left with what was computed independently."""
    if contender.output is Output.PRINTED:
        write_printed_rows(folder / "stdout", folder / "output")
    results = data.result_files(folder / "output")
    if contender.workload == "windows":
        lines = [line for path in results for line in path.read_text().splitlines()]
        return data.wrong_windows(source, lines)
    return data.wrong_users(source, results, every_count=contender.every_count)


def write_printed_rows(printed: Path, target: Path) -> None:
    """Turns Flink's `2> +I[a, b]` into lines; retractions (-U) are answered by the next row."""
    target.mkdir()
    rows = re.findall(r"^(?:\d+> )?\+[IU]\[(.*)\]$", printed.read_text(), flags=re.MULTILINE)
    (target / "rows").write_text("".join(row.replace(", ", "\t") + "\n" for row in rows))


def race(contender: Contender, topics: Topics, *, quick: bool) -> Result:
    """Measures one contender."""
    if contender.checked_arguments:
        run_once(contender, CHECKED_RECORDS, contender.checked_arguments, topics)
    sizes = contender.quick_sizes if quick else contender.sizes
    small, large = (run_once(contender, size, contender.arguments, topics) for size in sizes)
    return Result(contender, sizes, small, large)
