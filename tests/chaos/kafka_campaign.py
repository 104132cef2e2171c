"""Kills jobs between two topics of Kafka, and their broker: `make chaos-kafka KILLS=200 SEED=1`.

With `--master 'local[2]'` it kills Python workers, the JVM and the process of a job on Spark.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "kafka"))

from campaign import MEMORY, MOST_FAILURES, print_summary
from forked_jobs import ForkedJobs
from kafka_kills import KafkaRun, random_fault, random_spark_fault, start
from kill_campaign import Tally

from kafka_broker import Broker, missing

KILLS_PER_JOB = 12
KILLS_PER_JOB_ON_SPARK = 30
"""A JVM starts for longer than it takes to kill ten workers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--master", default="in-process")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no fault after so long"
    )
    arguments = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    # A campaign that is ended from outside leaves no jobs, brokers and files behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    is_spark = arguments.master != "in-process"
    starter = start if is_spark else ForkedJobs("kafka_kill_job")
    per_job = KILLS_PER_JOB_ON_SPARK if is_spark else KILLS_PER_JOB
    tally, failures = Tally(), 0
    memory = MEMORY if Path(MEMORY).is_dir() else None
    began = time.monotonic()

    def goes_on() -> bool:
        return tally.kills < arguments.kills and time.monotonic() - began < arguments.seconds

    while goes_on() and failures < MOST_FAILURES:
        seed = arguments.seed * 100_000 + tally.runs
        directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=memory))
        (directory / "broker").mkdir()
        rng = random.Random(seed)
        is_kept = False
        try:
            with Broker(directory / "broker") as broker:
                run = KafkaRun(directory, broker, rng, tally, starter, arguments.master)
                try:
                    for _ in range(per_job):
                        if goes_on():
                            run.suffer(random_spark_fault(rng) if is_spark else random_fault(rng))
                    run.finish()
                except AssertionError as error:
                    failures, is_kept = failures + 1, True
                    print(f"FAILED, seed {seed}, files in {directory}: {error}", flush=True)
                finally:
                    run.close()
        finally:
            if not is_kept:
                shutil.rmtree(directory, ignore_errors=True)
        seconds = time.monotonic() - began
        print(f"{tally.kills} kills in {seconds:.0f} s, {failures} failures", flush=True)
    print_summary(tally, failures, time.monotonic() - began)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
