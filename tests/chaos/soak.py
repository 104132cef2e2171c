"""A job for hours, killed now and then: `make soak SECONDS=7200`.

Events at a steady rate on `local[2]`, state in RocksDB, checkpoints every second. Its processes
are killed in turn, the whole group or one Python worker. At the end every line of output is
compared with what DuckDB computes from the numbers, and memory, files and epochs are printed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from kill_campaign import kill_group
from kill_processes import WORKER, kill_one, processes

PROGRAM = Path(__file__).with_name("soak_job.py")
NOTED_EVERY_S = 10
# How much later than its input a job may end before it counts as hanging.
PATIENCE_S = 900
QUARTERS = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="a new directory; it is kept")
    parser.add_argument("--seconds", type=int, default=7_200)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--kill-every", type=int, default=300, help="seconds, on average")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    (arguments.directory / "began").write_text(str(time.time()))
    kills = soak(arguments)
    print_figures(arguments.directory, kills)
    wrong = wrong_output(arguments)
    print("\n".join(wrong) or "Every line of output is there once.")
    return 1 if wrong else 0


def soak(arguments: argparse.Namespace) -> dict[str, int]:
    rng = random.Random(arguments.seed)
    deadline = time.monotonic() + arguments.seconds + PATIENCE_S
    kills = {"the job's processes": 0, "a Python worker": 0}
    with (arguments.directory / "samples.tsv").open("a", buffering=1) as samples:
        for attempt in itertools.count(1):
            job = start(arguments, attempt)
            try:
                while job.poll() is None:
                    # Not the last kill when the input is at its end.
                    until = time.monotonic() + rng.uniform(0.5, 1.5) * arguments.kill_every
                    watch(arguments.directory, job, until, samples)
                    if job.poll() is not None:
                        break
                    assert time.monotonic() < deadline, "the job hangs"
                    if rng.random() < 0.5:
                        kills["a Python worker"] += bool(kill_one(job, WORKER))
                    else:
                        kills["the job's processes"] += 1
                        break
            finally:
                ended = job.poll()
                kill_group(job.pid)
                job.wait()
            if ended is not None:
                assert ended == 0, f"the job ended with {ended}; see {arguments.directory}/log.txt"
                return kills
    raise AssertionError


def start(arguments: argparse.Namespace, attempt: int) -> subprocess.Popen[bytes]:
    numbers = (arguments.seconds, arguments.rate, arguments.users, attempt)
    command = [sys.executable, PROGRAM, arguments.directory, *numbers]
    with (arguments.directory / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [str(part) for part in command], stdout=log, stderr=log, start_new_session=True
        )


def watch(directory: Path, job: subprocess.Popen[bytes], until: float, samples: object) -> None:
    """Notes memory and files until a time, or until the job has ended."""
    while time.monotonic() < until:
        try:
            job.wait(timeout=min(NOTED_EVERY_S, max(0.1, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            memory = memory_mb(job)
            sizes = [*files_of(directory / "checkpoints"), *files_of(directory / "tmp")]
            line = (time.time(), os.getloadavg()[0], *memory, *sizes)
            samples.write("\t".join(f"{each:.1f}" for each in line) + "\n")  # type: ignore[attr-defined]
        else:
            return


def memory_mb(job: subprocess.Popen[bytes]) -> tuple[float, float, float]:
    """Memory of the driver, the JVM and the Python workers; what they share is dealt out (PSS)."""
    driver = jvm = workers = 0.0
    for pid in processes(job, ""):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        size = (
            sum(int(line.split()[1]) for line in rollup.splitlines() if line[:4] == "Pss:") / 1024
        )
        if pid == job.pid:
            driver += size
        elif name == "java":
            jvm += size
        else:
            workers += size
    return driver, jvm, workers


def files_of(directory: Path) -> tuple[int, float]:
    """Number and MB of the files below a directory that is being written to."""
    count, size = 0, 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                size += os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue
            count += 1
    return count, size / 1e6


def print_figures(directory: Path, kills: dict[str, int]) -> None:
    print(", ".join(f"{count} kills of {what}" for what, count in kills.items()))
    rows = [line.split("\t") for line in (directory / "epochs.tsv").read_text().splitlines()]
    took = sorted(int(row[2]) for row in rows if len(row) == 3)
    at = [took[min(int(len(took) * part), len(took) - 1)] for part in (0.5, 0.99, 0.999, 1)]
    print(f"{len(took)} epochs: median {at[0]} ms, p99 {at[1]}, p99.9 {at[2]}, longest {at[3]}")
    samples = [
        [float(each) for each in line.split("\t")]
        for line in (directory / "samples.tsv").read_text().splitlines()
    ]
    names = ["load", "driver", "JVM", "workers", "checkpoint-files", "MB", "local-files", "MB"]
    print("  ".join(f"{name:>16}" for name in names) + "   (medians of each eighth)")
    for number in range(QUARTERS):
        part = samples[len(samples) * number // QUARTERS : len(samples) * (number + 1) // QUARTERS]
        columns = list(zip(*part, strict=True))[1:]
        print("  ".join(f"{sorted(column)[len(column) // 2]:16,.1f}" for column in columns))


def wrong_output(arguments: argparse.Namespace) -> list[str]:
    """Says what of the output is lost, doubled or wrong; nothing if it is exact."""
    base = duckdb.connect()
    files = {
        name: str([str(path) for path in (arguments.directory / name).rglob("part-*")])
        for name in ("counts", "minutes", "windows")
    }
    base.execute(f"""
        CREATE TABLE events AS
        SELECT ((n * 2654435761::HUGEINT // 128) % {arguments.users})::BIGINT AS id,
               n * 1000 // {arguments.rate} AS ms
        FROM range({arguments.seconds * arguments.rate}) AS numbers(n);
    """)
    read = "read_csv({}, delim='\t', header=false, auto_detect=false, columns={})"
    two = read.format(files["counts"], "{'id': 'BIGINT', 'n': 'BIGINT'}")
    three = "{'id': 'BIGINT', 'slot': 'BIGINT', 'n': 'BIGINT'}"
    expected = {
        "counts": f"""
            SELECT id, count(*) AS n FROM events GROUP BY id EXCEPT
            SELECT id, count(*) FROM {two} GROUP BY id
            HAVING min(n) = 1 AND max(n) = count(*) AND count(DISTINCT n) = count(*)""",
        **{
            f"{name}, {what}": f"{one} EXCEPT ALL {other}"
            for name, key, size in (("minutes", "id", 60_000), ("windows", "id % 50", 10_000))
            for right in [
                f"SELECT {key} AS id, ms // {size} AS slot, count(*) AS n FROM events GROUP BY ALL"
            ]
            for got in [f"SELECT id, slot, n FROM {read.format(files[name], three)}"]
            for what, one, other in (("lost", right, got), ("doubled", got, right))
        },
    }
    found = {what: base.execute(f"{query} LIMIT 5").fetchall() for what, query in expected.items()}
    return [f"{what}: {rows}" for what, rows in found.items() if rows]


if __name__ == "__main__":
    raise SystemExit(main())
