"""What a cluster costs: state at home, wide levels, and a restore by those who need it.

    python -m bench.placement [--quick] [rate] [wide] [restore] [checkpoint]

One run measures all of it, on `local-cluster` masters, whose executors are processes of their own
and keep state files to themselves (`docs/decisions`, state stays with executors):

* *rate*: a count per user in RocksDB on `local[2]`, and on two executors of one core each;
* *wide*: 256 subtasks in a level; processor time of the driver for each subtask and level;
* *restore*: the first epoch of a job that restores a million keys, beside that of one without;
* *checkpoint*: records per second while 1 GiB of state is copied to a checkpoint and to savepoints,
  beside those before and after; how long a stop takes; and the memory of the driver with 10 MiB and
  with 1 GiB of state.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = Path(__file__).with_name("programs") / "placement.py"
CLUSTER: Final = "local-cluster[2,1,1024]"
PAIRS: Final = 3
MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
KEPT_BYTES: Final = 4096
"""For each user."""


def run(directory: Path, **arguments: Any) -> dict[str, Any]:
    """Runs the program once; returns what it measured."""
    command = [sys.executable, str(PROGRAM), str(directory), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_rate(directory: Path, *, quick: bool) -> None:
    """A job on one machine, and the same on two executors."""
    ratios = []
    for _ in range(1 if quick else PAIRS):
        rates = [
            run(directory, master=master, keys=200_000, seconds=5 if quick else 15)["rate"]
            for master in ("local[2]", CLUSTER)
        ]
        ratios.append(rates[1] / rates[0])
        print(f"rate: {rates[0]:,.0f} and {rates[1]:,.0f} records/s, {ratios[-1]:.0%}")
    print(f"rate of two executors beside local[2]: {statistics.median(ratios):.0%} (median)")


def measure_wide(directory: Path, *, quick: bool) -> None:
    """Work of the driver."""
    wide = run(directory, master=CLUSTER, keys=10_000, seconds=5 if quick else 20, width=256)
    print(
        f"256 subtasks in each of 2 levels: {wide['python_ms']:.2f} ms of Python and "
        f"{wide['jvm_ms']:.2f} ms of the JVM in the driver, for each subtask and level; "
        f"epochs {wide['epoch_ms']:,.0f} ms (median of {wide['epochs']})"
    )


def measure_restore(directory: Path, *, quick: bool) -> None:
    """The first epochs of two jobs."""
    keys = 50_000 if quick else 1_000_000
    filled = run(directory, master=CLUSTER, keys=keys, fill=True)
    back = run(directory, master=CLUSTER, keys=keys, restore=filled["snapshot"], seconds=1)
    print(
        f"restore of {keys:,} keys: first epoch after {back['first_epoch_ms']:,.0f} ms; "
        f"without a restore after {filled['first_epoch_ms']:,.0f} ms"
    )


def measure_checkpoint(directory: Path, *, quick: bool) -> None:
    """Checkpoints of two sizes."""
    for size_mb in (10, 100 if quick else 1024):
        memory = Path(tempfile.mkdtemp(prefix="penstock-placement-", dir=MEMORY))
        sizes = {"keys": size_mb * (1 << 20) // KEPT_BYTES, "kept_bytes": KEPT_BYTES}
        try:
            found = run(directory, master=CLUSTER, seconds=10, copies=str(memory), **sizes)
        finally:
            shutil.rmtree(memory)
        copies = ", ".join(f"{kept:.0%} in {seconds:.1f} s" for seconds, kept in found["copies"])
        median = statistics.median(kept for _, kept in found["copies"])
        print(
            f"checkpoint of {found['bytes'] >> 20:,} MiB, and savepoints: the job keeps {copies} "
            f"of its rate, {median:.0%} (median); a stop takes {found['stop_s']:.1f} s; memory of "
            f"the driver: {found['memory_mb']['python']:,.0f} MiB of Python, "
            f"{found['memory_mb']['jvm']:,.0f} MiB of the JVM"
        )


PARTS: Final = {
    "rate": measure_rate,
    "wide": measure_wide,
    "restore": measure_restore,
    "checkpoint": measure_checkpoint,
}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, one pair of runs")
    parser.add_argument("parts", nargs="*", metavar="part", help="; ".join(PARTS) + "; all of them")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="penstock-placement-"))
    try:
        for part in arguments.parts or PARTS:
            PARTS[part](directory, quick=arguments.quick)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
