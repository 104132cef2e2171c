"""Checkpoints of Penstock: how long, how large, what they cost, and how fast a job is back.

The program's output tells whether to believe the figures: after the restore the counts of every
user must go on where they stood, without a gap and without a repetition.
"""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb

from bench import data
from bench.contenders import PROGRAMS
from bench.environments import WORK, environment_of, python_of
from bench.latency import percentiles
from bench.measure import RunError, run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZES: Final = (
    ("rocksdb", 100_000),
    ("rocksdb", 1_000_000),
    ("rocksdb", 10_000_000),
    ("hashmap", 100_000),
    ("hashmap", 1_000_000),
)
QUICK_SIZES: Final = (("rocksdb", 20_000), ("hashmap", 20_000))
OFTEN_MS: Final = 500
SECONDS: Final = 40
BACKLOG_SECONDS: Final = 30
QUICK_SECONDS: Final = 5
RESTORED_SECONDS: Final = 3
EPOCH_KEYS: Final = 1_000_000
EPOCH_SECONDS: Final = 120
QUICK_EPOCH_KEYS: Final = 20_000
EPOCH_QUICK_SECONDS: Final = 12
BACKLOG_KEYS: Final = 1_000_000
QUICK_BACKLOG_KEYS: Final = 20_000
MEBIBYTE: Final = 1 << 20

SETTINGS: Final = (
    "penstock.spark.master=local[2]",
    "execution.checkpointing.incremental=true",
    "web.checkpoints.history=100000",
)
PHASES: Final = ("delay_ms", "upload_ms", "commit_ms")


@dataclass(frozen=True, slots=True)
class SteadyResult:
    """Checkpoints of one state.

    Attributes:
        backend: Name of the state backend.
        keys: Keys in the state.
        checkpoints: What the program noted of each.
        restored_seconds: From the start of a job to its first epoch with this state.
        empty_seconds: The same without state.
    """

    backend: str
    keys: int
    checkpoints: tuple[dict[str, int], ...]
    restored_seconds: float
    empty_seconds: float

    def __str__(self) -> str:
        whole = percentiles(self._values("whole_ms"))
        phases = " + ".join(str(percentiles(self._values(name))[0]) for name in PHASES)
        sizes = [percentiles(self._values(name))[0] for name in ("state_bytes", "new_bytes")]
        state, new = (f"{size / MEBIBYTE:.1f} MiB" for size in sizes)
        restore = max(self.restored_seconds - self.empty_seconds, 0.0)
        return (
            f"| {self.backend} | {self.keys:,} | {len(self.checkpoints)} | {whole[0]} ms "
            f"| {whole[1]} ms | {phases} ms | {new} | {state} | {restore:.1f} s |"
        )

    def _values(self, name: str) -> list[int]:
        return [each[name] for each in self.checkpoints]


@dataclass(frozen=True, slots=True)
class CostResult:
    """Records a second, run for run: without checkpoints, and with one every five seconds."""

    without: tuple[float, ...]
    with_them: tuple[float, ...]

    @property
    def kept(self) -> float:
        """What remains of the rate."""
        return sum(self.with_them) / sum(self.without)

    def __str__(self) -> str:
        rows = "\n".join(
            f"| {name} | {', '.join(f'{rate:,.0f}' for rate in rates)} |"
            for name, rates in (("without", self.without), ("every 5 s", self.with_them))
        )
        return f"{rows}\n| what remains | {self.kept:.1%} |"


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Epochs and checkpoints of a large state, in milliseconds."""

    keys: int
    epoch_ms: tuple[int, ...]
    checkpoint_ms: tuple[int, ...]

    def __str__(self) -> str:
        epochs, checkpoints = percentiles(self.epoch_ms), percentiles(self.checkpoint_ms)
        return (
            f"| {self.keys:,} | {len(self.epoch_ms)} | {epochs[0]} ms | {epochs[1]} ms "
            f"| {max(self.epoch_ms)} ms | {checkpoints[0]} ms | {checkpoints[1]} ms |"
        )


CheckpointResult = SteadyResult | CostResult | EpochResult


def measure_checkpoints(
    *, quick: bool, only: str, failed: Callable[[Exception], None]
) -> list[CheckpointResult]:
    """Measures one after the other; what fails is told, and the others are measured still."""
    results: list[CheckpointResult] = []
    for backend, keys in QUICK_SIZES if quick else SIZES:
        if only in f"checkpoints, {backend}, {keys:,} keys":
            _add(results, functools.partial(_steady, backend, keys, quick=quick), failed)
    keys = QUICK_EPOCH_KEYS if quick else EPOCH_KEYS
    if only in f"epochs, rocksdb, {keys:,} keys":
        _add(results, functools.partial(_epochs, keys, quick=quick), failed)
    if only in "checkpoints, cost":
        _add(results, functools.partial(_cost, quick=quick), failed)
    return results


def _add(
    results: list[CheckpointResult],
    measure: Callable[[], CheckpointResult],
    failed: Callable[[Exception], None],
) -> None:
    try:
        result = measure()
    except RunError as error:
        failed(error)
        return
    results.append(result)
    print(result, flush=True)


def _steady(backend: str, keys: int, *, quick: bool) -> SteadyResult:
    folder = _folder(f"{backend}-{keys}")
    settings = (
        *SETTINGS,
        f"state.backend.type={backend}",
        f"execution.checkpointing.interval={OFTEN_MS} ms",
    )
    found = _run("steady", folder, keys, QUICK_SECONDS if quick else SECONDS, settings)
    if found["failed"] or not found["checkpoints"]:
        raise RunError(f"{backend}, {keys}: {found['failed']} checkpoints failed")
    back = _run("restore", folder, keys, RESTORED_SECONDS, settings)
    if wrong := wrong_counts(data.result_files(folder / "output")):
        raise RunError(f"{backend}, {keys}: {wrong}")
    shutil.rmtree(folder)
    checkpoints = tuple(found["checkpoints"])
    return SteadyResult(backend, keys, checkpoints, back["restored_seconds"], back["empty_seconds"])


def _epochs(keys: int, *, quick: bool) -> EpochResult:
    folder = _folder(f"epochs-{keys}")
    settings = (
        *SETTINGS,
        "state.backend.type=rocksdb",
        "execution.checkpointing.interval=5 s",
    )
    found = _run("epochs", folder, keys, EPOCH_QUICK_SECONDS if quick else EPOCH_SECONDS, settings)
    if found["failed"] or not found["checkpoints"]:
        raise RunError(f"epochs, {keys}: {found['failed']} checkpoints failed")
    if wrong := wrong_counts(data.result_files(folder / "output")):
        raise RunError(f"epochs, {keys}: {wrong}")
    shutil.rmtree(folder)
    whole = tuple(each["whole_ms"] for each in found["checkpoints"])
    return EpochResult(keys, tuple(found["epoch_ms"]), whole)


def _cost(*, quick: bool) -> CostResult:
    """In turns, so that a machine that gets slower meets both."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for with_them in (False, True, True, False):
        folder = _folder("cost")
        every = ("execution.checkpointing.interval=5 s",) if with_them else ()
        settings = (*SETTINGS, "state.backend.type=rocksdb", *every)
        keys, seconds = BACKLOG_KEYS, BACKLOG_SECONDS
        if quick:
            keys, seconds = QUICK_BACKLOG_KEYS, QUICK_SECONDS
        found = _run("backlog", folder, keys, seconds, settings)
        if bool(found["checkpoints"]) != with_them:
            raise RunError(f"cost: {found['checkpoints']} checkpoints")
        rates[with_them].append(found["rate"])
        shutil.rmtree(folder)
    return CostResult(tuple(rates[False]), tuple(rates[True]))


