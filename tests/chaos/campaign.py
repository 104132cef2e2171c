"""As many kills as asked for, and an honest summary: `make chaos KILLS=300 SEED=1`.

No failure in k kills bounds the rate of failures below 3/k at 95 % (rule of three).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from kill_campaign import Tally, run_kills

KILLS_PER_JOB = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    tally = Tally()
    failures = 0
    began = time.monotonic()
    while tally.kills < arguments.kills:
        seed = arguments.seed * 100_000 + tally.runs
        directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        left = arguments.kills - tally.kills
        try:
            run_kills(directory, random.Random(seed), min(KILLS_PER_JOB, left), tally)
        except AssertionError as error:
            failures += 1
            print(f"FAILED, seed {seed}, files in {directory}: {error}", flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if tally.runs % 10 == 0:
            print(f"{tally.kills} kills in {tally.runs} jobs, {failures} failures", flush=True)
    print_summary(tally, failures, time.monotonic() - began)
    return 1 if failures else 0


def print_summary(tally: Tally, failures: int, seconds: float) -> None:
    print(f"\n{'fault':44}kills")
    for name, count in sorted(tally.struck.items()):
        print(f"{name:44}{count}")
    print(
        f"\n{tally.kills} faults in {tally.runs} jobs ({tally.starts} processes, {tally.missed} "
        f"faults not reached) in {seconds:.0f} s: {failures} jobs with lost, doubled or wrong "
        "records, or without an end."
    )
    if not failures and tally.kills:
        print(f"With 95 % confidence the rate is below {3 / tally.kills:.2%} of kills.")


if __name__ == "__main__":
    raise SystemExit(main())
