"""As many kills as asked for, and an honest summary: `make chaos KILLS=300 SEED=1`.

With `MASTER=local[2]` or `MASTER=local-cluster[2,1,1024]` the jobs run on Spark, and its Python
workers and executors are killed as well. With `MASTER=hosts` they run on a cluster of hosts, whose
faults are those of `hosts_campaign.py`.

No failure in k kills bounds the rate of failures below 3/k at 95 % (rule of three).
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

from forked_jobs import ForkedJobs
from hosts import missing, spark_on_hosts
from hosts_campaign import LOST_SOON, WORKERS, run_faults
from kill_campaign import Run, Tally, run_kills
from kill_oracle import start

KILLS_PER_JOB = 6
FAULTS_PER_JOB = 6
MOST_FAILURES = 10
MEMORY = "/dev/shm"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--master", default="in-process")
    arguments = parser.parse_args()
    # A campaign that is ended from outside leaves no processes and namespaces behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    if arguments.master == "hosts":
        return on_hosts(arguments.kills, arguments.seed)
    tally = Tally()
    # A job on Spark waits for a JVM; nothing is gained by copies there.
    starter = ForkedJobs() if arguments.master == "in-process" else start
    failures = 0
    # A killed process loses nothing that it has written, so the files may be in memory.
    memory = MEMORY if Path(MEMORY).is_dir() else None
    began = time.monotonic()
    while tally.kills < arguments.kills and failures < MOST_FAILURES:
        seed = arguments.seed * 100_000 + tally.runs
        directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=memory))
        left = arguments.kills - tally.kills
        rng = random.Random(seed)
        run = Run(directory, rng, tally, master=arguments.master, starter=starter)
        try:
            run_kills(run, min(KILLS_PER_JOB, left))
        except AssertionError as error:
            failures += 1
            print(f"FAILED, seed {seed}, files in {directory}: {error}", flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            run.close()
        if tally.runs % 10 == 0 or run.victims:
            print(f"{tally.kills} kills in {tally.runs} jobs, {failures} failures", flush=True)
    print_summary(tally, failures, time.monotonic() - began)
    return 1 if failures else 0


def on_hosts(kills: int, seed: int) -> int:
    """The same on hosts; each cluster has one job after the other until one fails."""
    if reason := missing():
        sys.exit(reason)
    tally, failures, began = Tally(), 0, time.monotonic()
    while tally.kills < kills and failures < MOST_FAILURES:
        directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        with spark_on_hosts(directory, WORKERS, settings=LOST_SOON) as (hosts, spark):
            try:
                while tally.kills < kills:
                    number = seed * 100_000 + tally.runs
                    most = min(FAULTS_PER_JOB, kills - tally.kills)
                    run_faults(hosts, spark, random.Random(number), tally, most)
                    seconds = time.monotonic() - began
                    print(f"{tally.kills} faults in {seconds:.0f} s, seed {number}", flush=True)
            except AssertionError as error:
                failures += 1
                (directory / "failure.txt").write_text(str(error))
                print(f"FAILED, seed {number}, files in {directory}: {str(error)[:1500]}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
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
