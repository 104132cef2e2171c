"""Measures Penstock beside its peers, and its checkpoints: `make bench`, `make bench QUICK=1`.

python -m bench [peers|checkpoints] [--quick] [--only "users, PySpark"]
"""

from __future__ import annotations

import argparse
import signal
import sys

from bench.checkpoints import CheckpointResult, checkpoint_tables, measure_checkpoints
from bench.contenders import all_contenders
from bench.kafka import KafkaLatency, Topics, measure_kafka_latency
from bench.latency import Latency, measure_latency
from bench.measure import RunError
from bench.race import Result, WrongResult, race
from bench.report import tables, write_checkpoints, write_peers


def main() -> int:
    """Runs one after the other; a part of the page is written only when all of it was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", choices=("all", "peers", "checkpoints"), default="all")
    parser.add_argument("--quick", action="store_true", help="small inputs, figures not for keeps")
    parser.add_argument("--only", default="", help="only measurements whose name holds this text")
    options = parser.parse_args()
    is_kept = not options.only and not options.quick
    # A run that is ended from outside leaves no programs and no broker behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    failures: list[str] = []
    if options.part != "checkpoints":
        measured = _peers(options.only, quick=options.quick, failures=failures)
        print("\n" + tables(*measured))
        if is_kept and not failures:
            print(f"Wrote {write_peers(*measured)}")
    if options.part != "peers":
        known = len(failures)
        found = _checkpoints(options.only, quick=options.quick, failures=failures)
        print("\n" + checkpoint_tables(found))
        if is_kept and len(failures) == known:
            print(f"Wrote {write_checkpoints(found)}")
    if failures:
        print(f"{len(failures)} measurements failed, see above.")
    return 1 if failures else 0


def _peers(
    only: str, *, quick: bool, failures: list[str]
) -> tuple[list[Result], Latency | None, list[KafkaLatency]]:
    results: list[Result] = []
    of_kafka: list[KafkaLatency] = []
    with Topics() as topics:
        for contender in all_contenders():
            if only not in contender.name:
                continue
            try:
                result = race(contender, topics, quick=quick)
            except (RunError, WrongResult) as error:
                _failed(failures, error)
                continue
            results.append(result)
            print(f"{contender.name}: {result.rate:,.0f} records/s", flush=True)
        for guarantee in ("AT_LEAST_ONCE", "EXACTLY_ONCE"):
            if only not in f"kafka, latency, {guarantee}":
                continue
            try:
                of_kafka.append(measure_kafka_latency(topics, guarantee, quick=quick))
            except RunError as error:
                _failed(failures, error)
    latency: Latency | None = None
    if only in "latency":
        try:
            latency = measure_latency(quick=quick)
        except RunError as error:
            _failed(failures, error)
    return results, latency, of_kafka


def _checkpoints(only: str, *, quick: bool, failures: list[str]) -> list[CheckpointResult]:
    return measure_checkpoints(
        quick=quick, only=only, failed=lambda error: _failed(failures, error)
    )


def _failed(failures: list[str], error: Exception) -> None:
    failures.append(str(error))
    print(f"FAILED {error}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
