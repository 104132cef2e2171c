"""Starts a Kafka broker, writes events, runs examples/kafka_minutes.py, and checks every count.

    python tools/demo_kafka.py [EVENTS]

The broker is of one node, on this machine only, and gone afterwards with all that it held. Its jars
come from Maven into .bench/kafka, once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from kafka_broker import Broker, missing  # noqa: E402

CHANNELS = ("app", "mail", "shop", "web")
BEHAVIORS = ("buy", "click", "view")
SHOWN = 8
MINUTE_MS = 60_000


def events(count: int) -> list[str]:
    """Makes lines of one hour from 2026 on, up to 50 seconds out of order."""
    chance = random.Random(1)
    start_ms, step_ms = 1_767_225_600_000, 3_600_000 / count
    times = [start_ms + int(number * step_ms) for number in range(count)]
    late = [max(stamp - chance.randrange(50_000), start_ms) for stamp in times]
    return [
        f"{stamp}\t{chance.choice(CHANNELS)}\t{number}\t{chance.choice(BEHAVIORS)}"
        for number, stamp in enumerate(late)
    ]


def expected(lines: list[str]) -> Counter[str]:
    """Counts in plain Python what the job must write."""
    counts: Counter[tuple[int, str, str]] = Counter()
    for line in lines:
        stamp, channel, _, behavior = line.split("\t")
        counts[int(stamp) // MINUTE_MS * MINUTE_MS, channel, behavior] += 1
    return Counter("\t".join(map(str, (*key, count))) for key, count in counts.items())


def main() -> int:
    """Runs the demonstration; returns 1 if some count is wrong."""
    if reason := missing():
        sys.exit(reason)
    lines = events(int(sys.argv[1]) if sys.argv[1:] else 100_000)
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory)) as broker:
        print(f"A Kafka broker runs at {broker.address}.")
        broker.create_topic("events", 2)
        broker.create_topic("minutes", 2)
        broker.produce("events", lines)
        print(f"Topic 'events' has {len(lines):,} lines such as {lines[0]!r}.", flush=True)
        began_s = time.monotonic()
        program = ROOT / "examples" / "kafka_minutes.py"
        settings = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": broker.address}
        subprocess.run([sys.executable, program], env=settings, check=True)
        took_s = time.monotonic() - began_s
        found = [value.decode() for value in broker.values("minutes")]
    for line in sorted(found)[:SHOWN]:
        print(line)
    print(f"… and {len(found) - SHOWN:,} more lines in topic 'minutes', after {took_s:.1f} s.")
    if Counter(found) != expected(lines):
        print("Some counts are wrong.")
        return 1
    print(f"Each of the {len(lines):,} events was counted exactly once.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
