"""Measures Penstock beside its peers: `make bench`, or `make bench QUICK=1`."""

from __future__ import annotations

import argparse

from bench.contenders import all_contenders
from bench.latency import Latency, measure_latency
from bench.measure import RunError
from bench.race import Result, WrongResult, race
from bench.report import tables, write_page


def main() -> int:
    """Runs every contender one after the other; the page is written only by a complete run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, figures not for keeps")
    parser.add_argument("--only", default="", help="only contenders whose name contains this text")
    options = parser.parse_args()

    results: list[Result] = []
    failures: list[str] = []
    for contender in all_contenders():
        if options.only not in contender.name:
            continue
        try:
            result = race(contender, quick=options.quick)
        except (RunError, WrongResult) as error:
            failures.append(str(error))
            print(f"FAILED {error}", flush=True)
            continue
        results.append(result)
        print(f"{contender.name}: {result.rate:,.0f} records/s", flush=True)

    latency: Latency | None = None
    if options.only in "latency":
        try:
            latency = measure_latency(quick=options.quick)
        except RunError as error:
            failures.append(str(error))
            print(f"FAILED {error}", flush=True)

    print("\n" + tables(results, latency))
    if failures:
        print(f"{len(failures)} measurements failed, see above.")
        return 1
    if not options.only and not options.quick:
        print(f"Wrote {write_page(results, latency)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