def _folder(name: str) -> Path:
    folder = WORK / "run" / f"checkpoints-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _run(what: str, folder: Path, keys: int, seconds: int, settings: tuple[str, ...]) -> Any:
    log = folder / what
    program = str(PROGRAMS / "checkpoints.py")
    run_program(
        [
            str(python_of("penstock")),
            program,
            what,
            str(folder),
            str(keys),
            str(seconds),
            *settings,
        ],
        environment=environment_of("penstock"),
        folder=log,
        timeout_seconds=seconds + 120 + keys / 20_000,
    )
    return json.loads((log / "stdout").read_text().splitlines()[-1])


def wrong_counts(results: list[Path]) -> str:
    r"""Says which users' counts are not 2, 3, 4 …, or nothing; the lines are `user \t count`."""
    if not results:
        return "no output"
    wrong = (
        duckdb.connect()
        .execute(f"""
        SELECT id, count(*) AS lines, min(n) AS first, max(n) AS last
        FROM read_csv({[str(path) for path in results]}, delim='\t', header=false,
                      auto_detect=false, columns={{'id': 'BIGINT', 'n': 'BIGINT'}})
        GROUP BY id
        HAVING first <> 2 OR last <> lines + 1 OR count(DISTINCT n) <> lines
        LIMIT 3
    """)
        .fetchall()
    )
    return f"users (id, lines, first, last): {wrong}" if wrong else ""


def checkpoint_tables(results: list[CheckpointResult]) -> str:
    """The tables of this part, as Markdown."""
    steady = [str(each) for each in results if isinstance(each, SteadyResult)]
    cost = [str(each) for each in results if isinstance(each, CostResult)]
    epochs = [str(each) for each in results if isinstance(each, EpochResult)]
    parts = []
    if steady:
        parts.append(
            "## Checkpoints of Penstock\n\n"
            f"A count per user, 10,000 users a second drawn at random, a checkpoint every "
            f"{OFTEN_MS} ms to a local disk with `fsync`. Durations are from the trigger to the "
            "commit; the phases (medians) are: wait for the end of the epoch, upload, metadata and "
            "pointer. *Restore* is how much later the first epoch ends than without state.\n\n"
            "| state backend | keys | checkpoints | median | 99th percentile | phases "
            "| new bytes | all bytes | restore |\n"
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n" + "\n".join(steady) + "\n"
        )
    if epochs:
        parts.append(
            "### Epochs with a large state\n\n"
            "1 kB of state a user in rocksdb, 5,000 users a second drawn at random, incremental "
            "checkpoints every 5 s.\n\n"
            "| keys | epochs | median | 99th percentile | longest | checkpoint, median "
            "| 99th percentile |\n|--:|--:|--:|--:|--:|--:|--:|\n" + "\n".join(epochs) + "\n"
        )
    if cost:
        parts.append(
            f"### What checkpoints cost\n\nThe same job under backlog, {BACKLOG_KEYS:,} users, "
            "rocksdb, in turns.\n\n"
            "| checkpoints | records/s |\n|---|--:|\n" + "\n".join(cost) + "\n"
        )
    return "\n".join(parts)
